"""Pages and status, from cells with invented numbers."""

import json
import os
import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from baselines.launch.child import process_start
from baselines.study.cells import init_cell
from baselines.study.current_tracks import CurrentTrack, current_tracks_of
from baselines.study.pages.claims_page import CLAIMS as CLAIMS_PAGE
from baselines.study.pages.early_warning import PAGE as EARLY_WARNING
from baselines.study.pages.overview import (
    BEGIN,
    END,
    FIGURE,
    OVERVIEW,
)
from baselines.study.pages.overview_tables import overview_tables
from baselines.study.pages.track_pages import page_of, results_by_track
from baselines.study.schema import Cell
from baselines.study.workspace import RunState, write_state
from benchmark.cli.main import main
from benchmark.logs.training_log import LOG
from tests.support.training.study_cells import finish, rewrite

STUDY = "name: tiny\nblocks: [{tracks: [fixed], recipes: [grpo, sampo, cispo], seeds: [0, 1]}]\n"
CLAIMS = """claims:
  - {of: A paper, claim: SAMPO beats GRPO., track: fixed, better: [sampo, grpo], post_hoc: true}
  - {claim: CISPO collapses., track: fixed, collapses: cispo}
"""

ALL = BEGIN.format("")
REPOSITORY = Path(__file__).parents[4]


def spaced(text: str) -> str:
    """Replace no-break spaces in intervals by ordinary ones."""
    return text.replace("\N{NO-BREAK SPACE}", " ")


@pytest.fixture
def folder(tmp_path: Path, current_track: CurrentTrack) -> Path:
    """Two seeds of GRPO and SAMPO, one of CISPO, and the init."""
    (tmp_path / "study.yaml").write_text(STUDY)
    (tmp_path / "claims.yaml").write_text(CLAIMS)
    results = tmp_path / "results"
    for seed in (0, 1):
        finish(results, Cell("fixed", "grpo", seed), current_track, [0, 1], (2, 2, 2))
        sampo = Cell("fixed", "sampo", seed)
        finish(results, sampo, current_track, range(8), (2, 4, 8), played=16, cpu=120)
    cispo = Cell("fixed", "cispo", 0)
    finish(results, cispo, current_track, [0], (6, 0, 0), device="AMD EPYC, AVX2")
    finish(results, init_cell("fixed"), current_track, [0, 1])
    return tmp_path


def study(folder: Path, action: str, *options: str) -> int:
    places = ["--out", str(folder / "runs"), "--results", str(folder / "results")]
    return main(["study", action, str(folder / "study.yaml"), *places, *options])


