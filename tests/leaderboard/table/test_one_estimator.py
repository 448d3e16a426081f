"""Two accepted entries have the same difference and interval wherever they are shown."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmark.evaluation.summary import PanelKey
from benchmark.logs.lines import TrackClaim
from benchmark.stats.paired import PairedDifference
from benchmark.submissions.badges import Badges
from benchmark.submissions.check import read_accepted
from benchmark.submissions.checks.results import Peer, paired_difference, panel_results
from benchmark.submissions.checks.tracks import track_of
from benchmark.submissions.reading.entry import Entry
from benchmark.submissions.report_rows import ComparedEntry, compared_with, difference_rows
from leaderboard.board.board import Board
from leaderboard.board.entries import facts_of, row_of
from leaderboard.page.state import State
from leaderboard.table.cells import points
from leaderboard.table.paired import compare
from leaderboard.tabs.compare import compare_page
from tests.leaderboard.pages import text_of
from tests.support.board_rows import PROTOCOL, board_content, board_of

SUBMISSIONS = Path(__file__).parents[3] / "submissions"


@pytest.fixture(scope="module")
def entries() -> tuple[Entry, Entry, PanelKey]:
    """Two entries of one track, and its panel."""
    one, other = map(read_accepted, sorted(SUBMISSIONS.glob("*_*-sokoban-standard"))[:2])
    assert track_of(one) == track_of(other) is not None
    return one, other, ("sokoban", "builtin")


@pytest.fixture(scope="module")
def board(
    entries: tuple[Entry, Entry, PanelKey], tmp_path_factory: pytest.TempPathFactory
) -> Board:
    one, other, _ = entries
    proven = Badges(True, "logs", "fixed", False)
    rows = [row_of(each, proven, ()) for each in (one, other)]
    panels = {facts.key: facts for each in (one, other) for facts in facts_of(each)}
    return board_of(tmp_path_factory.mktemp("board"), board_content(rows, *panels.values()))


@pytest.fixture(scope="module")
def wanted(entries: tuple[Entry, Entry, PanelKey]) -> PairedDifference:
    found = paired_difference(*entries)
    assert found is not None
    return found


def test_the_comment_of_a_check_shows_it(
    entries: tuple[Entry, Entry, PanelKey], wanted: PairedDifference
) -> None:
    one, other, key = entries
    compared = [ComparedEntry("the best other", Peer.of(other), frozenset({key}))]
    ((panel, _, _, text),) = difference_rows(one, panel_results(one), compared)
    ends = wanted.difference
    value, low, high = (f"{100 * end:+.1f}" for end in (ends.value, ends.low, ends.high))
    assert panel == "/".join(key)
    assert text.startswith(f"{value} [{low}, {high}], {wanted.method}; ")


def test_only_entries_of_its_track_are_compared_with_it(
    entries: tuple[Entry, Entry, PanelKey],
) -> None:
    one, other, key = entries
    peer = Peer.of(other)
    claim = TrackClaim(name="sokoban-standard", sha256="0" * 64)
    assert compared_with(one, [peer]) == [ComparedEntry("the best other", peer, frozenset({key}))]
    assert compared_with(one, [replace(peer, track=claim)]) == []


def test_the_page_that_compares_shows_it(
    entries: tuple[Entry, Entry, PanelKey], wanted: PairedDifference, board: Board
) -> None:
    one, other, key = entries
    rows = [board.row(each.folder.name, PROTOCOL) for each in (one, other)]
    assert rows[0] is not None and rows[1] is not None
    found = compare(board, rows[0], rows[1], key)
    assert found is not None
    assert (found.found.method, found.found.p_value) == (wanted.method, wanted.p_value)
    assert found.difference.low == pytest.approx(wanted.difference.low, abs=1e-12)
    assert found.difference.high == pytest.approx(wanted.difference.high, abs=1e-12)
    state = State(
        tab="compare", protocol=PROTOCOL, first=rows[0].id, second=rows[1].id, panel="/".join(key)
    )
    said = text_of(compare_page(board, state))
    assert points(wanted.difference) in said
    assert wanted.method in said
