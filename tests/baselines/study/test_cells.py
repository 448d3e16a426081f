"""Finished cells: whether they exist and are current; damaged ones are not read."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from baselines.study import workspace
from baselines.study.cells import CellFiles, init_cell, outdated, read_cell, read_plays
from baselines.study.current_tracks import CurrentTrack
from baselines.study.custom import SHIPPED_ONLY
from baselines.study.schema import Cell
from baselines.study.workspace import changed_methods, code_commit, read_state, survey
from tasks.errors import UserError
from tests.support.submissions.repositories import git
from tests.support.training.study_cells import finish, rewrite

CELL = Cell("fixed", "grpo", 0)


def test_a_cell_is_read_as_it_was_written(tmp_path: Path, current_track: CurrentTrack) -> None:
    found = finish(tmp_path / "results", CELL, current_track, {0, 3, 7})
    assert read_cell(tmp_path / "results", CELL) == found
    assert found.log is not None
    assert [line.update for line in found.log.validations] == [0, 2, 4]
    (solved,) = read_plays(found).values()
    assert [number for number, won in enumerate(solved.values()) if won] == [0, 3, 7]
    assert found.facts.own_seconds == 60.0
    names = {path.name for path in (tmp_path / "results" / "fixed").iterdir()}
    assert names == {"grpo-s0.json", "grpo-s0.jsonl.zst", "grpo-s0.episodes.jsonl.zst"}


def test_records_that_were_replaced_are_read_again(
    tmp_path: Path, current_track: CurrentTrack
) -> None:
    found, other = (
        finish(tmp_path / name / "results", CELL, current_track, solved)
        for name, solved in (("one", {0, 1}), ("other", {2, 3}))
    )
    assert read_plays(found) != read_plays(other)
    shutil.copyfile(other.place.episodes, found.place.episodes)
    assert read_plays(found) == read_plays(other)
    found.place.episodes.unlink()
    with pytest.raises(UserError, match=r"episodes\.jsonl\.zst cannot be read: No such file"):
        read_plays(found)


def test_a_cell_without_facts_is_not_finished(tmp_path: Path, current_track: CurrentTrack) -> None:
    """This file is written last: after a kill between the files, the cell runs again."""
    found = finish(tmp_path / "results", CELL, current_track, {0})
    found.place.facts.unlink()
    assert read_cell(tmp_path / "results", CELL) is None


def test_a_cell_of_another_track_or_protocol_is_outdated(
    tmp_path: Path, current_track: CurrentTrack
) -> None:
    facts = finish(tmp_path / "results", CELL, current_track, {0}).facts
    track, protocol = current_track.track.sha256, current_track.validation.fingerprint
    assert outdated(facts, track, protocol) is None
    assert (outdated(facts, "0" * 64, protocol) or "").startswith(f"the track was {track[:12]}")
    assert (outdated(facts, track, "0" * 64) or "").startswith(f"the protocol was {protocol[:12]}")


def test_an_outdated_cell_is_neither_used_nor_missing(
    tmp_path: Path, current_track: CurrentTrack
) -> None:
    results = tmp_path / "results"
    old = finish(results, CELL, current_track, {0})
    other = Cell("fixed", "grpo", 1)
    current = finish(results, other, current_track, {1})
    rewrite(old.place.facts, track={"name": "fixed", "sha256": "0" * 64})
    missing = Cell("fixed", "grpo", 2)
    found = survey([CELL, other, missing], {"fixed": current_track}, results)
    assert found.finished == (current,)
    assert list(found.outdated) == [CELL]
    assert found.missing == (missing,)


@pytest.mark.parametrize(
    ("recipe", "aggregation", "said"),
    [
        ("grpo", "token-mean", None),
        ("grpo", "seq-mean-token-mean", "recipe grpo has another aggregation now"),
        # Nothing is known of a missing recipe.
        ("another", "seq-mean-token-mean", None),
    ],
)
def test_runs_of_a_shipped_recipe_that_has_changed_are_outdated(
    tmp_path: Path, current_track: CurrentTrack, recipe: str, aggregation: str, said: str | None
) -> None:
    found = finish(tmp_path / "results", Cell("fixed", recipe, 0), current_track, {0})
    assert found.log is not None
    settings = {**found.log.start.configuration, "aggregation": aggregation}
    start = found.log.start.model_copy(update={"configuration": settings})
    ran = replace(found, log=replace(found.log, start=start))
    assert SHIPPED_ONLY.changed(ran, current_track.track) == said


def test_damaged_files_are_named(tmp_path: Path, current_track: CurrentTrack) -> None:
    results = tmp_path / "results"
    found = finish(results, CELL, current_track, {0})
    found.place.log.write_bytes(b"no archive")
    with pytest.raises(UserError, match=r"grpo-s0\.jsonl\.zst cannot be unpacked"):
        read_cell(results, CELL)
    found.place.log.unlink()
    with pytest.raises(UserError, match=r"grpo-s0\.jsonl\.zst"):
        read_cell(results, CELL)
    rewrite(found.place.facts, weights="short")
    with pytest.raises(UserError, match=r"grpo-s0\.json: weights: "):
        read_cell(results, CELL)


def test_files_under_the_name_of_another_cell_are_refused(
    tmp_path: Path, current_track: CurrentTrack
) -> None:
    results = tmp_path / "results"
    place = finish(results, CELL, current_track, {0}).place
    other = CellFiles(results, Cell("fixed", "grpo", 1))
    place.facts.rename(other.facts)
    with pytest.raises(
        UserError, match="belongs to fixed grpo seed 0, which does not match its name"
    ):
        read_cell(results, other.cell)


def test_records_that_are_not_the_whole_panel_are_refused(
    tmp_path: Path, current_track: CurrentTrack
) -> None:
    results = tmp_path / "results"
    found = finish(results, init_cell("fixed"), current_track, {0})
    assert found.log is None
    assert found.place.facts.name == "init.json"
    evaluation = found.facts.evaluation.model_dump(mode="json")
    evaluation["panels"][0]["episodes"] = 9
    more = found.facts.evaluation.model_validate_json(found.facts.evaluation.model_dump_json())
    assert more == found.facts.evaluation
    rewrite(found.place.facts, evaluation=evaluation)
    with pytest.raises(UserError, match="the fingerprint does not match the panels"):
        read_cell(results, init_cell("fixed"))


def test_a_commit_is_dirty_where_code_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace, "_ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert code_commit() is None
    git(tmp_path, "init", "--quiet")
    assert code_commit() is None  # nothing is committed
    results = tmp_path / "baselines" / "results" / "rates.yaml"
    results.parent.mkdir(parents=True)
    code = tmp_path / "baselines" / "code.py"
    for file in (results, code):
        file.write_text("one")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "one")
    commit = git(tmp_path, "rev-parse", "HEAD").strip()
    results.write_text("written by a study")
    assert code_commit() == commit
    (tmp_path / "notes.txt").write_text("mine")
    assert code_commit() == commit
    code.write_text("two")
    assert code_commit() == f"{commit}-dirty"
    code.write_text("one")
    code.with_name("method.py").write_text("new")
    assert code_commit() == f"{commit}-dirty"


def test_changed_files_of_shipped_methods_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace, "_ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert changed_methods() == ()
    git(tmp_path, "init", "--quiet")
    names = ("algorithms/gae.py", "recipes/grpo.yaml", "recipes/README.md", "study/cells.py")
    files = [tmp_path / "baselines" / name for name in names]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("one")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "one")
    (tmp_path / "baselines" / "algorithms" / "mine.py").write_text("a method more")
    assert changed_methods() == ()
    for file in files:
        file.write_text("two")
    git(tmp_path, "add", "baselines/algorithms/gae.py")
    assert changed_methods() == ("baselines/algorithms/gae.py", "baselines/recipes/grpo.yaml")


def test_the_state_of_a_run_below_a_file_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"study\.json cannot be read: Not a directory"):
        read_state(tmp_path / "file")
