"""The project's own submissions, as they are planned."""

import argparse
from pathlib import Path

import pytest

from baselines.registry import INITS
from benchmark.arguments import evaluation
from benchmark.models import weights_in
from scripts.own_entries import PANELS, Plan, inits, policies, study
from scripts.study import aggressive
from tests.study_runs import STEADY, write_run


def _accepted(plan: Plan) -> None:
    """See that every evaluation is one that the command line takes."""
    parser = argparse.ArgumentParser()
    evaluation.add(parser.add_subparsers())
    for name, arguments in plan.evaluations.items():
        parser.parse_args(["eval", *arguments, "--out", name])


def test_policies_play_all_built_in_panels() -> None:
    plans = policies()
    assert [plan.folder for plan in plans] == ["expert", "random"]
    for plan in plans:
        _accepted(plan)
        (arguments,) = plan.evaluations.values()
        assert [each for each in arguments if "/" in each] == list(PANELS)


def test_every_shipped_init_plays_its_own_task() -> None:
    plans = {plan.folder: plan for plan in inits()}
    assert set(plans) == {path.parent.name for path in INITS.glob("*/model.safetensors")}
    assert plans["tiny-sokoban"].about["parameters"] == 407_904
    assert plans["tiny-tir-math"].evaluations["tiny-tir-math"][-1] == "tir_math/builtin"


def test_recipes_of_the_study_are_sent_when_all_their_seeds_are_finished(tmp_path: Path) -> None:
    for run in aggressive(["sapo", "cispo_sm"], [0, 1]):
        write_run(tmp_path, run, STEADY)
    for run in aggressive(["gspo"], [0, 1]):
        write_run(tmp_path, run, STEADY, made=15 if run.seed == 0 else 3)
    plans = study(tmp_path, [0, 1])
    assert [plan.folder for plan in plans] == [
        "sapo-tiny-sokoban-aggressive",
        "cispo-sm-tiny-sokoban-aggressive",
    ]
    assert plans[1].about["name"] == "CISPO_SM (aggressive)"
    assert [path.name for path in plans[0].logs] == ["sapo-5e-4-s0", "sapo-5e-4-s1"]
    assert [a[1] for a in plans[0].evaluations.values()] == [f"{f}/last" for f in plans[0].logs]
    _accepted(plans[0])


@pytest.mark.parametrize("seeds", [[0, 1, 2], [2]])
def test_a_study_without_runs_has_no_entries(tmp_path: Path, seeds: list[int]) -> None:
    assert study(tmp_path, seeds) == []


def test_sizes_are_those_that_the_check_asks_for() -> None:
    for plan in inits():
        assert plan.about["base_model"] == plan.folder
        assert plan.about["parameters"] == weights_in(INITS / plan.folder)
