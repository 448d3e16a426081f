"""Training runs after equal updates and episodes, on the board."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmark.logs.curves import Points, RunCurves
from benchmark.stability.runs import run_stability
from leaderboard.board.curves import seed_curves
from leaderboard.board.rows import FullRow
from leaderboard.board.training_rows import SeedCurves
from leaderboard.page.state import State, filled
from leaderboard.table.equal import EqualMeans, equal_means
from leaderboard.tabs.compare import compare_lead, compare_page
from tests.leaderboard.pages import text_of
from tests.support.board_rows import board_content, board_of, board_row, panel_facts

PANEL = "sokoban/builtin"


def training(
    success: Mapping[int, float], episodes: Sequence[float], panel: str | None = PANEL
) -> SeedCurves:
    """Validations by update, and the episodes of every update from 1 on."""
    steps = np.arange(1, len(episodes) + 1)
    curves = {
        "validation/success": Points(np.array([*success]), np.array([*success.values()])),
        "rollout/episodes": Points(steps, np.array(episodes, np.float64)),
        "policy/entropy": Points(steps, np.zeros(len(steps))),
    }
    run = RunCurves("run", "arlarena-bench", "grpo", 0, curves)
    return seed_curves(run, run_stability(run), panel)


PLAIN = training({0: 0.5, 2: 0.55, 4: 0.6, 6: 0.65}, [64] * 6)
"""384 episodes in 6 updates."""
DYNAMIC = training({0: 0.5, 2: 0.7, 4: 0.8}, [128, 128, 192, 64, 64])
"""576 episodes in 5 updates: 256 after the second; not validated after the fifth."""


def test_the_board_keeps_the_episodes_before_each_validation_and_before_the_end() -> None:
    played = DYNAMIC.of("episodes")
    assert played is not None
    assert (played.steps, played.values) == ((0, 2, 4, 5), (0, 256, 512, 576))


def test_means_by_hand() -> None:
    second = training({0: 0.5, 4: 0.5, 6: 0.5}, [64] * 6)
    # Five updates: 62.5 and 50%, versus 80; 384 episodes: 65 and 50%, versus 75.
    found = equal_means([PLAIN, second], [DYNAMIC], {PANEL: 256})
    assert [replace(each, difference=None) for each in found] == [
        EqualMeans("updates", 5, PANEL, 0.5625, 0.8, None),
        EqualMeans("episodes", 384, PANEL, 0.575, 0.75, None),
    ]
    for each in found:
        assert each.difference is not None
        assert each.difference.value == pytest.approx(each.first - each.second)
        assert each.difference.low < each.difference.value < each.difference.high
    assert {each.difference for each in equal_means([PLAIN], [DYNAMIC], {})} == {None}


def test_what_is_not_known_is_not_said() -> None:
    quiet = replace(DYNAMIC, series=tuple(s for s in DYNAMIC.series if s.name != "episodes"))
    assert [each.by for each in equal_means([PLAIN], [quiet], {})] == ["updates"]
    assert equal_means([PLAIN], [], {}) == ()
    assert equal_means([PLAIN], [replace(DYNAMIC, panel="webshop/builtin")], {}) == ()
    assert equal_means([replace(PLAIN, panel=None)], [replace(DYNAMIC, panel=None)], {}) == ()
    long = training(dict.fromkeys(range(900), 0.5), [1.0] * 899)
    assert equal_means([long], [PLAIN], {}) == ()
    # The maximum number of validations, plus the end as one more point.
    full = training(dict.fromkeys(range(400), 0.5), [1.0] * 401)
    assert [each.by for each in equal_means([full], [PLAIN], {})] == ["updates"]


def test_the_tab_says_both_and_whether_it_is_one_track(tmp_path: Path) -> None:
    facts = panel_facts("sokoban", "builtin", "Sokoban", "points", 8)
    solved = [np.array([1] * 6 + [0] * 2)]

    def row(name: str, track: str, curves: SeedCurves) -> FullRow:
        return replace(board_row(name, {facts: solved}), track=track, curves=(curves,))

    rows = [
        row("20260101_grpo", "sokoban-standard", PLAIN),
        row("20260102_sampo", "sokoban-standard", DYNAMIC),
        row("20260103_own", "open", DYNAMIC),
    ]
    board = board_of(tmp_path, board_content(rows, facts))
    state = State(tab="compare", protocol="v1", first=rows[0].id, second=rows[1].id)
    said = text_of(compare_page(board, state))
    assert "While training, on sokoban/builtin" in said
    assert "5 updates 62.5 80.0 \u221217.5 [" in said
    assert "384 episodes 65.0 75.0 \u221210.0 [" in said
    assert "not on one track" not in text_of(compare_lead(board, state))
    apart = compare_lead(board, replace(state, second=rows[2].id))
    assert "not on one track" in text_of(apart)
    # If no second entry is selected, one of the first's track is chosen.
    assert filled(board, replace(state, second="")).second == rows[1].id
