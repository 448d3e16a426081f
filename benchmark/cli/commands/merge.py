"""`arlarena-bench merge`: join the shards of a run."""

import argparse
from pathlib import Path

from benchmark.cli.output import (
    print_summary,
    print_what_is_not_shown,
    write_outputs,
)
from benchmark.evaluation.merge import merge


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    out = Path(arguments.out)
    merge([Path(path) for path in arguments.runs], out)
    outputs = write_outputs(out, env_processes=arguments.env_processes)
    print_what_is_not_shown(out)
    print_summary(outputs, out)
    return 0
