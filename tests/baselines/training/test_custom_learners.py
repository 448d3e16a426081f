"""User-defined learners: what their steps may return, and what they restore on a resume."""

import dataclasses
import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from baselines.algorithms.custom_learner import state_of
from baselines.algorithms.learner_checks import LearnerChecks
from baselines.learning.learner import Advantages, Learner, ModelValues
from baselines.rollouts.rows import Row
from benchmark.logs.training_log import LOG
from tasks.errors import UserError
from tests.support.training.logs import without_times
from tests.support.training.runs import train
from tests.support.training.synthetic_rows import random_rows

ONCE = ("optimization.updates=1", "optimization.mini_batches=1")


class Forgetful(Learner):
    """Its baselines are a moving average of returns over updates, starting from 0."""

    baseline = 0.0

    def advantages(self, rows: Sequence[Row], values: ModelValues) -> Advantages:
        del values
        found = [
            torch.from_numpy(row.response_mask).float() * (row.reward - self.baseline)
            for row in rows
        ]
        mean = sum(row.reward for row in rows) / len(rows)
        self.baseline = 0.5 * self.baseline + 0.5 * mean
        return Advantages(found, None, 0.0)


class Remembering(Forgetful):
    """The same, with the average in its checkpoints."""

    def state_dict(self) -> Mapping[str, Any]:
        return {"baseline": torch.tensor(self.baseline, dtype=torch.float64)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.baseline = float(state["baseline"])


@pytest.mark.slow
def test_what_a_learner_remembers_survives_a_resume(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own = ("optimization.updates=4",)
    with caplog.at_level(logging.WARNING):
        whole = train(tmp_path / "run", "rloo", own, kill_at=3, learner=Remembering)
        assert "checkpoint holds" not in caplog.text
        train(tmp_path / "run-killed", "rloo", own, learner=Remembering)
        logged = [json.loads(line) for line in (tmp_path / "run-killed" / LOG).open()]
        assert [without_times(line) for line in logged[1:]] == [*map(without_times, whole)]
        # The same learner without it restarts from 0, with a single warning before that matters.
        train(tmp_path / "lost", "rloo", own, kill_at=3, learner=Forgetful)
    said = "the learner Forgetful changes baseline in an update, but no checkpoint holds it"
    assert caplog.text.count(said) == 1
    rest = train(tmp_path / "lost-killed", "rloo", own, learner=Forgetful)
    assert rest[0]["policy/advantage_std"] == whole[2]["policy/advantage_std"]
    assert rest[0]["policy/loss"] != whole[2]["policy/loss"]


class Unsaveable(Learner):
    """Has a class in its state."""

    def state_dict(self) -> Mapping[str, Any]:
        return {"rule": Path}


CANNOT_HOLD = "state_dict.. of the learner gives something that a checkpoint cannot hold"


@pytest.mark.slow
def test_a_state_that_a_checkpoint_cannot_hold_is_refused_before_anything_is_played(
    tmp_path: Path,
) -> None:
    phases: list[str] = []
    with pytest.raises(UserError, match=CANNOT_HOLD):
        train(
            tmp_path / "run",
            "rloo",
            ONCE,
            said=lambda phase, done, total: phases.append(phase),
            learner=Unsaveable,
        )
    assert phases == []
    assert not (tmp_path / "run" / LOG).exists()


class LaterUnsaveable(Forgetful):
    """Remembers code from the first update on."""

    def state_dict(self) -> Mapping[str, Any]:
        return {"rule": Path} if self.baseline else {"baseline": self.baseline}


@pytest.mark.slow
def test_a_state_that_becomes_one_ends_the_run_at_the_first_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=CANNOT_HOLD):
        train(tmp_path / "run", "rloo", ONCE, learner=LaterUnsaveable)
    assert [json.loads(line)["kind"] for line in (tmp_path / "run" / LOG).open()][1:] == ["update"]
    assert not (tmp_path / "run" / "last").exists()


def test_a_state_that_is_no_dictionary_is_an_error() -> None:
    learner = SimpleNamespace(config=SimpleNamespace(learner=None), state_dict=lambda: [1.0])
    with pytest.raises(TypeError, match="gives list instead of a dictionary"):
        state_of(learner)


class Endless(Learner):
    """Returns advantages that are not numbers."""

    def advantages(self, rows: Sequence[Row], values: ModelValues) -> Advantages:
        found = super().advantages(rows, values)
        return dataclasses.replace(found, of_tokens=[each / 0 for each in found.of_tokens])


@pytest.mark.slow
def test_advantages_of_a_learner_that_are_not_finite_end_the_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"advantages\(\) of the learner Endless is not finite for"):
        train(tmp_path / "run", "grpo", ONCE, learner=Endless)


def rows_of(*lengths: int) -> list[Row]:
    """Rows with so many tokens."""
    return [
        dataclasses.replace(row, response_ids=np.zeros(length, np.int32))
        for row, length in zip(random_rows(len(lengths)), lengths, strict=True)
    ]


def checks() -> LearnerChecks:
    return LearnerChecks(SimpleNamespace(config=SimpleNamespace(learner=None)))


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (None, "has to give a list of optimizer steps, .*: 'NoneType' object is not iterable"),
        ([0, 1], "has to give a list of optimizer steps, .*: 'int' object is not iterable"),
        ([["0"]], "has to give a list of optimizer steps, .*: 'str' object cannot be"),
        ([[True, False]], "has to give a list of .*: a bool is not a row number"),
        ([[0], [2]], "gives the row number 2; rows are 0 to 1"),
        ([[-1]], "gives the row number -1; rows are 0 to 1"),
    ],
)
def test_a_plan_is_a_list_of_steps_of_row_numbers(plan: object, said: str) -> None:
    with pytest.raises(UserError, match=rf"^plan\(\) of the learner SimpleNamespace {said}"):
        checks().plan(plan, 2)


def test_a_plan_may_be_of_tensors_and_tuples() -> None:
    assert checks().plan((torch.tensor([1, 0]), (1,)), 2) == [[1, 0], [1]]
    assert checks().plan([], 2) == []


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ([torch.zeros(2)], "gives 1 rows instead of 2"),
        ([torch.zeros(2), torch.zeros(())], r"gives \(\) for row 1 instead of .* shape \(3,\)"),
        ([torch.zeros(2), [0.0] * 3], "gives list for row 1 instead of a tensor of shape"),
        ([torch.zeros(2), torch.zeros(3).long()], "gives torch.int64 instead of floating-point"),
        (
            [torch.zeros(2), torch.full((3,), torch.nan)],
            r"is not finite for row 1 \(sokoban, group 0, member 0, turn 1\)$",
        ),
    ],
)
def test_advantages_are_one_number_for_each_token(found: list[object], said: str) -> None:
    with pytest.raises(UserError, match=rf"^advantages\(\) of the learner SimpleNamespace {said}"):
        checks().of_tokens(found, rows_of(2, 3), sound=True)


def test_advantages_may_be_anything_where_the_policy_is_not_finite() -> None:
    checks().of_tokens([torch.full((2,), torch.nan)], rows_of(2), sound=False)


def test_a_step_without_a_result_is_named() -> None:
    with pytest.raises(UserError, match=r"^steps\(\) of the .* gives NoneType instead of dict$"):
        checks().given(None, dict, "steps")
