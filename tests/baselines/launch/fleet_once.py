"""Servers and a trainer, run once in a process that tests can kill.

python fleet_once.py FOLDER vllm|train|idle|fails|killed|unserved|stops|finishes|full

With `vllm` both are real. Else the server says that it is healthy and nothing else; with `unserved`
it ends at once. `train` is the real trainer, in two processes with engines of their own. `stops`
is a trainer that counts its SIGTERMs and ends when `FOLDER/end` exists, `finishes` one that has
finished when the first SIGTERM comes, `full` one that then finds no room for its checkpoint.
"""

import sys
from pathlib import Path

from baselines.launch.fleet import reserved_ports, run_fleet
from baselines.launch.plan import Command
from benchmark.engines.core.base import EngineDown
from tests.support.training.beside_vllm import (
    ON_CPU,
    train_words,
    trainer_beside,
    vllm_server,
)

ENDLESS = ("checkpoint_every=1000", "optimization.updates=1000")
ASKED = """
import pathlib, signal, sys, time
folder, signals, code = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
while len(asked) < signals and not (folder / "end").exists():
    (folder / f"asked-{len(asked)}").touch()
    time.sleep(0.05)
sys.exit(code)
"""
ENDS = {"stops": ("9", "130"), "finishes": ("1", "0"), "full": ("1", "2")}
"""How many signals a trainer waits for at most, and its exit code."""
IDLE = {
    "idle": "import time; time.sleep(600)",
    "fails": "raise SystemExit(3)",
    "killed": "import os; os.kill(os.getpid(), 9)",
    "unserved": "",
}


def healthy_server(folder: Path, port: int) -> tuple[Command, str]:
    """A server that says that it is healthy, and its address."""
    (folder / "www").mkdir()
    (folder / "www/health").touch()
    serve = ("-m", "http.server", str(port), "--bind", "127.0.0.1", "-d", str(folder / "www"))
    return Command((sys.executable, *serve)), f"http://127.0.0.1:{port}"


def trainer(folder: Path, how: str, address: str) -> Command:
    """The command to run next to the server."""
    if how in IDLE:
        return Command((sys.executable, "-c", IDLE[how]))
    if how in ENDS:
        return Command((sys.executable, "-c", ASKED, str(folder), *ENDS[how]))
    if how == "vllm":
        return trainer_beside(address, folder / "run", ENDLESS, folder / "exchange")
    words = train_words(folder / "run", ENDLESS)
    # Not sharded, like `accelerate launch` with several processes but without FSDP.
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")
    return Command((sys.executable, *launcher, "-m", "benchmark.cli", *words), ON_CPU)


if __name__ == "__main__":
    place, how = Path(sys.argv[1]), sys.argv[2]
    try:
        with reserved_ports(1) as (port,):
            server = vllm_server(port) if how == "vllm" else healthy_server(place, port)
            if how == "unserved":
                server = Command((sys.executable, "-c", IDLE["fails"])), server[1]
            beside = trainer(place, how, server[1])
            sys.exit(run_fleet([server], beside, place / "logs", place / "exchange"))
    except EngineDown as error:
        sys.exit(f"{type(error).__name__}: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
