"""`arlarena-bench eval`: evaluate a model and write a run folder."""

import argparse
import asyncio
import contextlib
import re
import signal
import sys
from pathlib import Path

from benchmark.cli.commands.inits import find_model
from benchmark.cli.output import print_summary, write_outputs
from benchmark.cli.progress import Progress
from benchmark.engines.choose import EngineOptions, build_engine, choose_kind
from benchmark.engines.core.base import Engine
from benchmark.engines.core.scripted import POLICIES
from benchmark.evaluation.evaluate import Plan, PlannedPanel, Session, evaluate
from benchmark.evaluation.manifest import Shard
from benchmark.evaluation.protocol import SamplingOverrides
from benchmark.evaluation.run_folder import RunFolder
from benchmark.models import ModelSource, policy, served
from tasks.base import Task
from tasks.errors import UserError
from tasks.options import parse_settings
from tasks.registry import load_task, own_names


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    options = EngineOptions(
        kind=arguments.engine,
        endpoints=tuple(arguments.endpoint),
        dtype=arguments.dtype,
        concurrency=arguments.concurrency,
        gpu_memory_utilization=arguments.gpu_memory_utilization,
        tensor_parallel_size=arguments.tensor_parallel_size,
        max_model_len=arguments.max_model_len,
    )
    kind = choose_kind(options)
    source = _source(arguments.model, kind)
    plan = Plan.of(
        _panels(arguments.task, arguments.panel, source.task),
        _choices(arguments),
        _shard(arguments.shard),
        parse_settings(arguments.set),
    )
    out = Path(arguments.out) if arguments.out else _default_folder(source, kind, plan)
    try:
        folder, session = asyncio.run(
            _evaluate(plan, build_engine(kind, options, source), source, out, arguments)
        )
    except (asyncio.CancelledError, KeyboardInterrupt):
        print(
            f"\nstopped; finished episodes are in {out}: run the same command again to resume",
            file=sys.stderr,
        )
        raise KeyboardInterrupt from None
    summary = write_outputs(folder.path, env_processes=arguments.env_processes)
    print_summary(summary, folder.path, session)
    return 0


async def _evaluate(
    plan: Plan, engine: Engine, source: ModelSource, out: Path, arguments: argparse.Namespace
) -> tuple[RunFolder, Session]:
    task = asyncio.current_task()
    assert task is not None
    # A scheduler's SIGTERM deserves the same orderly end as Ctrl-C.
    with contextlib.suppress(NotImplementedError):
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    for planned in plan.panels:
        protocol = planned.protocol
        print(f"{protocol.task}/{protocol.panel}: {planned.panel.info.description}")
        if protocol.repeats > 1 and protocol.sampling.temperature == 0:
            print("note: greedy plays of an episode are alike; --temperature makes them differ")
    async with engine:
        manifest = plan.manifest(source.identity, engine)
        context = manifest.engine.get("context")
        longest = max(map(_room, plan.panels))
        if context is not None and context <= longest:
            print(
                f"note: the model's context of {context} tokens leaves less than the protocol's "
                f"{longest} for responses: some may be cut"
            )
        with RunFolder(out, manifest, plan.keys()) as folder:
            if folder.dropped_bytes:
                print(f"dropped {folder.dropped_bytes} bytes of a record that a crash cut off")
            if arguments.retry_errors and (retried := folder.drop_errors()):
                print(f"playing {retried} episodes again that were recorded as errors")
            if folder.records:
                print(f"resuming {out}: {len(folder.records)} episodes are there")
            with Progress(len(plan.keys()), folder.records.values()) as progress:
                session = await evaluate(
                    plan,
                    engine,
                    folder,
                    arguments.concurrency,
                    progress.update,
                    arguments.env_processes,
                )
    return folder, session


def _room(planned: PlannedPanel) -> int:
    """Tokens of responses that a prompt may be followed by."""
    protocol = planned.protocol
    turns = protocol.max_turns if planned.task.info.unit == "trajectory" else 1
    return turns * protocol.sampling.max_tokens


def _source(model: str | None, kind: str) -> ModelSource:
    if kind in POLICIES:
        if model is not None:
            raise UserError(f"--engine {kind} plays by itself; leave out --model")
        return policy(kind)
    if model is None:
        raise UserError("--model is missing (or choose --engine expert or random)")
    return served(model) if kind == "openai" else find_model(model)


def _panels(
    chosen: list[str] | None, panel: str | None, own_task: str | None
) -> list[tuple[str, str]]:
    """Resolve --task and --panel to (task, panel) pairs."""
    names = chosen or ([own_task] if own_task else _own_tasks())
    if panel is not None and (len(names) > 1 or "/" in names[0]):
        raise UserError("--panel goes with one --task; for several, write --task TASK/PANEL")
    pairs = []
    for name in names:
        task_name, _, panel_name = name.partition("/")
        task = load_task(task_name)
        pair = (task_name, panel_name or panel or _default_panel(task))
        if pair in pairs:
            raise UserError(f"{task_name}/{pair[1]} is named twice")
        pairs.append(pair)
    return pairs


def _own_tasks() -> list[str]:
    """The benchmark's tasks; one that somebody has begun and not finished is left out."""
    names = []
    for name in own_names():
        try:
            load_task(name).panels()
        except UserError as error:
            print(f"not played: {error}")
        else:
            names.append(name)
    return names


def _default_panel(task: Task) -> str:
    """The task's default; where the field's own panel is not here, that is said."""
    default = task.default_panel()
    if task.info.field_panel not in {None, default}:
        print(
            f"{task.info.name}/{task.info.field_panel} is not on this machine, so {default} is "
            f"played (name a panel with --task {task.info.name}/PANEL)"
        )
    return default


def _choices(arguments: argparse.Namespace) -> SamplingOverrides:
    temperature, top_p, top_k = arguments.temperature, arguments.top_p, arguments.top_k
    if temperature is not None and not 0 <= temperature <= 10:
        raise UserError(f"--temperature must lie in 0 to 10, not {temperature}")
    if top_p is not None and not 0 < top_p <= 1:
        raise UserError(f"--top-p must lie above 0 and up to 1, not {top_p}")
    if top_k is not None and top_k < 0:
        raise UserError(f"--top-k must be 0 (off) or more, not {top_k}")
    return SamplingOverrides(
        temperature, top_p, top_k, arguments.max_tokens, arguments.repeats, arguments.seed
    )


def _shard(text: str | None) -> Shard | None:
    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text, re.ASCII)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise UserError(f"--shard must be I/N with I from 1 to N, not {text!r}")
    return Shard(index=int(match[1]), count=int(match[2]))


def _default_folder(source: ModelSource, kind: str, plan: Plan) -> Path:
    """A name that the same command always gives, and another command does not."""
    model = re.sub(r"[^\w.-]+", "-", source.identity.name)
    revision = source.identity.revision or source.identity.sha256
    parts = [model, kind, plan.fingerprint[:8]]
    if revision:
        parts.insert(1, revision[:8])
    if plan.shard:
        parts.append(f"{plan.shard.index}of{plan.shard.count}")
    return Path("runs") / "_".join(dict.fromkeys(parts))
