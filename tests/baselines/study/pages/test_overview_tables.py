"""Tables of methods by task, for tracks that are trained separately."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from baselines.study.current_tracks import CurrentTrack, current_tracks_of
from baselines.study.methods import TrackResults, results_of
from baselines.study.pages.headlines import headlines
from baselines.study.pages.overview_tables import overview_tables
from baselines.study.pages.track_pages import results_by_track
from baselines.study.schema import Cell
from tests.support.training.study_cells import finish

Found = Mapping[str, TrackResults]
Tracks = Mapping[str, CurrentTrack]


def as_one_kind(found: Found, tracks: Tracks) -> tuple[Found, Tracks]:
    """Results and tracks, renamed so that they form the tracks `small` of two tasks."""
    named = {"fixed": "sokoban-small", "math": "tir_math-small"}
    small = {
        name: replace(tracks[old], track=tracks[old].track.model_copy(update={"name": name}))
        for old, name in named.items()
    }
    return {name: found[old] for old, name in named.items()}, small


@pytest.mark.slow
def test_means_over_tasks_that_are_trained_apart_need_three_seeds_of_each(
    tmp_path: Path, tiny_tracks: Path
) -> None:
    cells = [Cell(track, "grpo", seed) for track in ("fixed", "math") for seed in range(3)]
    tracks = current_tracks_of(cells, "study.yaml")
    finished = [finish(tmp_path, each, tracks[each.track], range(each.seed + 1)) for each in cells]

    def mean(count: int) -> str:
        found = results_by_track(cells, finished[:count], tracks)
        *_, row = overview_tables(*as_one_kind(found, tracks), ["small"]).splitlines()
        row = row.replace("\N{NO-BREAK SPACE}", " ")
        assert row.startswith("| grpo | 25.0 [")
        return row.split(" | ")[-1]

    # The second task has one, two and three seeds, which solve 1, 2 and 3 of 8.
    assert [mean(count) for count in (4, 5)] == ["- |", "- |"]
    assert mean(6).startswith("25.0 [")


def test_differences_from_grpo_are_counted_after_equal_episodes_and_at_the_end(
    tmp_path: Path, tiny_tracks: Path
) -> None:
    """SAMPO plays twice as many episodes, and is better only because of that."""
    ways = {"grpo": ([0], (1, 1, 1), 8), "sampo": (range(8), (1, 1, 8), 16)}
    cells = [Cell("fixed", recipe, seed) for recipe in ways for seed in range(3)]
    track = current_tracks_of(cells, "study.yaml")["fixed"]
    made = []
    for cell in cells:
        solved, curve, played = ways[cell.recipe]
        made.append(finish(tmp_path / "results", cell, track, solved, curve, played=played))
    found = {"fixed": results_of("fixed", [("sokoban", "builtin")], cells, made)}
    kinds = {"easy": ["fixed"], "hard": ["fixed"]}
    said = " ".join(headlines(found, kinds, [], 0, "page.md", "table.md").split())
    for kind in kinds:
        assert (
            f"On `{kind}` tracks, of 1 comparison with `grpo` after equal training episodes, none "
            "shows a difference. Half-widths of the intervals: "
        ) in said
    assert said.count("for dynamic sampling, 1 is higher (fixed: `sampo`) and 0 lower.") == 2
    assert said.count("; all on a track share its runs of `grpo`. Nothing is corrected") == 1
    # One interval per comparison.
    assert re.search(r"intervals: \d+ points\. After equal updates", said)


@pytest.mark.slow
def test_a_method_that_plays_more_has_a_row_at_equal_episodes(
    tmp_path: Path, tiny_tracks: Path
) -> None:
    """Dynamic sampling plays twice as many: halfway, 4 of 8 on one panel and 3 on the other."""
    seeds = {"fixed": 4, "math": 3}
    cells = [
        Cell(track, recipe, seed)
        for track, count in seeds.items()
        for recipe in ("grpo", "dapo_grpo")
        for seed in range(count)
    ]
    tracks = current_tracks_of(cells, "study.yaml")
    finished = [
        finish(
            tmp_path / "results",
            each,
            tracks[each.track],
            range(6),
            (2, 4, 6) if each.track == "fixed" else (2, 3, 6),
            played=16 if each.recipe == "dapo_grpo" else 8,
        )
        for each in cells
    ]
    found = results_by_track(cells, finished, tracks)
    results, small = as_one_kind(found, tracks)
    lines = overview_tables(results, small, ["small"]).splitlines()
    rates = {
        line.split(" | ")[0]: [cell.split()[0] for cell in line.split(" | ")[1:]]
        for line in lines[2:]
    }
    assert rates == {
        "| grpo": ["75.0", "75.0", "75.0"],
        "| dapo_grpo": ["75.0", "75.0", "75.0"],
        "| dapo_grpo, equal episodes": ["50.0", "37.5", "43.8"],
    }
    short = overview_tables(results, small, ["small"], only=["dapo_grpo"])
    assert "mean" not in short
    assert "| grpo" not in short
