"""Options of `submit` and `audit`."""

import argparse

from benchmark.cli.arguments.common import count, env_options, seed


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the commands."""
    parser = commands.add_parser(
        "submit",
        help="make a submission's folder, or check one as CI does",
        description="Entries of the leaderboard come as pull requests that add one folder.",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    action = actions.add_parser(
        "prepare",
        help="make a folder from runs and training logs",
        description="Pack runs, grouped by the weights that played them, and the logs of their "
        "trainings into a folder that `submit check` accepts.",
    )
    action.add_argument("run", metavar="RUN", nargs="*", help="run folders, whole panels")
    action.add_argument(
        "--training-log",
        metavar="LOG",
        nargs="+",
        action="extend",
        default=[],
        help="logs of `train` or its folders, one for each checkpoint; repeat for several",
    )
    action.add_argument(
        "--seeds",
        metavar="N,N,...",
        type=_seeds,
        help="seeds of the trainings in the order of their first runs, where no log says them",
    )
    action.add_argument(
        "--about", metavar="FILE", required=True, help="YAML: name, authors, contact, method, ..."
    )
    action.add_argument(
        "--out", metavar="DIR", required=True, help="new folder, submissions/<yyyymmdd>_<name>"
    )
    action = actions.add_parser(
        "to-hub",
        help="name a dataset on the hub as the place of a folder's records",
        description="For folders of more than 10 MiB: upload the compressed files to a dataset, as "
        "<folder's name>/<path>, then give dataset and commit. Each file is fetched and compared "
        "before it is taken out of the folder.",
    )
    action.add_argument("folder", metavar="DIR", help="the submission's folder")
    action.add_argument(
        "--dataset", metavar="OWNER/NAME@COMMIT", required=True, help="dataset and its commit"
    )
    action = actions.add_parser(
        "check",
        help="check a folder: schema, protocol, replay of every episode, logs",
        description="What decides on a pull request. Exit code 1 if anything is found.",
        parents=[env_options()],
    )
    action.add_argument("folder", metavar="DIR", help="the submission's folder")
    action.add_argument(
        "--submissions", metavar="DIR", help="where the others are (default: beside it)"
    )
    action.add_argument(
        "--base", metavar="REF", help="also see that nothing else was changed since this commit"
    )
    action.add_argument("--head", metavar="REF", help="last commit of the changes (default: HEAD)")
    action.add_argument(
        "--repository", metavar="DIR", help="clone with both commits (default: the one around DIR)"
    )
    action.add_argument("--json", metavar="FILE", help="write the verdict for programs, too")
    action.add_argument("--comment", metavar="FILE", help="write a comment in Markdown, too")
    parser = commands.add_parser(
        "audit",
        help="score a submission's responses under the weights that it names",
        description="Replay shows that actions earn their rewards, not who chose them. This scores "
        "the recorded responses of some episodes under the named weights and flags those that the "
        "model would hardly have given. Exit code 1 if there are any.",
    )
    parser.add_argument("folder", metavar="DIR", help="the submission's folder")
    parser.add_argument("--model", required=True, help="an init's name, a folder or a hub id")
    parser.add_argument(
        "--any-weights", action="store_true", help="also if they are not the submission's"
    )
    parser.add_argument(
        "--episodes", type=count, default=16, help="of every run, at random (default: 16)"
    )
    parser.add_argument("--seed", type=seed, default=0, help="of the choice (default: 0)")
    parser.add_argument(
        "--dtype", default="auto", choices=("auto", "float32", "bfloat16", "float16")
    )


def _seeds(text: str) -> list[int]:
    """Seeds with commas between them."""
    return [seed(part) for part in text.split(",")]
