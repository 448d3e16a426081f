"""The page on robustness, from cells with invented numbers."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from baselines.study.cells import init_cell
from baselines.study.current_tracks import current_tracks_of
from baselines.study.methods import TrackResults, with_seeds
from baselines.study.pages.overview import BEGIN, END
from baselines.study.pages.robustness import Sweep, sweeps_of
from baselines.study.pages.track_pages import results_by_track
from baselines.study.schema import Cell
from baselines.study.workspace import survey
from benchmark.cli.main import main
from tests.baselines.study.pages.test_pages import check_markdown
from tests.support.training.study_cells import finish

TRACKS = ("fixed", "fast", "free")
CELLS = tuple(
    Cell(track, recipe, seed) for track in TRACKS for recipe in ("grpo", "sampo") for seed in (0, 1)
)
SOLVED = {"fixed": 6, "fast": 0, "free": 3}
"""Of eight, by GRPO."""
STUDY = """\
name: tiny
blocks: [{tracks: [fixed, fast, free], recipes: [grpo, sampo], seeds: [0, 1]}]
"""


@pytest.fixture
def folder(tmp_path: Path, tiny_tracks: Path) -> Path:
    """GRPO under all conditions, which collapses at the higher rate; SAMPO as in the base."""
    (tmp_path / "study.yaml").write_text(STUDY)
    (tmp_path / "claims.yaml").write_text("claims: []\n")
    (tmp_path / "README.md").write_text(f"{BEGIN}\n{END}\n")
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
    (sweep,) = sweeps_of(found, tracks)
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
    # SAMPO has a run on the base alone: that is no curve.
    assert (sweep.recipes, sweep.shown) == (("grpo", "sampo"), ("grpo",))


@pytest.mark.slow
def test_the_mean_is_over_all_conditions_and_an_episode_is_one_cluster(folder: Path) -> None:
    sweep = sweep_in(folder)
    (side,) = sweep.over_all("grpo") or ()
    assert side.seeds == (3 / 8, 3 / 8)
    assert side.shares is not None
    # The first three episodes are solved under two of three conditions.
    assert side.shares.tolist() == pytest.approx([2 / 3] * 3 + [1 / 3] * 3 + [0, 0])
    assert with_seeds((side,)).value == 3 / 8
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
    assert [cell.split()[0] for cell in cells] == ["grpo", "37.5", "2", "37.5", "75.0", "0.0"]
    assert cells[2] == "2 of 6"
    assert cells[-1].endswith("<br>2 of 2 collapsed")
    assert "- sampo: free (seed 0, 1), fast (seed 0, 1)" in text
    check_markdown(text)
    ElementTree.fromstring((folder / "results" / "robustness-fixed.svg").read_bytes())
    # The first screen is about tracks on which methods are compared.
    assert "fast" not in readme.read_text("utf-8")
