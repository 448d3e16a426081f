"""What the options of several commands have in common."""

import argparse
import os

from tasks.errors import UserError

PROCESSES_PER_CORE = 4
"""Worker processes that may be asked for; more only wait for each other."""


def data() -> argparse.ArgumentParser:
    """The option of commands that read panels."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument(
        "--data",
        action="append",
        default=[],
        metavar="TASK=PATH",
        help="folder of a task's downloaded data (default: what its environment variable names); "
        "repeat for several",
    )
    return parser


def settings() -> argparse.ArgumentParser:
    """The option of commands that play a task as it is chosen to be."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="TASK.NAME=VALUE",
        help="a setting of a task that is not the standard one (see `tasks`); repeat for several",
    )
    return parser


def env_options() -> argparse.ArgumentParser:
    """The options of commands that play or replay."""
    parser = argparse.ArgumentParser(add_help=False, parents=[data()])
    parser.add_argument(
        "--env-processes",
        type=processes,
        metavar="N",
        help="worker processes for the episodes of tasks with slow steps, at most; no result "
        "depends on it (default: one for each usable core, at most 32)",
    )
    return parser


def add_model_options(engine: "argparse._ArgumentGroup") -> None:
    """How an engine in this process loads its model."""
    engine.add_argument(
        "--dtype", default="auto", choices=("auto", "float32", "bfloat16", "float16")
    )
    engine.add_argument("--gpu-memory-utilization", type=float, help="vLLM: share of the GPU")
    engine.add_argument("--tensor-parallel-size", type=count, help="vLLM: GPUs per model")
    engine.add_argument("--max-model-len", type=count, help="vLLM: context to reserve")


def task(text: str) -> str:
    """A task by its name, or by the folder that it is in."""
    from tasks.registry import task_name

    try:
        return task_name(text)
    except UserError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def count(text: str) -> int:
    """A whole number of at least 1."""
    value = int(text) if text.isascii() and text.isdigit() else 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, not {text!r}")
    return value


def seed(text: str) -> int:
    """A whole number from 0 on, below 2**63."""
    if not (text.isascii() and text.isdigit() and int(text) < 2**63):
        raise argparse.ArgumentTypeError(f"must be a whole number from 0 on, not {text!r}")
    return int(text)


def processes(text: str) -> int:
    """A number of worker processes that this machine can use."""
    value, most = count(text), PROCESSES_PER_CORE * len(os.sched_getaffinity(0))
    if value > most:
        raise argparse.ArgumentTypeError(f"at most {most} ({PROCESSES_PER_CORE} a core)")
    return value
