"""Scripts that run in several processes, as if started by torch's launcher."""

import multiprocessing
import os
import runpy
import socket
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
LOADED = ["accelerate", "torch", "transformers.models.qwen3.modeling_qwen3"]
"""Imported once, in the process that ranks are forked from: it takes longer than most runs."""
LONGEST = 600.0
"""Seconds that ranks may take on a busy machine."""


def run_together(
    script: Path, *arguments: str, count: int = 2, environment: Mapping[str, str] | None = None
) -> None:
    """Run a script in forked processes, all of which must succeed."""
    ended = end_together(script, *arguments, count=count, environment=environment)
    assert [rank.code for rank in ended] == [0] * count, [rank.said for rank in ended]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a rank ended.

    Attributes:
        code: Its exit code; if a signal killed it, minus the signal's number.
        said: Its standard error.
    """

    code: int | None
    said: str


def end_together(
    script: Path,
    *arguments: str,
    count: int = 2,
    environment: Mapping[str, str] | None = None,
    within: float = LONGEST,
) -> list[Ended]:
    """Run a script in forked processes, however they end; who takes longer is killed."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LOADED)
    with tempfile.TemporaryDirectory() as folder:
        said = [Path(folder) / str(rank) for rank in range(count)]
        ranks = [
            context.Process(target=_run, args=(script, arguments, rank, file))
            for rank, file in zip(_environments(count, environment), said, strict=True)
        ]
        deadline = time.monotonic() + within
        try:
            for process in ranks:
                process.start()
            for process in ranks:
                process.join(max(deadline - time.monotonic(), 0))
        finally:
            # A rank that is left would hold up the end of this process.
            for process in ranks:
                if process.is_alive():
                    process.kill()
                    process.join()
        return [
            Ended(process.exitcode, path.read_text("utf-8"))
            for process, path in zip(ranks, said, strict=True)
        ]


def _environments(count: int, own: Mapping[str, str] | None) -> list[dict[str, str]]:
    """Environment variables with which ranks find each other, over gloo."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(count)}
    shared |= {"LOCAL_WORLD_SIZE": str(count), "ACCELERATE_USE_CPU": "1", **(own or {})}
    return [shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(count)]


def _run(
    script: Path, arguments: tuple[str, ...], environment: Mapping[str, str], said: Path
) -> None:
    """Run the script as `python script arguments`, with standard error redirected to a file."""
    os.environ.update(environment)
    with said.open("w") as file:
        os.dup2(file.fileno(), 2)
    sys.argv = [str(script), *arguments]
    runpy.run_path(str(script), run_name="__main__")
