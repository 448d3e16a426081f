"""Submissions that are made once for all tests of this folder."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.submissions import (
    Copy,
    copied,
    play_policy,
    policy_submission,
    trained_submission,
)

Copies = Callable[[str], Copy]
"""Gives a fresh copy of the submission `policy` or `trained`."""


@pytest.fixture(scope="session")
def expert_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return play_policy(tmp_path_factory.mktemp("expert"), "expert")


@pytest.fixture(scope="session")
def random_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return play_policy(tmp_path_factory.mktemp("random"), "random")


@pytest.fixture(scope="session")
def policy(tmp_path_factory: pytest.TempPathFactory, expert_run: Path) -> Path:
    return policy_submission(tmp_path_factory.mktemp("policy"), expert_run)


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory, expert_run: Path, random_run: Path) -> Path:
    return trained_submission(tmp_path_factory.mktemp("trained"), expert_run, random_run)


@pytest.fixture
def copies(tmp_path: Path, policy: Path, trained: Path) -> Copies:
    """Fresh copies of the submissions, by name."""
    return lambda name: copied({"policy": policy, "trained": trained}[name], tmp_path)
