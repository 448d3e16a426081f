"""The page on robustness, from cells with invented numbers."""

import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from baselines.study.cells import init_cell
from baselines.study.current_tracks import current_tracks_of
from baselines.study.methods import TrackResults
from baselines.study.pages.overview import BEGIN, END
from baselines.study.pages.robustness import (
    Sweep,
    measured_sweeps,
    robustness_figure,
    robustness_page,
)
from baselines.study.pages.track_pages import results_by_track
from baselines.study.schema import Cell
from baselines.study.workspace import survey
from baselines.tracks.registry import read_track
from baselines.tracks.sweeps import points_of_sweeps, sweeps_of
from benchmark.cli.main import main
from benchmark.stats.paired import mean_success
from tests.baselines.study.pages.test_pages import check_markdown
from tests.support.training.study_cells import finish

TRACKS = ("fixed", "fast", "free")
CELLS = tuple(
    Cell(track, recipe, seed) for track in TRACKS for recipe in ("grpo", "sampo") for seed in (0, 1)
)
SOLVED = {"fixed": 6, "fast": 0, "free": 3}
"""Number of eight episodes that GRPO solves."""
STUDY = """\
name: tiny
blocks: [{tracks: [fixed, fast, free], recipes: [grpo, sampo], seeds: [0, 1]}]
"""


@pytest.fixture
def folder(tmp_path: Path, tiny_tracks: Path) -> Path:
    """GRPO under all conditions, collapsing at the higher rate; SAMPO only in the base one."""
    (tmp_path / "study.yaml").write_text(STUDY)
    (tmp_path / "claims.yaml").write_text("claims: []\n")
    (tmp_path / "README.md").write_text(f"{BEGIN.format('')}\n{END}\n")
    tracks = current_tracks_of(CELLS, "study.yaml")
    results = tmp_path / "results"
    for seed in (0, 1):
        for name, solved in SOLVED.items():
            cell = Cell(name, "grpo", seed)
            curve = (4, 4, 4) if solved else (6, 0, 0)
            finish(results, cell, tracks[name], range(solved), curve)
        finish(results, Cell("fixed", "sampo", seed), tracks["fixed"], range(8))
    finish(results, init_cell("fixed"), tracks["fixed"], [0, 1])
    return tmp_path


def sweep_in(folder: Path) -> Sweep:
    tracks = current_tracks_of(CELLS, "study.yaml")
    finished = survey(CELLS, tracks, folder / "results").finished
    found: dict[str, TrackResults] = results_by_track(CELLS, finished, tracks)
    (sweep,) = measured_sweeps(found, tracks)
    return sweep


@pytest.mark.slow
def test_a_curve_is_over_rates_apart_by_other_settings(folder: Path) -> None:
    sweep = sweep_in(folder)
    assert sweep.base == "fixed"
    assert [(each.results.track, each.text) for each in sweep.conditions] == [
        ("free", "0.0005, kl.coef 0.0"),
        ("fixed", "0.0005, kl.coef 0.01"),
        ("fast", "0.0015, kl.coef 0.01"),
    ]
    # SAMPO has a run in the base condition only, which makes no curve.
    assert (sweep.recipes, sweep.shown) == (("grpo", "sampo"), ("grpo",))


@pytest.mark.slow
def test_the_mean_is_over_all_conditions_and_an_episode_is_one_cluster(folder: Path) -> None:
    sweep = sweep_in(folder)
    mean = sweep.over_all("grpo")
    assert mean is not None
    (side,) = mean.sides
    assert (mean.collapsed, mean.runs) == (2, 6)
    assert side.seeds == (3 / 8, 3 / 8)
    assert side.shares is not None
    # The first three episodes are solved under two of three conditions.
    assert side.shares.tolist() == pytest.approx([2 / 3] * 3 + [1 / 3] * 3 + [0, 0])
    assert mean_success((side,)).value == 3 / 8
    assert sweep.over_all("sampo") is None


