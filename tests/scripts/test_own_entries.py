"""The plan of the project's own submissions."""

import argparse
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from baselines.inits.registry import INITS, find_model
from baselines.study.cells import unpack
from baselines.study.current_tracks import current_tracks_of
from baselines.study.schema import Cell
from benchmark.cli.arguments import evaluation
from benchmark.models import weights_in
from benchmark.submissions.about import read_about
from benchmark.submissions.parts import parts_of
from scripts.own_entries import PANELS, PIXELS, Plan, inits, policies, study
from tests.support.training.study_cells import finish
from tests.support.training.tiny_study import make_tracks, use_tracks


def _accepted(plan: Plan) -> None:
    """Check that the command line accepts every evaluation."""
    parser = argparse.ArgumentParser()
    evaluation.add(parser.add_subparsers())
    for name, arguments in plan.evaluations.items():
        parser.parse_args(["eval", *arguments, "--out", name])


def test_policies_play_all_built_in_panels() -> None:
    plans = policies()
    folders = [plan.folder for plan in plans]
    assert folders == ["expert", "random", "expert-pixels", "random-pixels"]
    for plan, panels in zip(plans, (PANELS, PANELS, PIXELS, PIXELS), strict=True):
        _accepted(plan)
        (arguments,) = plan.evaluations.values()
        assert [each for each in arguments if "/" in each] == list(panels)


def test_every_shipped_init_plays_its_own_task() -> None:
    plans = {plan.folder: plan for plan in inits()}
    assert set(plans) == {path.parent.name for path in INITS.glob("*/model.safetensors")}
    assert plans["tiny-sokoban"].about["parameters"] == 442_272
    assert plans["tiny-tir-math"].evaluations["tiny-tir-math"][-1] == "tir_math/builtin"


def test_recipes_of_a_study_are_sent_when_all_their_seeds_are_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_tracks(tmp_path)
    use_tracks(tmp_path, monkeypatch)
    file, results = tmp_path / "study.yaml", tmp_path / "results"
    file.write_text(
        "name: s\nblocks: [{tracks: [fixed], recipes: [grpo, cispo_sm], seeds: [0, 1]}]"
    )
    assert study(file, results, partial=False) == []
    current_track = current_tracks_of([Cell("fixed", "grpo", 0)], "s")["fixed"]
    cells = [
        Cell("fixed", recipe, seed)
        for recipe, seed in (("cispo_sm", 1), ("grpo", 0), ("cispo_sm", 0))
    ]
    made = {cell: finish(results, cell, current_track, [0]) for cell in cells}
    (plan,) = study(file, results, partial=False)
    short, _ = study(file, results, partial=True)
    assert (short.folder, short.cells) == ("grpo-fixed", (made[cells[1]],))
    assert plan.folder == "cispo-sm-fixed"
    assert plan.about["name"] == "CISPO_SM fixed"
    assert plan.about["training_data"]["training_streams"] == ["sokoban"]
    assert (
        "4 updates from tiny-sokoban at the learning rate 0.0005"
        in (plan.about["method"]["description"])
    )
    assert plan.cells == (made[cells[2]], made[cells[0]])
    about = tmp_path / "about.yaml"
    about.write_text(yaml.safe_dump(plan.about))
    read_about(about, "trained", "2027-01-02", lambda name: find_model(name).identity)


def test_a_cell_is_unpacked_as_the_folders_that_a_submission_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_tracks(tmp_path)
    use_tracks(tmp_path, monkeypatch)
    current_track = current_tracks_of([Cell("fixed", "grpo", 0)], "s")["fixed"]
    cells = [
        finish(tmp_path / "results", Cell("fixed", "grpo", s), current_track, [s]) for s in (0, 1)
    ]
    runs, logs = [], []
    for number, cell in enumerate(cells):
        # The invented cells all have the same hash of weights.
        identity = cell.facts.evaluation.model.model_copy(update={"sha256": str(number) * 64})
        evaluation = cell.facts.evaluation.model_copy(update={"model": identity})
        facts = cell.facts.model_copy(update={"evaluation": evaluation})
        run, log = unpack(replace(cell, facts=facts), tmp_path / "entries" / cell.cell.stem)
        runs.append(run)
        logs.append(log)
    parts = parts_of(runs, logs)
    assert [part.seed for part in parts] == [0, 1]
    for part, cell in zip(parts, cells, strict=True):
        assert part.log is not None
        assert cell.log is not None
        assert part.log.updates == cell.log.updates
        solved = [record.success for record in part.runs[0].records]
        assert [number for number, won in enumerate(solved) if won] == [cell.cell.seed]


def test_sizes_are_those_that_the_check_asks_for() -> None:
    for plan in inits():
        assert plan.about["base_model"] == plan.folder
        assert plan.about["parameters"] == weights_in(INITS / plan.folder)
