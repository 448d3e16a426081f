"""Options shared by several commands."""

import argparse
import json
import math
import os
from typing import Any

from benchmark.engines.core.names import DTYPES
from tasks.errors import UserError

PROCESSES_PER_CORE = 4
"""Worker processes or threads that may be asked for; more only wait for each other."""
MOST_PLACES = 65_536
"""Episodes in flight, at most."""
MOST_GPUS = 1_024
"""Of one machine, at most; a dry run lists what each does."""


def data() -> argparse.ArgumentParser:
    """The option of all commands that read panels."""
    parser = argparse.ArgumentParser(add_help=False)
    add_data(parser)
    return parser


def add_data(parser: "argparse.ArgumentParser | argparse._ArgumentGroup") -> None:
    """Add the option for the folder of tasks' data."""
    parser.add_argument(
        "--data",
        action="append",
        default=[],
        metavar="TASK=PATH",
        help="folder of a task's downloaded data (default: the task's environment "
        "variable); repeatable",
    )


def settings() -> argparse.ArgumentParser:
    """The option of all commands that play a task with chosen settings."""
    parser = argparse.ArgumentParser(add_help=False)
    add_settings(parser)
    return parser


def add_settings(parser: "argparse.ArgumentParser | argparse._ArgumentGroup") -> None:
    """Add the option for settings of tasks."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="TASK.NAME=VALUE",
        help="change a setting of a task (see `tasks`); repeatable",
    )


def env_options() -> argparse.ArgumentParser:
    """The options of all commands that play or replay."""
    parser = argparse.ArgumentParser(add_help=False, parents=[data()])
    add_env_processes(parser)
    return parser


def add_env_processes(parser: "argparse.ArgumentParser | argparse._ArgumentGroup") -> None:
    """Add the option for the number of worker processes of tasks."""
    parser.add_argument(
        "--env-processes",
        type=processes,
        metavar="N",
        help="maximum number of worker processes for tasks with slow steps; does not "
        "change results (default: one per usable core, at most 32; processes of one training run "
        "share the cores)",
    )


def add_model_options(engine: "argparse._ArgumentGroup") -> None:
    """Add the options for how an engine in this process loads its model."""
    engine.add_argument(
        "--dtype",
        default="auto",
        choices=DTYPES,
        help="type of weights and activations (default: float32 on a CPU, else the checkpoint's)",
    )
    engine.add_argument(
        "--gpu-memory-utilization",
        type=share,
        metavar="SHARE",
        help="vLLM: share of the GPU's memory, at most 1 (default: vLLM's; beside a trainer 0.4)",
    )
    engine.add_argument(
        "--tensor-parallel-size", type=count, metavar="N", help="vLLM: GPUs for one model"
    )
    engine.add_argument(
        "--max-model-len",
        type=count,
        metavar="TOKENS",
        help="vLLM: context length to reserve (default: what the protocol can need, at "
        "most the model's)",
    )


def json_object(text: str) -> dict[str, Any]:
    """Parse a JSON object, for options that pass it on."""
    refusal = f"must be a JSON object, such as '{{\"NAME\": true}}', not {text!r}"
    try:
        value = json.loads(text)
        # Python accepts more than JSON: NaN, numbers that overflow to infinity, lone surrogates.
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"{refusal} ({error})") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(refusal)
    return value


def task(text: str) -> str:
    """Parse a task's name or folder."""
    from tasks.registry import task_name

    try:
        return task_name(text)
    except UserError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def count(text: str) -> int:
    """Parse an integer of at least 1."""
    value = int(text) if text.isascii() and text.isdigit() else 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be an integer of at least 1, not {text!r}")
    return value


def share(text: str) -> float:
    """Parse a share, above 0 and at most 1."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"must be above 0 and at most 1, not {text!r}")
    return value


def places(text: str) -> int:
    """Parse a number of episodes in flight, each of which takes memory from the start."""
    value = count(text)
    if value > MOST_PLACES:
        raise argparse.ArgumentTypeError(f"at most {MOST_PLACES:,}")
    return value


def gpu_count(text: str) -> int:
    """A number of GPUs of one machine, which need not be here."""
    value = count(text)
    if value > MOST_GPUS:
        raise argparse.ArgumentTypeError(f"at most {MOST_GPUS:,}")
    return value


def seed(text: str) -> int:
    """Parse an integer of at least 0, below 2**63."""
    if not (text.isascii() and text.isdigit() and int(text) < 2**63):
        raise argparse.ArgumentTypeError(f"must be an integer of at least 0, not {text!r}")
    return int(text)


def processes(text: str) -> int:
    """A number of worker processes or threads that this machine can use."""
    value, most = count(text), PROCESSES_PER_CORE * len(os.sched_getaffinity(0))
    if value > most:
        raise argparse.ArgumentTypeError(f"at most {most} ({PROCESSES_PER_CORE} per core)")
    return value
