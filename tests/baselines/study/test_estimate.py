"""The remaining cost of a study, from cells with invented costs."""

from pathlib import Path

import pytest

from baselines.study.cells import init_cell
from baselines.study.current_tracks import current_tracks_of
from baselines.study.estimate import duration, estimate, relative_episodes
from baselines.study.schema import Cell
from tests.support.training.study_cells import finish


def test_what_is_left_is_estimated_from_what_was_measured(
    tmp_path: Path, tiny_tracks: Path
) -> None:
    del tiny_tracks
    cells = [Cell(t, r, s) for t in ("fixed", "tuned") for r in ("grpo", "sampo") for s in (0, 1)]
    current_tracks = current_tracks_of(cells, "study.yaml")
    nothing = estimate(cells, [], current_tracks, {})
    assert (nothing.measured, nothing.unknown) == (0, 8)
    assert nothing.text(1).startswith("the remaining time cannot be estimated yet")
    inits = estimate([init_cell("fixed")], [], current_tracks, {})
    assert inits.text(1) == "only inits are left to be played, which takes minutes"
    done = finish(tmp_path / "results", cells[0], current_tracks["fixed"], [0], cpu=60)
    # GRPO takes a minute; SAMPO, never measured, twice as long.
    left = estimate(cells[1:4], [done], current_tracks, {})
    assert left.cpu_seconds == 60 + 120 + 120
    assert left.text(2) == "about 5 min of CPU time left, 2 min at 2 jobs"
    # A run of `tuned` takes 2 minutes by its index, the first of a recipe 2 of 4 updates more.
    left = estimate(cells, [done], current_tracks, {"tuned": 2.0})
    assert left.cpu_seconds == 60 * 2 + 120 * 2 + 120 * 2.5 + 240 * 2.5
    # SAMPO has played three times as many episodes as planned.
    sampo = finish(tmp_path / "results", cells[2], current_tracks["fixed"], [0], played=24, cpu=90)
    assert relative_episodes("sampo", [done, sampo], current_tracks) == 3.0
    left = estimate([cells[6]], [done, sampo], current_tracks, {"tuned": 2.0})
    assert left.cpu_seconds == 120 * 3 * 1.5


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (89, "89 s"), (150, "2 min"), (5400, "1.5 h")]
)
def test_durations_are_short(seconds: float, text: str) -> None:
    assert duration(seconds) == text
