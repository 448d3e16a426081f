"""Options of `study`."""

import argparse

from benchmark.cli.arguments.common import count, data


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "study",
        help="make many training runs on tracks, and say what came out",
        description="A study file names tracks, recipes and seeds. Every run is `train --track` "
        "in a process of its own; what is finished becomes a few small files that can be committed "
        "one by one.",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    action = actions.add_parser(
        "run",
        parents=[_common(), data()],
        help="make the runs that are not finished",
        description="Make what is missing, one seed of every cell before the second of any. The "
        "same command goes on where it was stopped. Exit code 1 if a run failed or is outdated.",
    )
    action.add_argument(
        "--jobs", type=count, default=1, metavar="N", help="runs at a time (default: 1)"
    )
    action = actions.add_parser(
        "status",
        parents=[_common(), data()],
        help="what is finished, running and missing",
        description="One row for every track and recipe.",
    )
    action.add_argument("--json", action="store_true", help="the same for programs")
    action = actions.add_parser(
        "page",
        parents=[_common(), data()],
        help="write each track's page: table, curves, verdicts",
        description="Write README.md and curves.svg into each track's folder of the results.",
    )
    action.add_argument(
        "--claims",
        metavar="FILE",
        help="YAML file of claims to judge (default: claims.yaml beside the study file, if there)",
    )


def _common() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("study", metavar="FILE", help="study file, as baselines/studies/table.yaml")
    parser.add_argument(
        "--out", metavar="DIR", help="folder of the runs (default: runs/study-<name>)"
    )
    parser.add_argument(
        "--results",
        metavar="DIR",
        help="folder of the finished cells (default: baselines/results)",
    )
    return parser
