"""The episode browser: every play can be opened, and nothing else is shown in its place."""

import json
import re
from dataclasses import replace
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from leaderboard.board.board import Board
from leaderboard.board.file import BoardContent
from leaderboard.board.rows import PanelNumbers, SeedSuccess
from leaderboard.episodes.outcomes import known_endings, read_endings
from leaderboard.episodes.plays import play_of
from leaderboard.page.query import open_query, parsed
from leaderboard.page.state import State
from leaderboard.tabs.compare import compare_page
from leaderboard.tabs.episodes import chosen_play, episodes_page
from tests.leaderboard.conftest import ALFWORLD, SOKOBAN, first
from tests.support.board_rows import board_content, board_of, board_row
from tests.support.submissions.small import copied

KEY = ("sokoban", "builtin")
TRAINED = "20260102_trained"
POLICY = "20260102_policy"


@pytest.fixture(scope="module")
def twice(
    content: BoardContent, submissions: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Board, Path]:
    """The trained entry as if each seed had played every episode twice.

    The second play of each seed is the other seed's, so an episode that only one of them has solved
    has four plays, of which two are solved: seed 0 play 1 and seed 1 play 2, or the other two.
    """
    from benchmark.archive import sha256_of

    root = tmp_path_factory.mktemp("twice")
    forged = copied(submissions / TRAINED, root)
    runs = ("runs/r0", "runs/r1")
    lines = [forged.read(f"{run}/episodes.jsonl.zst").splitlines() for run in runs]
    for run, others in zip(runs, reversed(lines), strict=True):
        second = [json.loads(line) | {"repeat": 1} for line in others]
        forged.records(partial(add, second), run)
    row = next(row for row in content.rows if row.id == TRAINED)
    (panel,), (outcomes,) = row.panels, row.outcomes
    changed = replace(
        row,
        panels=(replace(panel, plays=4),),
        outcomes=(replace(outcomes, solved=tuple(2 * count for count in outcomes.solved)),),
        submission_sha256=sha256_of(forged.folder / "submission.json")[0],
    )
    policy = next(each for each in content.rows if each.id != row.id)
    (root / policy.id).symlink_to(submissions / policy.id)
    return board_of(root, replace(content, rows=(policy, changed))), root


