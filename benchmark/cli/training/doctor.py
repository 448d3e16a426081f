"""`arlarena-bench doctor`: whether this machine can train, on one page."""

import argparse
import asyncio
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from benchmark.cli.from_baselines import find_model
from benchmark.cli.say import say
from benchmark.cli.training.choices import task_shares
from benchmark.cli.training.early_checks import check_run
from benchmark.cli.training.engines import (
    ENGINE_SHARE,
    check_unserved,
    transformers_models,
    usual_dtype,
    weight_transfer,
)
from benchmark.cli.training.gpus import layout_of
from benchmark.cli.training.train import set_threads
from benchmark.engines.choose import EngineOptions, build_engine, choose_kind
from benchmark.engines.core.base import Engine
from tasks.errors import UserError
from tasks.texts import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from baselines.config.layout import Layout
    from baselines.config.run import TrainingRun
    from baselines.doctor.machine import Diagnosis, Machine
    from baselines.doctor.needs import Needs
    from baselines.doctor.smoke import Smoke


def run(arguments: argparse.Namespace) -> int:
    """Run the command; exit code 1 if a run would fail or be wrong."""
    from baselines.doctor.machine import Diagnosis, findings, read_machine
    from baselines.doctor.page import as_json, page

    if arguments.init is None:
        for option in ("task", "recipe", "scale", "set", "serve_gpus"):
            if getattr(arguments, option):
                raise UserError(
                    f"--{option.replace('_', '-')} needs --init: it applies to the policy to be "
                    "trained"
                )
    out = Path(arguments.out or "runs")
    if out.exists() and not out.is_dir():
        raise UserError(f"--out {out} is not a folder")
    set_threads(arguments.threads)
    options = _options(arguments)
    machine = read_machine(out, choose_kind(options))
    problems = [*findings(machine), *_gpu_findings(arguments, machine)]
    needs = None if arguments.init is None else _needs(arguments, machine)
    problems += needs.findings if needs is not None else []
    smoke = None if arguments.no_smoke else _smoke(arguments, options)
    if smoke is not None and smoke.failure is not None:
        problems.append(Diagnosis(True, f"{smoke.doing}: {smoke.failure}"))
    if arguments.json:
        say(json.dumps(as_json(machine, needs, smoke, problems), indent=1))
    else:
        say(page(machine, needs, smoke, problems))
    return int(any(one.fatal for one in problems))


def _options(arguments: argparse.Namespace) -> EngineOptions:
    import torch

    if not arguments.endpoint:
        check_unserved(arguments)
    share = arguments.gpu_memory_utilization
    return EngineOptions(
        kind=arguments.engine,
        endpoints=tuple(arguments.endpoint),
        gpu_memory_utilization=ENGINE_SHARE
        if share is None and torch.cuda.is_available() and not arguments.endpoint
        else share,
        sleeps=arguments.sleep,
        deterministic=True,
        beside_trainer=True,
    )


def _needs(arguments: argparse.Namespace, machine: "Machine") -> "Needs":
    """What the policy that is named would need."""
    from baselines.config.layers import resolve
    from baselines.config.run import TrainingRun
    from baselines.doctor.machine import Diagnosis
    from baselines.doctor.needs import policy_needs
    from tasks.registry import load_task

    init = find_model(arguments.init)
    names, mixture = task_shares(arguments.task or list(init.tasks))
    if not names:
        raise UserError(
            "--task is missing, such as --task sokoban: the init belongs to no particular task"
        )
    recipe, scale = arguments.recipe or "sampo", arguments.scale or "paper"
    config = resolve(recipe, scale, names, [*mixture, *arguments.set])
    tasks = tuple(load_task(name) for name in names)
    folder = Path(arguments.out or "runs")
    kind = machine.engine if arguments.gpus is None else "vllm"
    training = TrainingRun(
        Path(recipe).stem,
        config,
        tasks,
        init,
        0,
        folder,
        weights_dtype=usual_dtype(config, kind),
        weights_on_gpu=arguments.weights_nccl is not None,
    )
    # The host's memory says nothing about GPUs that are not there.
    whole = None if arguments.gpus else machine.memory
    whole = min((gpu.memory for gpu in machine.gpus), default=whole)
    fixed = any("micro_batch_tokens=" in text for text in arguments.set)
    layout, serving = _layout(training, arguments, machine)
    needs = policy_needs(training, machine, layout, serving, whole, not fixed)
    try:
        check_run(training, layout.processes)
    except UserError as error:
        return replace(needs, findings=(*needs.findings, Diagnosis(True, str(error))))
    return needs


def _layout(
    training: "TrainingRun", arguments: argparse.Namespace, machine: "Machine"
) -> "tuple[Layout, int]":
    """What `train` would make of as many GPUs, and how many of them serve.

    Raises:
        UserError: It would refuse the numbers.
    """
    from baselines.config.layout import Layout
    from baselines.launch.plan import plan_gpus

    count = arguments.gpus or 1
    if arguments.endpoint:
        return Layout(count, count > 1), 0
    if arguments.gpus is None and machine.engine == "transformers":
        return Layout(everywhere=True, models=transformers_models(training, "auto")), 0
    plan = plan_gpus(count, arguments.serve_gpus, tuple(map(str, range(count))))
    return layout_of(plan, arguments), len(plan.serving)


def _gpu_findings(arguments: argparse.Namespace, machine: "Machine") -> "Iterator[Diagnosis]":
    """Whether there are as many GPUs as are asked for, and memory for their processes to share."""
    from baselines.doctor.machine import LEAST_SHARED, Diagnosis

    if arguments.gpus is not None and arguments.gpus > len(machine.gpus):
        there = counted(len(machine.gpus), "GPU")
        yield Diagnosis(True, f"--gpus {arguments.gpus}: torch sees {there} on this machine")
    shared = machine.shared_memory or 0.0
    if (arguments.gpus or 1) > 1 and shared < LEAST_SHARED:
        yield Diagnosis(
            False,
            f"only {shared:.2f} GiB are free in /dev/shm, through which NCCL's processes may "
            "exchange data: enlarge it (docker run --shm-size)",
        )


def _smoke(arguments: argparse.Namespace, options: EngineOptions) -> "Smoke":
    from baselines.doctor.smoke import run_smoke, smoke_run

    if arguments.out is not None:
        try:
            Path(arguments.out).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"--out {arguments.out} cannot be written: {error.strerror}") from error
    with tempfile.TemporaryDirectory(prefix="arlarena-doctor-", dir=arguments.out) as folder:
        training = smoke_run(Path(folder))

        def build() -> Engine:
            kind = choose_kind(options)
            if kind != "openai":
                return build_engine(kind, options, training.init)
            return _servers(training, arguments)

        return asyncio.run(run_smoke(training, build))


def _servers(training: "TrainingRun", arguments: argparse.Namespace) -> Engine:
    """Servers of the tiny model."""
    from benchmark.engines.server.openai import OpenAIEngine

    name = arguments.served_model or training.init.identity.name
    transfer = weight_transfer(training, arguments)
    return OpenAIEngine(arguments.endpoint, name, transfer=transfer)
