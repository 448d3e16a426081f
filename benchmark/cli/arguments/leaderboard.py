"""Options of `leaderboard`."""

import argparse

from benchmark.cli.arguments.common import env_options


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "leaderboard",
        help="make the board from all submissions, or show it",
        description="The board is computed from submissions, which are all checked again; the page "
        "only shows it.",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    action = actions.add_parser(
        "build",
        help="check all submissions and write the board's files",
        description="Check every submission as a pull request is checked and write "
        "leaderboard.parquet and leaderboard.json. Exit code 1 if a submission is not accepted; it "
        "is named, and the others are on the board.",
        parents=[env_options()],
    )
    action.add_argument(
        "--submissions",
        metavar="DIR",
        default="submissions",
        help="folder of the submissions (default: submissions)",
    )
    action.add_argument(
        "--out",
        metavar="DIR",
        default="runs/leaderboard",
        help="where the two files go (default: runs/leaderboard)",
    )
    action.add_argument(
        "--archive",
        metavar="FILE",
        action="append",
        default=[],
        help="leaderboard.parquet of an older protocol, under the name that the protocol shall "
        "have, such as v1.parquet; its entries stay readable; repeat for several, newest first "
        "(default: all in the folder .archives of the submissions)",
    )
    action.add_argument(
        "--replays",
        metavar="FILE",
        help="where replays that held are kept; the same records are not replayed again by the "
        "same code. Whoever can write the file can have anything accepted",
    )
    action.add_argument(
        "--eval-results",
        metavar="DIR",
        help="also write the hub's .eval_results files of entries whose models are on the hub, as "
        "DIR/OWNER/NAME/.eval_results/ENTRY.yaml",
    )
    action.add_argument(
        "--dataset",
        metavar="OWNER/NAME",
        help="with --eval-results: the benchmark's dataset on the hub",
    )
    action.add_argument(
        "--source", metavar="URL", help="with --eval-results: address of the board, if it has one"
    )
    action.add_argument(
        "--repository",
        metavar="URL",
        help="repository of the submissions: the page links to it and to its pull requests",
    )
    action.add_argument("--commit", metavar="SHA", help="its commit, named on the page")
    action.add_argument("--date", metavar="DAY", help="day of that commit, named on the page")
    action = actions.add_parser(
        "serve",
        help="show the board as a page",
        description="Serve the page of a board. It takes no uploads and writes nothing.",
    )
    action.add_argument(
        "--board",
        metavar="FILE",
        default="runs/leaderboard/leaderboard.parquet",
        help="what leaderboard build has written (default: runs/leaderboard/leaderboard.parquet)",
    )
    action.add_argument(
        "--submissions",
        metavar="DIR",
        default="submissions",
        help="folder of the submissions, for single episodes (default: submissions)",
    )
    action.add_argument(
        "--host",
        metavar="ADDRESS",
        default="127.0.0.1",
        help="address to listen at; 0.0.0.0 is for other machines, too (default: 127.0.0.1)",
    )
    action.add_argument(
        "--port", metavar="N", type=int, default=7860, help="port to listen at (default: 7860)"
    )
