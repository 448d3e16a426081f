"""`arlarena-bench hash`: the hash that identifies weights in runs and entries."""

import argparse

from benchmark.cli.from_baselines import find_model
from benchmark.cli.say import say


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    for name in arguments.model:
        identity = find_model(name).identity
        revision = f" at {identity.revision}" if identity.revision else ""
        say(f"{identity.sha256}  {identity.name} ({identity.kind}{revision})")
    return 0
