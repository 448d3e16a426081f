"""`arlarena-bench report`: rebuild a run's summary and report from its records."""

import argparse
from pathlib import Path

from benchmark.cli.output import (
    print_summary,
    print_what_is_not_shown,
    write_outputs,
)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    folder = Path(arguments.run)
    report = Path(arguments.html) if arguments.html else None
    outputs = write_outputs(folder, report, arguments.env_processes)
    print_what_is_not_shown(folder)
    print_summary(outputs, folder, report=report)
    return 0
