"""Servers and a trainer, run once in a process that tests can kill.

python fleet_once.py FOLDER train|idle|fails

The server says that it is healthy and nothing else; `train` is the real trainer, in two processes
with engines of their own.
"""

import sys
from pathlib import Path

from baselines.launch.fleet import free_ports, run_fleet
from baselines.launch.plan import Command
from benchmark.engines.core.base import EngineDown

SMALL = "rollout.groups=2 rollout.group_size=4 rollout.max_turns=4 validation.every=null"
SETTINGS = f"{SMALL} checkpoint_every=1000 optimization.updates=1000"


def trainer(folder: Path, how: str) -> Command:
    """What is run beside the server."""
    if how == "idle":
        return Command((sys.executable, "-c", "import time; time.sleep(600)"))
    if how == "fails":
        return Command((sys.executable, "-c", "raise SystemExit(3)"))
    words = ["train", "--recipe", "grpo", "--init", "tiny-sokoban", "--out", str(folder / "run")]
    words += [word for setting in SETTINGS.split() for word in ("--set", setting)]
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    whole = (sys.executable, *launcher, "-m", "benchmark.cli", *words)
    environment = {"ACCELERATE_USE_CPU": "1", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "100"}
    return Command(whole, environment)


if __name__ == "__main__":
    place, how = Path(sys.argv[1]), sys.argv[2]
    (place / "www").mkdir()
    (place / "www/health").touch()
    (port,) = free_ports(1)
    serve = ("-m", "http.server", str(port), "--bind", "127.0.0.1", "-d", str(place / "www"))
    server = Command((sys.executable, *serve)), f"http://127.0.0.1:{port}"
    try:
        sys.exit(run_fleet([server], trainer(place, how), place / "logs", place / "exchange"))
    except EngineDown as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
