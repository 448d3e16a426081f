"""`arlarena-bench completion`: what makes a shell complete commands and options."""

import argparse

import shtab


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from benchmark.cli.main import command_line

    print(shtab.complete(command_line(), shell=arguments.shell))
    return 0
