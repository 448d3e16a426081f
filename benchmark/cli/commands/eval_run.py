"""Carries out `eval`: from options to a run folder."""

import argparse
import asyncio
import contextlib
import math
import re
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmark.adapters import find_adapter, with_adapter
from benchmark.cli.commands.eval import panels_of, shard_of
from benchmark.cli.from_baselines import find_model, init_tasks, with_init_settings
from benchmark.cli.progress import Progress
from benchmark.cli.say import say
from benchmark.engines.choose import EngineOptions, build_engine, choose_kind, idle_gpu, unused_gpus
from benchmark.engines.core.base import Engine, Generation, Request
from benchmark.engines.core.names import LOADING, POLICIES
from benchmark.engines.core.show_prompts import WatchedEngine
from benchmark.evaluation.evaluate import Plan, PlannedPanel, Session, evaluate
from benchmark.evaluation.manifest import Manifest, Shard
from benchmark.evaluation.notes import notes_of
from benchmark.evaluation.protocol import (
    NAME,
    THINKING,
    SamplingOverrides,
    protocol_text,
    with_images,
)
from benchmark.evaluation.run_folder import MANIFEST, RunFolder, check_folder
from benchmark.models import ModelSource, policy, served
from tasks.chat.messages import shown_text
from tasks.errors import UserError
from tasks.options import parse_settings
from tasks.panels import LEAST_TEMPERATURE, is_temperature
from tasks.texts import counted

CONCURRENCY = 64
"""Default number of episodes in flight per copy of a model."""


def play(
    arguments: argparse.Namespace, command: Sequence[str] | None = None
) -> tuple[Path, Session]:
    """Play what is missing from a run.

    The cheapest checks come first: names and numbers, the panels, the folder, the engine, the
    model's files.

    Args:
        arguments: The options, checked by `check_words`.
        command: The command to record in `run.json`; None for this process's own.

    Returns:
        The run's folder, and the results of this session.

    Raises:
        UserError: An option is invalid, or the evaluation is not possible.
        EngineDown: The engine failed permanently; the run can be resumed.
        KeyboardInterrupt: It was stopped; the run can be resumed.
    """
    plan = _plan(arguments)
    given = Path(arguments.out) if arguments.out else None
    made = given is None or not given.exists()
    if given is not None:
        check_folder(given, plan.protocols, plan.shard, plan.limit)
    options = _engine_options(arguments, plan)
    kind = choose_kind(options)
    if kind == "transformers" and arguments.engine == "auto" and idle_gpu():
        say("note: this machine has a GPU but no vLLM for it; install it with `make install-vllm`")
    out = given
    try:
        source = _source(arguments, kind)
        if out is None:
            out = _default_folder(source, kind, plan)
            check_folder(out, plan.protocols, plan.shard, plan.limit)
        # After the model's files, so that a misspelled name fails before torch is imported.
        if kind in LOADING and (unused := unused_gpus(options)):
            say(f"note: {unused}")
        engine = build_engine(kind, options, source)
        return out, _in_a_loop(engine, plan, source, out, arguments, command)
    except UserError:
        if out is not None and made:
            with contextlib.suppress(OSError):  # not empty: something was played there
                out.rmdir()
        raise
    except (asyncio.CancelledError, KeyboardInterrupt):
        there = out is not None and (out / MANIFEST).exists()
        begun = f"finished episodes are in {out}: run the same command again to resume"
        say(f"\nstopped; {begun if there else 'nothing was played yet'}", file=sys.stderr)
        raise KeyboardInterrupt from None


def _in_a_loop(
    engine: Engine,
    plan: Plan,
    source: ModelSource,
    out: Path,
    arguments: argparse.Namespace,
    command: Sequence[str] | None,
) -> Session:
    """Run the evaluation; next to a running event loop (notebooks), in a thread with its own."""

    def work() -> Session:
        return asyncio.run(_evaluate(plan, engine, source, out, arguments, command))

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(work).result()