@pytest.mark.slow
def test_a_page_has_table_curves_verdicts_and_what_is_missing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert study(folder, "page") == 0
    place = folder / "results" / "fixed"
    assert capsys.readouterr().out == f"{place / 'README.md'}\n"
    ElementTree.fromstring((place / "curves.svg").read_bytes())
    text = (place / "README.md").read_text("utf-8")
    # Two of eight solved, the same two both times: Wilson's interval of 2 of 8.
    assert "The init solves 25.0% [7.1, 59.1] of 8 episodes." in text
    row = next(line for line in text.splitlines() if line.startswith("| grpo |"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[:3] == ["grpo", "2", "25.0 [7.1, 59.1]"]
    assert cells[3].startswith("+0.0 [")
    assert cells[4:] == ["25.0 [7.1, 59.1]", "-", "0.0005", "32", "1.0"]
    sampo = next(line for line in text.splitlines() if line.startswith("| sampo |"))
    # At 32 episodes, after two updates of 16, four of eight were solved; at the end, all.
    assert re.match(r"\| sampo \| 2 \| 100\.0 \[[\d.]+, 100\.0\] \| \+75\.0 \[", sampo)
    assert "| 50.0 [21.5, 78.5] | - | 0.0005 | 64 | 2.0 |" in sampo
    # The recorded plays of GRPO, whose runs end there, are the same as at equal updates.
    assert cells[2] == cells[4]
    # Validations are 2 updates apart.
    assert "the mean of three validations (4 updates from first to last)" in " ".join(text.split())
    assert "Not collapsed, but" not in text
    assert "A dash, or unknown: runs with three validations or fewer" in text
    assert "| cispo | 1 of 2 |" in text
    assert "1 of 1 after update 2 (3 to 100%)" in text
    assert (
        "| A paper: SAMPO beats GRPO. | **not decided** (post hoc) | sampo minus grpo: +75.0 ["
        in text
    )
    assert "points); 3 seeds of each are needed, available: sampo 2, grpo 2 |" in text
    missing = "| CISPO collapses. | **incomplete** | 1 of 2 runs; cispo lacks seed 1; so far: cispo"
    assert f"{missing} 1 of 1 after update 2 (3 to 100%) |" in text
    assert "- cispo: seed 1\n" in text
    assert "of each run: not logged (4 runs); AMD EPYC, AVX2 (1 run). Rounding" in text
    assert "arlarena-bench train --track fixed --recipe grpo --seed 0 --engine transf" in text
    # Links out of the folder point to this project's files, also from other folders.
    (rule,) = re.findall(r"\[collapse\.py\]\((.*?)\)", text)
    assert (place / rule).resolve() == REPOSITORY / "benchmark" / "stability" / "collapse.py"
    assert "[All claims](../claims.md)" in text
    check_markdown(text)


@pytest.mark.slow
def test_a_late_loss_is_named(folder: Path, current_track: CurrentTrack) -> None:
    finish(folder / "results", Cell("fixed", "cispo", 1), current_track, [0], (6, 6, 2))
    assert study(folder, "page") == 0
    text = (folder / "results" / "fixed" / "README.md").read_text("utf-8")
    assert "best validation (10% or more) or below: cispo seed 1.\n" in text
    assert (
        "| cispo 1 after update 2, 1 unknown, 1 more at half of their best; validations too few to "
        "show a collapse: cispo 1 of 2; gain over the init: cispo -12.5 ["
    ) in text
    check_markdown(text)
    readme = folder / "README.md"
    readme.write_text(f"{ALL}\n{END}\n")
    assert study(folder, "page", "--readme", str(readme)) == 0
    assert "<br>1 collapsed, 1 unknown, 1 halved |" in readme.read_text("utf-8")


@pytest.mark.slow
def test_a_page_of_several_tasks_begins_with_their_mean(
    tmp_path: Path, tiny_tracks: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study_text = "name: tiny\nblocks: [{tracks: [mixed], recipes: [grpo], seeds: [0]}]\n"
    (tmp_path / "study.yaml").write_text(study_text)
    (tmp_path / "claims.yaml").write_text("claims: []\n")
    (tmp_path / "README.md").write_text(f"{ALL}\n{END}\n")
    mixed = current_tracks_of([Cell("mixed", "grpo", 0)], "study.yaml")["mixed"]
    results = tmp_path / "results"
    finish(results, Cell("mixed", "grpo", 0), mixed, range(8), other=range(2))
    finish(results, init_cell("mixed"), mixed, range(4), other=[])
    assert study(tmp_path, "page", "--readme", str(tmp_path / "README.md")) == 0
    text = (results / "mixed" / "README.md").read_text("utf-8")
    heads = [line for line in text.splitlines() if line.startswith("## ")]
    assert heads[:3] == ["## Mean over 2 tasks", "## sokoban/builtin", "## tir_math/builtin"]
    assert "averaged with equal weights. The init has 25.0% [" in text
    # All methods have played equally many episodes.
    assert "equal episodes" not in text.lower()
    assert "The init solves 0.0% [0.0, 32.4] of 8 episodes." in text
    rows = [line.split(" | ")[2:4] for line in text.splitlines() if line.startswith("| grpo |")]
    assert [success.split()[0] for success, _ in rows] == ["62.5", "100.0", "25.0"]
    assert [gain.split()[0] for _, gain in rows] == ["+37.5", "+50.0", "+25.0"]
    check_markdown(text)
    first_page = (tmp_path / "README.md").read_text("utf-8")
    assert "| mixed | sokoban | tir_math |\n" in first_page
    table = spaced((results / OVERVIEW).read_text("utf-8"))
    assert "| mixed | sokoban | tir_math | mean |" in table
    (row,) = [line.split(" | ") for line in table.splitlines() if line.startswith("| grpo")]
    assert [cell.split()[0] for cell in row[1:]] == ["100.0", "25.0", "62.5"]
    # Three validations are too few to show that a run has not collapsed.
    assert "collapsed" not in "".join(row)
    assert "| init | 50.0 [21.5, 78.5] | 0.0 [0.0, 32.4] | 25.0 [" in table
    capsys.readouterr()
    assert study(tmp_path, "status", "--json") == 0
    *_, trained = json.loads(capsys.readouterr().out)["rows"]
    assert trained["gain"] == 0  # 4 of 8 and 3 of 8, before and after


@pytest.mark.slow
def test_a_late_loss_on_a_task_is_named_with_it(tmp_path: Path, tiny_tracks: Path) -> None:
    """6, 6 and 2 of eight on Sokoban, 5, 5 and 1 on TIR Math."""
    cells = [Cell("mixed", "grpo", 0)]
    tracks = current_tracks_of(cells, "study.yaml")
    finished = [finish(tmp_path, cells[0], tracks["mixed"], [0], (6, 6, 2), other=[0])]
    found = results_by_track(cells, finished, tracks)
    where = "1 seed, 1 halved in the mean, 1 halved on sokoban, 1 halved on tir_math"
    assert overview_tables(found, tracks, ["mixed"]).endswith(f"<br>{where} |")
    text = " ".join(page_of(tracks["mixed"], found["mixed"], []).split())
    assert "on a task or in the mean: grpo seed 0 (mean, sokoban, tir_math)." in text


def test_a_study_of_its_own_recipe_shows_how_to_repeat_that(
    tmp_path: Path, current_track: CurrentTrack
) -> None:
    cells = [Cell("fixed", "grpo", 0), Cell("fixed", "ranked", 1)]
    tracks = {"fixed": current_track}
    finished = [finish(tmp_path / "results", cell, current_track, [0]) for cell in cells]
    found = results_by_track(cells, finished, tracks)["fixed"]
    assert "--track fixed --recipe grpo --seed 0 " in page_of(current_track, found, [])
    own = page_of(current_track, found, [], custom=("ranked",))
    assert "--track fixed --recipe ranked.yaml --seed 1 " in own


@pytest.mark.slow
def test_the_same_cells_give_the_same_page(folder: Path) -> None:
    assert study(folder, "page") == 0
    place = folder / "results" / "fixed"
    before = {path.name: path.read_bytes() for path in place.iterdir()}
    assert study(folder, "page") == 0
    assert {path.name: path.read_bytes() for path in place.iterdir()} == before


@pytest.mark.slow
def test_the_overview_stands_between_its_marks(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    readme = folder / "README.md"
    readme.write_text(f"# Before\n{ALL}\nold\n{END}\nafter\n")
    assert study(folder, "page", "--readme", str(readme)) == 0
    assert capsys.readouterr().out.endswith(f"{readme}\n")
    lines = spaced(readme.read_text("utf-8")).splitlines()
    assert (lines[:3], lines[-3:]) == (["# Before", ALL, ""], ["", END, "after"])
    assert lines[3:6] == [
        "| fixed | sokoban |",
        "| --- | --- |",
        "| init | 25.0 [7.1, 59.1] |",
    ]
    assert "| grpo | 25.0 [7.1, 59.1]<br>2 seeds |" in lines
    assert any(re.fullmatch(r"\| cispo \| .*<br>1 of 1 collapsed \|", x) for x in lines)
    # No method has three seeds. CISPO collapsed in 1 of 1 runs; the others show nothing.
    said = " ".join(" ".join(lines[lines.index("", 4) + 1 : -3]).split())
    assert said == (
        "- Collapsed: fixed (`cispo` 1 of 1), where runs have too few validations to show that "
        "they have not collapsed. - Of [2 claims](results/claims.md), 1 was written before the "
        "numbers were known: 0 reproduced, 0 contradicted, 0 not decided, 1 incomplete. 1 was "
        "written or changed afterward, which describes runs and tests nothing: 0 reproduced."
    )
    page = (folder / "results" / OVERVIEW).read_text("utf-8")
    table = lines[3 : lines.index("", 4)]
    assert "\n".join(["", *table, ""]) in spaced(page)
    assert "Collapsed: fixed (`cispo` 1 of 1), where runs" in page
    check_markdown(page)
    places = readme, folder / "results" / FIGURE, folder / "results" / EARLY_WARNING
    before = [place.read_bytes() for place in places]
    ElementTree.fromstring(before[1])
    claims = (folder / "results" / CLAIMS_PAGE).read_text("utf-8").splitlines()
    heads = [line for line in claims if line.startswith("## ")]
    assert heads[:2] == ["## A paper", "## Goals of the tracks"]
    assert heads[2:] == ["## How claims are judged", "## How good the intervals are"]
    tally = claims[claims.index(heads[0]) + 2]
    assert tally == (
        "1 claim: 0 reproduced, 0 contradicted, 1 not decided (1 post hoc), 0 incomplete."
    )
    assert claims[claims.index(heads[0]) + 6].startswith("| SAMPO beats GRPO. | [fixed]")
    assert "**not decided** (post hoc) |" in claims[claims.index(heads[0]) + 6]
    # Runs with three validations can only show a collapse, not its absence.
    assert b"No run has collapsed yet on a track whose runs can show" in before[2]
    assert study(folder, "page", "--readme", str(readme)) == 0
    assert [place.read_bytes() for place in places] == before


@pytest.mark.slow
def test_the_overview_shows_the_kinds_of_tracks_that_its_mark_names(
    tmp_path: Path, tiny_tracks: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "study.yaml").write_text(
        "name: tiny\nblocks: [{tracks: [mixed, fixed, tuned], recipes: [grpo], seeds: [0]}]\n"
    )
    (tmp_path / "claims.yaml").write_text("claims: []\n")
    cells = [Cell(track, "grpo", 0) for track in ("mixed", "fixed")]
    for cell in cells:
        current_track = current_tracks_of(cells, "study.yaml")[cell.track]
        finish(tmp_path / "results", cell, current_track, [0, 1], other=[0])
    readme = tmp_path / "README.md"

    def shown(mark: str) -> list[str]:
        """The kinds in the tables' headers, and the titles of the figure's plots."""
        readme.write_text(f"{mark}\n{END}\n")
        assert study(tmp_path, "page", "--readme", str(readme)) == 0
        lines = readme.read_text("utf-8").splitlines()
        assert (lines[0], lines[-1]) == (mark, END)
        figure = (tmp_path / "results" / FIGURE).read_text("utf-8")
        titles = re.findall(r"<!-- (mixed|fixed|tuned|no finished run) -->", figure)
        heads = [before for before, line in pairwise(lines) if line.startswith("| ---")]
        return [*(line.split(" | ")[0][2:] for line in heads), *titles]

    assert shown(ALL) == ["mixed", "fixed", "mixed", "fixed", "no finished run", "tuned"]
    page = (tmp_path / "results" / OVERVIEW).read_text("utf-8")
    assert shown(BEGIN.format(" of fixed")) == ["fixed", "fixed"]
    assert shown(BEGIN.format(" of fixed, mixed")) == ["fixed", "mixed", "fixed", "mixed"]
    assert (tmp_path / "results" / OVERVIEW).read_text("utf-8") == page
    capsys.readouterr()
    readme.write_text(f"{BEGIN.format(' of fixed, stess')}\nold\n{END}\n")
    assert study(tmp_path, "page", "--readme", str(readme)) == 2
    assert "the study has no tracks of the kind stess" in capsys.readouterr().err
    assert "\nold\n" in readme.read_text("utf-8")


@pytest.mark.slow
def test_a_readme_without_marks_is_left_alone(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    readme = folder / "README.md"
    readme.write_text("# Nothing\n")
    assert study(folder, "page", "--readme", str(readme)) == 2
    assert f"{readme} lacks the lines {ALL} and {END}" in capsys.readouterr().err
    assert readme.read_text() == "# Nothing\n"
    assert study(folder, "page", "--readme", str(folder / "none.md")) == 2
    assert "none.md cannot be read: No such file" in capsys.readouterr().err


@pytest.mark.slow
def test_claims_of_ones_own_are_judged(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert study(folder, "page", "--claims", str(folder / "none.yaml")) == 2
    assert "none.yaml does not exist" in capsys.readouterr().err
    (folder / "own.yaml").write_text("claims: [{claim: It gains., track: fixed, learns: [sampo]}]")
    assert study(folder, "page", "--claims", str(folder / "own.yaml")) == 0
    text = (folder / "results" / "fixed" / "README.md").read_text("utf-8")
    assert "| It gains. | **not decided** | sampo minus its init: +75.0 [" in text
    assert "SAMPO beats GRPO." not in text


@pytest.mark.slow
def test_what_another_study_has_finished_stays_on_the_page(folder: Path) -> None:
    other = STUDY.replace("grpo, sampo, cispo", "gspo")
    (folder / "study.yaml").write_text(other)
    assert study(folder, "page") == 0
    text = (folder / "results" / "fixed" / "README.md").read_text("utf-8")
    assert "| grpo | 2 |" in text
    assert "| cispo | 1 |" in text
    assert "- gspo: seeds 0, 1\n" in text


@pytest.mark.slow
def test_an_outdated_cell_is_named_and_not_used(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = folder / "results" / "fixed" / "cispo-s0.json"
    rewrite(facts, track={"name": "fixed", "sha256": "0" * 64})
    assert study(folder, "page") == 0
    said = capsys.readouterr().err
    assert said.startswith("fixed cispo seed 0 is outdated: the track was 000000000000... and is ")
    assert f"remove {facts} to run it again" in said
    text = (folder / "results" / "fixed" / "README.md").read_text("utf-8")
    assert "- cispo: seeds 0, 1\n" in text
    assert "| cispo |" not in text


def test_status_says_what_is_finished_running_failed_and_missing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = folder / "runs" / "fixed" / "cispo-s1"
    run.mkdir(parents=True)
    assert study(folder, "status", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    rows = {row["recipe"]: row for row in found["rows"]}
    assert list(rows) == ["init", "grpo", "sampo", "cispo"]
    assert rows["sampo"]["finished"] == [0, 1]
    assert rows["sampo"]["gain"] == 0.75
    assert rows["cispo"]["collapsed"] == 1
    # Three validations cannot show that the other runs did not collapse.
    assert rows["grpo"]["collapsed"] is rows["init"]["collapsed"] is None
    assert rows["cispo"]["missing"] == [1]
    # The one finished run of CISPO took a minute.
    assert found["left"] == "about 60 s of CPU time left"
    # Two runs of GRPO, one of CISPO and the init, a minute each; two of SAMPO, two minutes each.
    assert found["spent_cpu_seconds"] == {"sokoban": 8 * 60}
    began = process_start(os.getpid())
    assert began is not None
    # This process; another process that now has its id; a file of an older version.
    starts = ((began, True), (began - 1, False), (None, True), (began, True))
    for torn, (start, running) in zip((None, b"", b"", b'{"kind":'), starts, strict=True):
        if torn is not None:  # the run has just opened its log
            (run / LOG).write_bytes(torn)
        write_state(run, RunState(cpu_seconds={}, pid=os.getpid(), began=start, failure=None))
        assert study(folder, "status", "--json") == 0
        (row,) = (r for r in json.loads(capsys.readouterr().out)["rows"] if r["recipe"] == "cispo")
        assert row["running"] == ({"1": "begins"} if running else {})
        assert row["missing"] == ([] if running else [1])
    (run / LOG).unlink()
    write_state(run, RunState(cpu_seconds={}, pid=None, failure="train ended with exit code 2"))
    assert study(folder, "status") == 0
    said = capsys.readouterr().out
    assert "fixed cispo seed 1 failed: train ended with exit code 2" in said
    assert "CPU time of finished runs: 8 min on sokoban" in said
    assert "6 of 7 runs are finished" in said


def check_markdown(text: str) -> None:
    """Check that table rows are as long as their headers and that no template or Python is left."""
    assert not re.search(r"\{\{|\{%|None|nan|Interval\(", text)
    assert "\n\n\n" not in text
    for table in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
        head, rule, *rows = table.splitlines()
        assert re.fullmatch(r"\|( ?-+:? ?\|)+", rule)
        assert {line.count("|") for line in (rule, *rows)} == {head.count("|")}
        assert rows
