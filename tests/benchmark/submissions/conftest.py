"""The submissions, and fresh copies of them."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from benchmark.evaluation.run_folder import read_run
from tests.support.submissions.small import Copy, Json, copied, with_tokens

Copies = Callable[[str], Copy]
"""Returns a fresh copy of the submission `policy` or `trained`."""
OtherPlays = Callable[..., None]
"""Replaces the plays of a range of a copy's episodes."""


@pytest.fixture(scope="session")
def policy(submissions: Path) -> Path:
    """The expert's submission."""
    return submissions / "20260102_policy"


@pytest.fixture(scope="session")
def trained(submissions: Path) -> Path:
    """The submission of two seeds."""
    return submissions / "20260102_trained"


@pytest.fixture
def copies(tmp_path: Path, policy: Path, trained: Path) -> Copies:
    """Fresh copies of the submissions, by name."""
    return lambda name: copied({"policy": policy, "trained": trained}[name], tmp_path)


@pytest.fixture
def other_plays(expert_run: Path, random_run: Path) -> OtherPlays:
    """Replace some plays by the other policy's: the expert's by random ones, and vice versa."""
    policies = [read_run(expert_run)[1], read_run(random_run)[1]]

    def change(copy: Copy, first: int = 0, last: int | None = None) -> None:
        def records(records: list[Json], seed: int) -> None:
            for place in range(first, len(policies[0]) if last is None else last):
                told = [turn["response"] for turn in records[place]["turns"]]
                (other,) = [
                    each[place]
                    for each in policies
                    if [turn.response for turn in each[place].turns] != told
                ]
                records[place] = with_tokens(other, 77 + seed).model_dump(mode="json")

        for seed in (0, 1):
            copy.records(partial(records, seed=seed), f"runs/r{seed}")

    return change