async def _evaluate(
    plan: Plan,
    engine: Engine,
    source: ModelSource,
    out: Path,
    arguments: argparse.Namespace,
    command: Sequence[str] | None,
) -> Session:
    task = asyncio.current_task()
    assert task is not None
    # A scheduler's SIGTERM gets the same orderly stop as Ctrl-C. (Not in a notebook's thread.)
    with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    _announce(plan, source)
    if arguments.show_prompts:
        engine = WatchedEngine(engine, arguments.show_prompts, _show)
    say(f"loading {source.identity.text} with {engine.name}", flush=True)
    async with engine:
        manifest = plan.manifest(source.identity, engine, command)
        with RunFolder(out, manifest, plan.keys()) as folder:
            _say_what_runs(folder, plan, engine)
            if folder.dropped_bytes:
                say(f"dropped {folder.dropped_bytes} bytes of a record that a crash cut off")
            if arguments.retry_errors and (retried := folder.drop_errors()):
                say(f"playing {retried} episodes that ended in an error again")
            if folder.records:
                say(f"resuming {out}: {len(folder.records)} episodes are done")
            sys.stdout.flush()
            records = folder.records.values()
            with Progress(
                len(plan.keys()), records, lambda first: notes_of(manifest, first)
            ) as progress:
                return await evaluate(
                    plan,
                    engine,
                    folder,
                    _concurrency(arguments),
                    progress.update,
                    arguments.env_processes,
                )


def _announce(plan: Plan, source: ModelSource) -> None:
    """Print what will be played, and warnings about it."""
    for planned in plan.panels:
        protocol = planned.protocol
        say(f"{protocol.task}/{protocol.panel}: {planned.panel.info.description}")
        if protocol.repeats > 1 and protocol.sampling.temperature == 0:
            say("note: greedy repeats of an episode are identical; set --temperature to vary them")
    played = {planned.protocol.task for planned in plan.panels}
    if source.tasks and (others := sorted(played - set(source.tasks))):
        say(
            f"note: {source.identity.name} was made for {', '.join(source.tasks)} and was not "
            f"trained on {', '.join(others)}"
        )


def _say_what_runs(folder: RunFolder, plan: Plan, engine: Engine) -> None:
    """Print one line with model, engine and folder, and notes on how the model is prompted."""
    manifest: Manifest = folder.manifest
    facts = engine.describe()
    shown = [facts.get("device"), facts.get("dtype")]
    if (context := facts.get("context")) is not None:
        shown.append(f"context {context:,}")
    if facts.get("server"):
        shown.insert(0, f"{facts['server']} server")
    engine_text = ", ".join(str(fact) for fact in (engine.name, *shown) if fact)
    protocol = f"{protocol_text(manifest.panels)} protocol {plan.fingerprint[:8]}"
    if manifest.overrides:
        protocol += f", except {', '.join(manifest.overrides)} (cannot be submitted)"
    say(
        f"{manifest.model.text} on {engine_text}; {protocol}, "
        f"{counted(len(plan.keys()), 'episode')} -> {folder.path}"
    )
    if facts.get("opened"):
        say("note: the chat template opens <think>; responses begin with that tag")
    if facts["kind"] == "openai":
        for note in _notes_on_server(facts, plan):
            say(f"note: {note}")
    longest = max(map(_room, plan.panels))
    if context is not None and context <= longest:
        say(
            f"note: the model's context of {context} tokens leaves less than the "
            f"protocol's {longest} for responses: some may be truncated"
        )


def _notes_on_server(facts: Mapping[str, Any], plan: Plan) -> Iterator[str]:
    """Yield notes on server properties that are not part of the protocol's fingerprint."""
    if facts["server"] != "vllm":
        yield (
            "this server is not vLLM: top_k, min_p and penalties are not part of a request, and "
            "its own defaults apply"
        )
    if any(planned.task.info.unit == "trajectory" for planned in plan.panels):
        yield (
            "the server tokenizes earlier turns of a conversation again; in-process engines reuse "
            "their token ids; with some chat templates the two differ"
        )


def _show(number: int, request: Request, prompt: str | None, generation: Generation) -> None:
    """Print a prompt as the model received it, and its response."""
    if prompt is None:
        head = f"prompt {number}, as it was sent; the server applies the chat template"
        prompt = "\n".join(f"[{one['role']}]\n{shown_text(one)}" for one in request.messages)
    else:
        head = f"prompt {number}, as the model got it"
    say(f"--- {head}\n{prompt}\n--- response {number} ({generation.finish_reason})")
    say(f"{generation.text}\n---", flush=True)


def _room(planned: PlannedPanel) -> int:
    """Number of response tokens to reserve after a prompt."""
    protocol = planned.protocol
    turns = protocol.max_turns if planned.task.info.unit == "trajectory" else 1
    return turns * protocol.sampling.max_tokens


