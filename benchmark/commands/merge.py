"""`arlarena-bench merge`: join the shards of a run."""

import argparse
from pathlib import Path

from benchmark.commands.output import print_summary, write_outputs
from benchmark.merge import merge


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    out = Path(arguments.out)
    merge([Path(path) for path in arguments.runs], out)
    print_summary(write_outputs(out, env_processes=arguments.env_processes), out)
    return 0
