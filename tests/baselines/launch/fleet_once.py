"""Servers and a trainer, run once in a process that tests can kill.

python fleet_once.py FOLDER vllm|train|idle|fails|killed|finishes|unserved

With `vllm` both are real. Else the server says that it is healthy and nothing else; with `unserved`
it ends at once. `finishes` has made its updates when it is asked to stop. `train` is the real
trainer, in two processes with engines of their own.
"""

import sys
from pathlib import Path

from baselines.launch.fleet import free_ports, run_fleet
from baselines.launch.plan import Command
from benchmark.engines.core.base import EngineDown
from tests.support.training.beside_vllm import (
    ON_CPU,
    train_words,
    trainer_beside,
    vllm_server,
)

ENDLESS = ("checkpoint_every=1000", "optimization.updates=1000")
IDLE = {
    "idle": "import time; time.sleep(600)",
    "fails": "raise SystemExit(3)",
    "killed": "import os; os.kill(os.getpid(), 9)",
    "finishes": "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(0)); "
    "open('ready', 'w').close(); time.sleep(600)",
    "unserved": "",
}


def healthy_server(folder: Path) -> tuple[Command, str]:
    """A server that says that it is healthy, and its address."""
    (folder / "www").mkdir()
    (folder / "www/health").touch()
    (port,) = free_ports(1)
    serve = ("-m", "http.server", str(port), "--bind", "127.0.0.1", "-d", str(folder / "www"))
    return Command((sys.executable, *serve)), f"http://127.0.0.1:{port}"


def trainer(folder: Path, how: str, address: str) -> Command:
    """What is run beside the server."""
    if how in IDLE:
        return Command((sys.executable, "-c", IDLE[how]))
    if how == "vllm":
        return trainer_beside(address, folder / "run", ENDLESS, folder / "exchange")
    words = train_words(folder / "run", ENDLESS)
    # Not sharded, as `accelerate launch` of several processes is without FSDP.
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")
    return Command((sys.executable, *launcher, "-m", "benchmark.cli", *words), ON_CPU)


if __name__ == "__main__":
    place, how = Path(sys.argv[1]), sys.argv[2]
    server = vllm_server() if how == "vllm" else healthy_server(place)
    if how == "unserved":
        server = Command((sys.executable, "-c", IDLE["fails"])), server[1]
    beside = trainer(place, how, server[1])
    try:
        sys.exit(run_fleet([server], beside, place / "logs", place / "exchange"))
    except EngineDown as error:
        sys.exit(f"{type(error).__name__}: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