def _plan(arguments: argparse.Namespace) -> Plan:
    own = init_tasks(arguments.model) if arguments.model and not arguments.endpoint else ()
    part = shard_of(arguments.shard)
    panels = panels_of(arguments.task, arguments.panel, own)
    settings, tasks = parse_settings(arguments.set), {task for task, _ in panels}
    if arguments.protocol == "pixels":
        settings = with_images(settings, sorted(tasks))
    if own:
        settings = with_init_settings(arguments.model, settings, tasks)
    return Plan.of(
        panels,
        _choices(arguments),
        None if part is None else Shard(index=part[0], count=part[1]),
        settings,
        arguments.limit,
    )


def _engine_options(arguments: argparse.Namespace, plan: Plan) -> EngineOptions:
    protocols = plan.protocols
    asked = [protocol.sampling for protocol in protocols]
    return EngineOptions(
        kind=arguments.engine,
        endpoints=tuple(arguments.endpoint),
        dtype=arguments.dtype,
        # Each copy of the model gets its share of the episodes in flight.
        concurrency=math.ceil(_concurrency(arguments) / (arguments.data_parallel_size or 1)),
        gpu_memory_utilization=arguments.gpu_memory_utilization,
        tensor_parallel_size=arguments.tensor_parallel_size,
        max_model_len=arguments.max_model_len,
        data_parallel_size=arguments.data_parallel_size,
        batch_invariant=arguments.batch_invariant,
        lora=arguments.lora,
        model_args=arguments.model_args,
        response_room=max(map(_room, plan.panels)),
        chat=protocols[0].chat,
        sampling=replace(
            asked[0],
            top_k=max(sampling.top_k for sampling in asked),
            max_tokens=max(sampling.max_tokens for sampling in asked),
        ),
    )


def _concurrency(arguments: argparse.Namespace) -> int:
    """Number of episodes in flight."""
    chosen: int | None = arguments.concurrency
    return chosen or CONCURRENCY * (arguments.data_parallel_size or 1)


def _source(arguments: argparse.Namespace, kind: str) -> ModelSource:
    model: str | None = arguments.model
    if kind in POLICIES:
        return policy(kind)
    if kind == "openai":
        return served(model or _only_served(arguments.endpoint[0]))
    assert model is not None
    source = find_model(model)
    return source if arguments.lora is None else with_adapter(source, find_adapter(arguments.lora))


def _only_served(endpoint: str) -> str:
    from benchmark.engines.server.openai import only_model

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, only_model(endpoint)).result()


def _choices(arguments: argparse.Namespace) -> SamplingOverrides:
    temperature, top_p, top_k = arguments.temperature, arguments.top_p, arguments.top_k
    if temperature is not None and not (is_temperature(temperature) and temperature <= 10):
        raise UserError(
            f"--temperature must be 0, which is greedy, or from {LEAST_TEMPERATURE} to 10, not "
            f"{temperature}"
        )
    if top_p is not None and not 0 < top_p <= 1:
        raise UserError(f"--top-p must be above 0 and at most 1, not {top_p}")
    if top_k is not None and top_k < 0:
        raise UserError(f"--top-k must be 0 (off) or more, not {top_k}")
    return SamplingOverrides(
        temperature,
        top_p,
        top_k,
        arguments.max_tokens,
        arguments.repeats,
        arguments.seed,
        THINKING if arguments.protocol == "thinking" else NAME,
        arguments.chat_template_kwargs,
        arguments.extra_body,
    )


def _default_folder(source: ModelSource, kind: str, plan: Plan) -> Path:
    """A folder name that is unique to the command and the same every time."""
    from benchmark.logs.training_log import LOG

    name = source.identity.name
    if source.path is not None and (source.path.parent / LOG).is_file():
        # Checkpoints of all training runs are named last or best.
        name = f"{source.path.resolve().parent.name}-{name}"
    model = re.sub(r"[^\w.-]+", "-", name)
    revision = source.identity.revision or source.identity.sha256
    parts = [model, kind, plan.fingerprint[:8]]
    if revision:
        parts.insert(1, revision[:8])
    if (adapter := source.identity.adapter) is not None:
        parts.insert(2, f"lora-{adapter.sha256[:8]}")
    if plan.limit:
        parts.append(f"first{plan.limit}")
    if plan.shard:
        parts.append(f"{plan.shard.index}of{plan.shard.count}")
    return Path("runs") / "_".join(dict.fromkeys(parts))