@pytest.mark.slow
def test_the_page_has_a_figure_a_table_and_what_is_missing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = ["--out", str(folder / "runs"), "--results", str(folder / "results")]
    readme = folder / "README.md"
    command = ["study", "page", str(folder / "study.yaml"), *places, "--readme", str(readme)]
    assert main(command) == 0
    page = folder / "results" / "robustness.md"
    assert str(page) in capsys.readouterr().out.splitlines()
    text = page.read_text("utf-8")
    (row,) = [line for line in text.splitlines() if line.startswith("| grpo |")]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert [cell.split()[0] for cell in cells] == ["grpo", "37.5", "-", "2", "37.5", "75.0", "0.0"]
    assert cells[3] == "2 of 6"
    assert "[0.0015, kl.coef 0.01](fast/README.md) |" in text
    # The init is evaluated once, anywhere, since it is the same under all conditions.
    assert "The init: 25.0 [7.1, 59.1]." in text
    assert "Mean over all: " in text and "one seed:" not in text
    assert cells[-1].endswith("<br>2 of 2 collapsed")
    assert "- free (0.0005, kl.coef 0.0): seeds 0, 1 of sampo\n" in text
    assert "- fast (0.0015, kl.coef 0.01): seeds 0, 1 of sampo\n" in text
    check_markdown(text)
    ElementTree.fromstring((folder / "results" / "robustness-fixed.svg").read_bytes())
    # The first screen covers the tracks on which methods are compared.
    assert "fast" not in readme.read_text("utf-8")


@pytest.mark.slow
def test_conditions_without_a_run_have_no_column_and_no_plot(folder: Path) -> None:
    for path in (folder / "results" / "free").glob("*"):
        path.unlink()
    sweep = sweep_in(folder)
    text = robustness_page([sweep])
    head = next(line for line in text.splitlines() if line.startswith("| recipe |"))
    assert head.count("|") == 4 and "mean over all" not in text and "free" not in head
    assert "- free (0.0005, kl.coef 0.0): seeds 0, 1 of grpo, sampo\n" in text
    assert b"kl.coef 0.0<" not in robustness_figure(sweep)
    check_markdown(text)


@pytest.mark.slow
def test_methods_are_compared_over_the_seeds_that_all_conditions_have(folder: Path) -> None:
    tracks = current_tracks_of(CELLS, "study.yaml")
    for name in ("fast", "free"):
        finish(folder / "results", Cell(name, "sampo", 1), tracks[name], range(8))
    sweep = sweep_in(folder)
    assert sweep.shown == ("grpo", "sampo")
    mean = sweep.over_all("sampo")
    assert mean is not None
    assert (mean.runs, mean.collapsed, mean.sides[0].seeds) == (3, 0, (1.0,))
    page = robustness_page([sweep])
    (row,) = [line for line in page.splitlines() if "| sampo |" in line]
    assert row.split(" | ")[1].startswith("100.0 [")
    assert row.split(" | ")[2].startswith("+62.5 [")
    # GRPO has two seeds under all conditions.
    assert "\n- Means over one seed: sampo. The intervals of these" in page
    check_markdown(page)
    assert sweep.over_all("nothing") is None


@pytest.mark.parametrize(
    "changes",
    [
        {"learning_rate": {"grid": [1e-4, 1e-3], "seed": 1, "updates": 1, "last": 1}},
        {"tasks": ["tir_math"]},
        {"init": {"name": "another", "sha256": None}},
        {"settings": {"validation": {"every": 1}}},
    ],
)
def test_other_tracks_are_no_points_of_a_curve(
    changes: dict[str, Any], made_tracks: Path, tmp_path: Path
) -> None:
    content = {"base": "fixed", "description": "another", "learning_rate": {"fixed": 1.5e-3}}
    shutil.copy(made_tracks / "tracks" / "fixed.yaml", tmp_path)
    path = tmp_path / "varied.yaml"
    path.write_text(yaml.safe_dump(content))
    base = read_track(tmp_path / "fixed.yaml")
    assert points_of_sweeps([base, read_track(path)]) == {"varied"}
    path.write_text(yaml.safe_dump({**content, **changes}))
    assert points_of_sweeps([base, read_track(path)]) == set()
    assert sweeps_of([read_track(path)]) == {}