def add(second: list[dict[str, Any]], records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return records + second


def mixed(board: Board) -> str:
    """The first episode that seed 0 has solved and seed 1 has not, or vice versa."""
    row = board.row(TRAINED)
    assert row is not None
    known, solved = board.panel(row, KEY), board.solved(row, KEY)
    assert known is not None and solved is not None
    place: int = solved.tolist().index(2)
    return known.episodes[place]


def ways(page: str, row: int) -> list[str]:
    """The links to an episode's plays, row by row; the current one is marked."""
    (pane,) = re.findall('<div class="lb-episode">.*', page, re.DOTALL)
    found = re.findall('<p class="lb-ways">(.*?)</p>', pane)[row]
    return [
        ("* " if "aria-current" in attributes else "") + text
        for attributes, text in re.findall("<a ([^>]*)>(.*?)</a>", found)
    ]


def outcome(page: str) -> str:
    found: list[str] = re.findall(r'role="status">(solved|failed) after', page)
    assert len(found) == 1
    return found[0]


def own_link(page: str) -> dict[str, list[str]]:
    (found,) = re.findall(r'href="\?([^"]*)"[^>]*>Link to this episode', page)
    return parse_qs(unescape(found))


def test_every_play_of_an_episode_can_be_opened(twice: tuple[Board, Path]) -> None:
    board, submissions = twice
    episode = mixed(board)
    row = board.row(TRAINED)
    assert row is not None
    solved = play_of(submissions, row, 0, KEY, episode).record.success
    marks = ["solved", "failed"] if solved else ["failed", "solved"]
    for seed, ends in ((0, marks), (1, marks[::-1])):
        for repeat, ended in enumerate(ends, 1):
            query = "tab=entry&entry=20260102_trained&panel=sokoban/builtin"
            query += f"&seed={seed}&repeat={repeat}&episode={episode}"
            state = open_query(board, parsed(query)).state
            page = episodes_page(board, submissions, state)
            assert f"{episode}, seed {seed}, play {repeat}" in page
            assert outcome(page) == ended
            seeds = [f"seed {each}: 1 of 2 solved" for each in (0, 1)]
            plays = [f"play {n} {end}" for n, end in enumerate(ends, 1)]
            seeds[seed], plays[repeat - 1] = f"* {seeds[seed]}", f"* {plays[repeat - 1]}"
            assert ways(page, 0) == seeds
            assert ways(page, 1) == plays
            own = own_link(page)
            assert (own["seed"], own["repeat"]) == ([str(seed)], [str(repeat)])


def test_who_asks_for_what_failed_sees_a_play_that_did(twice: tuple[Board, Path]) -> None:
    board, submissions = twice
    state = State(
        tab="entry", protocol="v1", entry=TRAINED, panel="sokoban/builtin",
        episode=mixed(board),
    )  # fmt: skip
    own = own_link(episodes_page(board, submissions, state))
    assert (own["seed"], own["repeat"]) == (["0"], ["1"])
    for show in ("solved", "failed"):
        page = episodes_page(board, submissions, replace(state, show=show))
        assert outcome(page) == show
        # A selected play stays, whatever its outcome.
        chosen = replace(state, show=show, seed="1", repeat="2")
        page = episodes_page(board, submissions, chosen)
        assert f"{state.episode}, seed 1, play 2" in page
        # The list links to plays with the selected outcome, not to the same play of other episodes.
        (listed,) = re.findall('<ul class="lb-list".*</ul>', page)
        assert "seed=" not in listed and "repeat=" not in listed
    page = episodes_page(board, submissions, replace(state, seed="1", repeat="2"))
    (listed,) = re.findall('<ul class="lb-list".*</ul>', page)
    assert listed.count("seed=1&amp;repeat=2") == 256


def test_episodes_that_differ_lead_to_plays_that_do(twice: tuple[Board, Path]) -> None:
    board, submissions = twice
    episode = mixed(board)
    state = State(
        tab="compare", protocol="v1", first=TRAINED, second=POLICY
    )  # fmt: skip
    for asked in (state, replace(state, first=state.second, second=state.first)):
        page = compare_page(board, asked)
        shown = {}
        for href, label in re.findall(r'href="\?([^"]*)"[^>]* aria-label="([^"]*)"', page):
            if label.startswith(episode):
                found = open_query(board, parsed(unescape(href))).state
                shown[found.entry] = outcome(episodes_page(board, submissions, found))
        # The policy has solved it, and so has the entry in two of four plays.
        assert shown == {POLICY: "solved", TRAINED: "failed"}


def numbers_of(*rates: float) -> PanelNumbers:
    seeds = tuple(SeedSuccess(seed, rate, 0, 1) for seed, rate in enumerate(rates))
    fields: dict[str, Any] = dict.fromkeys(PanelNumbers.__slots__, 0)
    return PanelNumbers(**fields | {"seeds": seeds})


@pytest.mark.parametrize(
    ("rates", "solved", "known"),
    [
        ((0.5, 0.5), 0, {(0, 1): False, (0, 2): False, (1, 1): False, (1, 2): False}),
        ((0.5, 0.5), 4, {(0, 1): True, (0, 2): True, (1, 1): True, (1, 2): True}),
        ((0.5, 0.5), 2, {}),
        ((0.0, 0.5), 1, {(0, 1): False, (0, 2): False}),
        ((0.0, 0.5), 2, {(0, 1): False, (0, 2): False, (1, 1): True, (1, 2): True}),
        ((0.5, 1.0), 2, {(0, 1): False, (0, 2): False, (1, 1): True, (1, 2): True}),
        ((0.5, 1.0), 3, {(1, 1): True, (1, 2): True}),
    ],
)
def test_what_the_board_itself_says_of_plays(
    rates: tuple[float, ...], solved: int, known: dict[tuple[int, int], bool]
) -> None:
    keys = [(0, 1), (0, 2), (1, 1), (1, 2)]
    assert known_endings(numbers_of(*rates), solved, keys) == known


def test_endings_are_those_of_the_records(
    content: BoardContent, submissions: Path, tmp_path: Path
) -> None:
    board = board_of(tmp_path, content)
    row = board.row(TRAINED)
    assert row is not None
    known, solved = board.panel(row, KEY), board.solved(row, KEY)
    assert known is not None and solved is not None
    for number in (0, 1, 2, 3, 100, 255):
        episode = known.episodes[number]
        plays = [play_of(submissions, row, seed, KEY, episode) for seed in (0, 1)]
        found = read_endings(submissions, row, KEY, episode)
        assert found == {(seed, 1): plays[seed].record.success for seed in (0, 1)}
        assert sum(found.values()) == solved[number]


def test_the_first_play_that_fits() -> None:
    keys = [(3, 1), (3, 2), (5, 1), (5, 2)]
    ends = {(3, 1): False, (3, 2): True, (5, 1): True, (5, 2): False}
    cases = {
        ("", "", "all"): (3, 1),
        ("", "", "solved"): (3, 2),
        ("5", "", "failed"): (5, 2),
        ("5", "1", "failed"): (5, 1),
        ("", "2", "failed"): (5, 2),
        ("9", "", "all"): (3, 1),
    }
    for (seed, repeat, show), expected in cases.items():
        assert chosen_play(State(seed=seed, repeat=repeat, show=show), keys, ends) == expected
    assert chosen_play(State(show="solved"), keys, {}) == (3, 1)


def test_endings_that_cannot_be_read_are_not_made_up(twice: tuple[Board, Path]) -> None:
    board, _ = twice
    state = State(tab="entry", protocol="v1", entry=TRAINED, episode=mixed(board))
    state = replace(state, panel="sokoban/builtin")
    page = episodes_page(board, Path("nowhere"), state)
    assert ways(page, 0) == ["* seed 0", "seed 1"]
    assert ways(page, 1) == ["* play 1", "play 2"]
    assert page.count("folder is not here") == 1


def test_a_panel_that_was_not_played_is_said(tmp_path: Path) -> None:
    rows = [
        board_row("20260101_walker", {ALFWORLD: [first(50)]}, name="<b>walker"),
        board_row("20260102_pusher", {SOKOBAN: [first(50)]}),
    ]
    board = board_of(tmp_path, board_content(rows, ALFWORLD, SOKOBAN))
    query = "tab=entry&entry=20260101_walker&panel=sokoban/builtin&episode=builtin-0001"
    opened = open_query(board, parsed(query))
    for submissions in (None, tmp_path):
        page = episodes_page(board, submissions, opened.state)
        assert (
            "\u201c&lt;b&gt;walker\u201d has not played sokoban/builtin. "
            "Here are its episodes of alfworld/builtin." in page
        )
        assert "no play" not in page and "lb-waiting" not in page
        assert 'aria-current="true">builtin' not in page
        assert "Select an episode" in page
    usual = replace(opened.state, panel="alfworld/builtin", episode="")
    assert "has not played" not in episodes_page(board, None, usual)
    assert "has not played" not in episodes_page(board, None, replace(usual, panel=""))
    compared = State(
        tab="compare", protocol="v1", first="20260101_walker", second="20260101_walker"
    )
    other = board_row("20260103_other", {ALFWORLD: [first(20)]})
    board = board_of(tmp_path, board_content([*rows, other], ALFWORLD, SOKOBAN))
    compared = replace(compared, second="20260103_other", panel="sokoban/builtin")
    page = compare_page(board, compared)
    assert "They have not both played sokoban/builtin." in page
    assert "Episodes of alfworld/builtin, won and lost" in page
    assert "not both played" not in compare_page(board, replace(compared, panel=""))


def test_plays_stand_side_by_side(twice: tuple[Board, Path]) -> None:
    board, submissions = twice
    row, episode = board.row(TRAINED), mixed(board)
    assert row is not None
    state = State(
        tab="entry", protocol="v1", entry=TRAINED, panel="sokoban/builtin", episode=episode
    )  # fmt: skip
    alone = episodes_page(board, submissions, state)
    assert ways(alone, -1) == ["side by side: before training and every seed"]
    page = episodes_page(board, submissions, replace(state, beside=True))
    assert own_link(page)["beside"] == ["1"] and ways(page, -1) == ["one at a time"]
    sections = re.findall("<section>(.*?)</section>", page, re.DOTALL)
    plays = [play_of(submissions, row, seed, KEY, episode) for seed in (0, 1)]
    assert len(sections) == 2
    for seed, (section, play) in enumerate(zip(sections, plays, strict=True)):
        ended = "solved" if play.record.success else "failed"
        assert f"<h4>seed {seed}</h4>" in section and f">{ended} after " in section
        assert section.count("<li ") == len(play.record.turns)
        # One turn of each is shown: the first.
        assert section.count("lb-now") == 1 and "lb-turns lb-single" in section
    # The board before the first turn is the same for all and shown only once.
    assert page.count("Board before the first turn") == 1
    missing = episodes_page(board, Path("nowhere"), replace(state, beside=True))
    assert missing.count("folder is not here") == 2


def test_a_single_play_has_nothing_beside_it(tmp_path: Path) -> None:
    board = board_of(
        tmp_path, board_content([board_row("20260101_a", {SOKOBAN: [first(5)]})], SOKOBAN)
    )
    state = State(
        tab="entry", protocol="v1", entry="20260101_a", panel="sokoban/builtin",
        episode="builtin-0001", beside=True,
    )  # fmt: skip
    assert "side by side" not in episodes_page(board, Path("nowhere"), state)
