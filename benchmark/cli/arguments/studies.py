"""Options of `study`."""

import argparse

from benchmark.cli.arguments.common import count, data, gpu_count, seed, share


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "study",
        help="make many training runs on tracks and report the results",
        description="A study file names tracks, recipes and seeds, and can add your own recipes "
        "and plug-ins. Every run is a separate `train --track` process; a finished run "
        "becomes a few small files that can be committed one by one.",
        epilog="examples:\n  arlarena-bench study status baselines/studies/table.yaml\n"
        "  arlarena-bench study run my-study.yaml --jobs 2\n"
        "  arlarena-bench study run my-study.yaml --gpus 4\n",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    action = actions.add_parser(
        "run",
        parents=[_common(), data()],
        help="make the missing runs",
        description="Make the missing runs: the first seed of every recipe on every track before "
        "any second seed. The same command resumes. Exit code 1 if a run failed or is outdated.",
    )
    action.add_argument(
        "--jobs",
        type=count,
        metavar="N",
        help="runs at a time (default: 1; with --gpus, as many as there are GPUs for)",
    )
    gpus = action.add_argument_group("GPUs, as in `train`, for each run")
    gpus.add_argument(
        "--gpus",
        type=gpu_count,
        metavar="N",
        help="GPUs of each run (default: one, if there is any)",
    )
    gpus.add_argument(
        "--serve-gpus", type=seed, metavar="K", help="how many of them run a vLLM server"
    )
    gpus.add_argument(
        "--sleep", action="store_true", help="vLLM frees the GPU's memory while the policy learns"
    )
    gpus.add_argument(
        "--gpu-memory-utilization", type=share, metavar="SHARE", help="vLLM's share of the memory"
    )
    action = actions.add_parser(
        "status",
        parents=[_common(), data()],
        help="show finished, running and missing runs",
        description="One row per track and recipe.",
    )
    action.add_argument("--json", action="store_true", help="print JSON")
    action = actions.add_parser(
        "page",
        parents=[_common(), data()],
        help="write each track's page: table, curves, verdicts",
        description="Write README.md and curves.svg into each track's folder of the results. Pages "
        "of the shipped results show the shipped study, too, whatever study file is given.",
    )
    action.add_argument(
        "--claims",
        metavar="FILE",
        help="YAML file with claims to judge (default: claims.yaml next to the study "
        "file, if it exists)",
    )
    action.add_argument(
        "--readme",
        metavar="FILE",
        help="also write the tables between two marks in this Markdown file, and into the results: "
        "overview.svg for the same tracks; overview.md, claims.md and early_warning.md for all "
        "tracks",
    )


def _common() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument(
        "study", metavar="FILE", help="study file, such as baselines/studies/table.yaml"
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        help="folder for the runs (default: runs/study-<name> in the working directory)",
    )
    parser.add_argument(
        "--results",
        metavar="DIR",
        help="folder with the finished cells (default: baselines/results)",
    )
    return parser
