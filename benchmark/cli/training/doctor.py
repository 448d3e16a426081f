"""`arlarena-bench doctor`: whether this machine can train, on one page."""

import argparse
import asyncio
import json
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmark.cli.arguments.training import DOCTOR_SCALE
from benchmark.cli.say import say
from benchmark.cli.training.early_checks import check_run
from benchmark.cli.training.engines import (
    ENGINE_SHARE,
    check_engine,
    check_unserved,
    weight_transfer,
)
from benchmark.cli.training.gpus import launched, layout_of
from benchmark.cli.training.train import plan_run
from benchmark.engines.choose import EngineOptions, build_engine, choose_kind
from benchmark.engines.core.base import Engine
from benchmark.versions import has_gpu_vllm
from tasks.errors import UserError, os_error_as
from tasks.texts import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from baselines.config.run import TrainingRun
    from baselines.doctor.machine import Diagnosis, Machine
    from baselines.doctor.needs import Needs
    from baselines.doctor.smoke import Smoke

_OF_RUNS = (
    *("task", "recipe", "scale", "set", "plugin", "chat_template_kwargs"),
    *("async_rollouts", "serve_gpus"),
)
"""Options that only apply to a planned run."""


def run(arguments: argparse.Namespace) -> int:
    """Run the command; exit code 1 if a run would fail or be wrong."""
    from baselines.doctor.machine import Diagnosis, findings, read_machine
    from baselines.doctor.page import as_json, page

    planned = arguments.init is not None or arguments.track is not None
    if not planned:
        for option in _OF_RUNS:
            if getattr(arguments, option) not in (None, [], {}):
                raise UserError(
                    f"--{option.replace('_', '-')} needs --init or --track: it applies to a "
                    "planned run"
                )
    out = Path(arguments.out or "runs")
    if out.exists() and not out.is_dir():
        raise UserError(f"--out {out} is not a folder")
    options = _options(arguments)
    machine = read_machine(out, choose_kind(options))
    problems = [*findings(machine), *_gpu_findings(arguments, machine)]
    needs = _needs(arguments, machine) if planned else None
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

    if not arguments.endpoint and arguments.gpus is None:
        check_unserved(arguments)
    share = arguments.gpu_memory_utilization
    return EngineOptions(
        kind=arguments.engine,
        endpoints=tuple(arguments.endpoint),
        dtype=arguments.dtype,
        tensor_parallel_size=arguments.tensor_parallel_size,
        max_model_len=arguments.max_model_len,
        gpu_memory_utilization=ENGINE_SHARE
        if share is None and torch.cuda.is_available() and not arguments.endpoint
        else share,
        sleeps=arguments.sleep,
        deterministic=True,
        beside_trainer=True,
    )


def _needs(arguments: argparse.Namespace, machine: "Machine") -> "Needs":
    """The needs of the planned run, including errors that `train` would raise."""
    from baselines.doctor.machine import Diagnosis
    from baselines.doctor.needs import policy_needs
    from benchmark.cli.main import parse

    defaults = [] if arguments.recipe else ["--recipe", "sampo"]
    if arguments.scale is None and arguments.track is None:
        defaults += ["--scale", DOCTOR_SCALE]
    planned = plan_run(parse([*arguments.words, *defaults]))
    training, plan, own = planned.training, planned.plan, planned.arguments
    # The host's memory does not indicate the memory of absent GPUs.
    whole = None if arguments.gpus else machine.memory
    whole = min((gpu.memory for gpu in machine.gpus), default=whole)
    fixed = any("micro_batch_tokens=" in text for text in arguments.set)
    layout = launched(training, own) if plan is None else layout_of(plan, own)
    serving = 0 if plan is None else len(plan.serving)
    needs = policy_needs(training, machine, layout, serving, whole, not fixed)
    findings = list(needs.findings)
    checks = partial(check_engine, training, own), partial(check_run, training)
    for check in checks:
        try:
            check(planned.processes)
        except UserError as error:
            findings.append(Diagnosis(True, str(error)))
    return replace(needs, findings=findings)


def _gpu_findings(arguments: argparse.Namespace, machine: "Machine") -> "Iterator[Diagnosis]":
    """Check that there are enough GPUs, and enough shared memory for their processes."""
    from baselines.doctor.machine import LEAST_SHARED, Diagnosis

    if arguments.gpus is not None and arguments.gpus > len(machine.gpus):
        there = counted(len(machine.gpus), "GPU")
        yield Diagnosis(True, f"--gpus {arguments.gpus}: torch sees {there} on this machine")
    if arguments.gpus is not None and not has_gpu_vllm():
        yield Diagnosis(True, f"--gpus {arguments.gpus} needs vLLM for GPUs: make install-vllm")
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
        with os_error_as(f"--out {arguments.out} cannot be written"):
            Path(arguments.out).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="arlarena-doctor-", dir=arguments.out) as folder:
        training = smoke_run(Path(folder))

        def build() -> Engine:
            kind = choose_kind(options)
            if kind != "openai":
                return build_engine(kind, options, training.init)
            return _servers(training, arguments)

        return asyncio.run(run_smoke(training, build))


def _servers(training: "TrainingRun", arguments: argparse.Namespace) -> Engine:
    """Connect to servers of the tiny model."""
    from benchmark.engines.server.openai import OpenAIEngine

    name = arguments.served_model or training.init.identity.name
    transfer = weight_transfer(training, arguments)
    return OpenAIEngine(arguments.endpoint, name, transfer=transfer)
