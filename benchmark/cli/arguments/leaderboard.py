"""Options of `leaderboard`."""

import argparse
import math
import re
from datetime import date

from benchmark.cli.arguments.common import env_options


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "leaderboard",
        help="build the board from all submissions, or show it",
        description="The board is computed from the submissions after checking all of them "
        "again. The page only shows it.",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_build(actions)
    _add_serve(actions)


def _add_build(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    action = actions.add_parser(
        "build",
        help="check all submissions and write the board's files",
        description="Check every submission as a pull request is checked, and write "
        "leaderboard.parquet and leaderboard.json. Exit code 1 if a submission is rejected; its "
        "name is printed, and the others are on the board.",
        parents=[env_options()],
    )
    action.add_argument(
        "--submissions",
        metavar="DIR",
        default="submissions",
        help="folder with the submissions (default: submissions)",
    )
    action.add_argument(
        "--out",
        metavar="DIR",
        default="runs/leaderboard",
        help="folder for the two files (default: runs/leaderboard)",
    )
    action.add_argument(
        "--replays",
        metavar="FILE",
        help="cache of replays: the same code does not replay the same records again if they "
        "matched, or if they took over a minute and did not match. Anyone who can write this file "
        "can get any entry accepted",
    )
    action.add_argument(
        "--replay-minutes",
        metavar="N",
        type=_minutes,
        default=math.inf,
        help="start no more replays after N minutes: entries not yet verified are left off the "
        "board and listed, and the next build with the same --replays continues (default: no "
        "limit)",
    )
    _add_eval_results(action)
    action.add_argument(
        "--repository",
        metavar="URL",
        help="repository of the submissions: the page links to it and to its pull requests",
    )
    action.add_argument(
        "--commit", metavar="SHA", type=_commit, help="commit of the submissions, shown on the page"
    )
    action.add_argument(
        "--date", metavar="YYYY-MM-DD", type=_day, help="date of that commit, shown on the page"
    )
    action.add_argument(
        "--queue",
        metavar="FILE",
        help="list of waiting submissions to show; written by scripts/queue_of_submissions.py",
    )


def _minutes(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"must be a number of at least 0, not {text!r}")
    return value


def _commit(text: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{7,64}", text):
        raise argparse.ArgumentTypeError(f"must be the hash of a commit, not {text!r}")
    return text


def _day(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"must be a day such as 2026-01-31, not {text!r}"
        ) from None


def _add_eval_results(action: argparse.ArgumentParser) -> None:
    action.add_argument(
        "--eval-results",
        metavar="DIR",
        help="also write .eval_results files for entries with models on the hub, as "
        "DIR/OWNER/NAME/.eval_results/ENTRY.yaml",
    )
    action.add_argument(
        "--dataset",
        metavar="OWNER/NAME",
        help="with --eval-results: the benchmark's dataset on the hub",
    )
    action.add_argument(
        "--source", metavar="URL", help="with --eval-results: URL of the board, if it has one"
    )


def _add_serve(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    action = actions.add_parser(
        "serve",
        help="show the board as a page",
        description="Serve the board as a web page. It takes no uploads and writes nothing.",
    )
    action.add_argument(
        "--board",
        metavar="FILE",
        default="runs/leaderboard/leaderboard.parquet",
        help="file written by leaderboard build (default: runs/leaderboard/leaderboard.parquet)",
    )
    action.add_argument(
        "--submissions",
        metavar="DIR",
        default="submissions",
        help="folder with the submissions, to show episodes (default: submissions)",
    )
    action.add_argument(
        "--host",
        metavar="ADDRESS",
        default="127.0.0.1",
        help="address to listen on; 0.0.0.0 also accepts other machines (default: 127.0.0.1)",
    )
    action.add_argument(
        "--port", metavar="N", type=int, default=7860, help="port to listen on (default: 7860)"
    )
