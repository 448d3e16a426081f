"""Scripts that several processes run together, as torch's launcher would start them."""

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]


def start_together(
    script: Path, *arguments: str, count: int = 2, environment: Mapping[str, str] | None = None
) -> list[subprocess.Popen[str]]:
    """Start a script in processes that find each other over gloo."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(count)}
    shared |= {"LOCAL_WORLD_SIZE": str(count), "ACCELERATE_USE_CPU": "1", "PYTHONPATH": str(ROOT)}
    return [
        subprocess.Popen(
            [sys.executable, str(script), *arguments],
            env={
                **os.environ,
                **shared,
                **(environment or {}),
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
            },
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(count)
    ]


def run_together(
    script: Path, *arguments: str, count: int = 2, environment: Mapping[str, str] | None = None
) -> None:
    """Run a script in processes that find each other over gloo; all must end well."""
    ranks = start_together(script, *arguments, count=count, environment=environment)
    errors = [process.communicate(timeout=300)[1] for process in ranks]
    assert [process.returncode for process in ranks] == [0] * count, errors
