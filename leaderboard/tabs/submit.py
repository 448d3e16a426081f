"""The part above the guide to submitting: how to open a pull request, and waiting submissions."""

from typing import Final

from markupsafe import Markup

from leaderboard.board.board import Board
from leaderboard.board.protocols import Waiting
from leaderboard.board.queue import STATES
from leaderboard.page.markup import (
    NOTHING,
    Head,
    Piece,
    copied,
    element,
    folded,
    joined,
    line,
    note,
    outside,
    page,
    table,
)
from leaderboard.page.state import State
from tasks.texts import counted

_COLORS: Final = {"passed": " lb-good", "failed": " lb-bad"}
FEW: Final = 12
"""Number of waiting submissions above which the list is folded."""


def submit_lead(board: Board, state: State) -> str:
    """The content above the guide."""
    repository = board.facts.repository
    if repository is None:
        return page(note("This board does not name its repository, so the queue is not known."))
    address = outside(f"{repository}/compare", "open a pull request")
    said = joined(["Follow the five steps below, then ", address, "."])
    clone = copied(f"git clone {repository}", "clone the repository")
    return page(element("p", said, "lb-answer"), clone, _queue(board, repository))


def _queue(board: Board, repository: str) -> Markup:
    queue = board.facts.queue
    pulls = outside(f"{repository}/pulls", "open pull requests")
    if queue is None:
        return note(joined(["Waiting submissions: see the ", pulls, "."]))
    said = f"{counted(len(queue.waiting), 'submission')} waiting as of {queue.day}. Today: "
    heads = [Head("pull request"), Head("entry"), Head("opened"), Head("state")]
    rows = [_row(each, repository) for each in queue.waiting]
    listed = table("Queue of submissions", heads, rows) if rows else NOTHING
    head = element("h2", "Queue of submissions") + note(joined([said, pulls, "."]))
    return head + (folded("All of them", listed) if len(rows) > FEW else listed)


def _row(each: Waiting, repository: str) -> list[Piece]:
    state = STATES.get(each.state, each.state)
    return [
        outside(f"{repository}/pull/{each.number}", f"#{each.number}"),
        line(each.entry),
        each.opened,
        element("span", state, f"lb-chip{_COLORS.get(each.state, '')}"),
    ]
