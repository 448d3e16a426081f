"""`arlarena-bench compare`: paired comparison of two runs."""

import argparse
from pathlib import Path

from benchmark.evaluation.compare import compare, comparison_text
from benchmark.evaluation.run_folder import read_run


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    comparison = compare(read_run(Path(arguments.run_a)), read_run(Path(arguments.run_b)))
    print(comparison_text(comparison, arguments.run_a, arguments.run_b))
    return 0
