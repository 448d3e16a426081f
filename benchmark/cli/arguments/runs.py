"""Options of the commands on runs and entries: `replay`, `compare`, `reproduce` and others."""

import argparse

from benchmark.cli.arguments.common import env_options, seed


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the commands."""
    _of_one_run(commands)
    _of_several_runs(commands)
    _reproduce(commands)


def _of_one_run(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "replay",
        help="re-execute a run's records without a model",
        description="Feed every recorded response to the same environment again and report the "
        "records that differ. Exit code 1 if any record differs or is missing.",
        epilog="examples:\n  arlarena-bench replay runs/my-run\n",
        parents=[env_options()],
    )
    parser.add_argument("run", metavar="RUN", help="run folder")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="TASK.NAME=VALUE",
        help="allow a dangerous setting that the run was played with; repeatable",
    )
    parser = commands.add_parser(
        "report",
        help="rebuild a run's summary and report from its records",
        description="Rebuild summary.json and report.html from the records alone.",
        parents=[env_options()],
    )
    parser.add_argument("run", metavar="RUN", help="run folder")
    parser.add_argument("--html", metavar="FILE", help="output file of the report")


def _of_several_runs(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "compare",
        help="paired comparison of two runs, or a table of more",
        description="With two runs: their difference on common panels, episode by episode, with "
        "interval and p-value. With more: success of every run on every panel, and the "
        "differences from the first run. Runs with different protocols are rejected, except with "
        "--across-protocols.",
        epilog="examples:\n  arlarena-bench compare runs/base runs/trained\n"
        "  arlarena-bench compare runs/*_transformers_* --json\n",
    )
    parser.add_argument("runs", metavar="RUN", nargs="+", help="run folders, two or more")
    parser.add_argument(
        "--across-protocols",
        action="store_true",
        help="also compare different protocols on the same panels, such as text with images; the "
        "differences are listed",
    )
    parser.add_argument("--json", action="store_true", help="print all numbers as JSON instead")
    parser = commands.add_parser(
        "merge",
        help="join the shards of a run",
        description="Join run folders played with --shard into one.",
        parents=[env_options()],
    )
    parser.add_argument("runs", metavar="RUN", nargs="+", help="run folders of all shards")
    parser.add_argument("--out", metavar="DIR", required=True, help="folder for the joined run")


def _reproduce(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "reproduce",
        help="train and evaluate an entry again, and compare",
        description="Run the training and evaluation commands of an entry's own log and runs, "
        "then compare the weights' hashes, the logs line by line, and success. The "
        "same command resumes. Exit code 1 if both the weights and success differ.",
    )
    parser.add_argument("entry", metavar="ENTRY", help="an entry's name, or its folder")
    parser.add_argument(
        "--seed", type=seed, help="seed of one training run (default: all, one by one)"
    )
    parser.add_argument(
        "--plugin",
        action="append",
        default=[],
        metavar="MODULE",
        help="a module or .py file that the original training loaded with --plugin; its hash "
        "must match the one in the log; repeatable",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="print the commands and exit, with code 1 if they cannot run here",
    )
    parser.add_argument(
        "--out", metavar="DIR", help="output folder (default: runs/reproduce-ENTRY)"
    )
    parser.add_argument(
        "--submissions",
        metavar="DIR",
        default="submissions",
        help="folder with the entries (default: submissions)",
    )
