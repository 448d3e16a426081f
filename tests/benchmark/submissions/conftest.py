"""The submissions, and fresh copies of them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.submissions import Copy, copied

Copies = Callable[[str], Copy]
"""Gives a fresh copy of the submission `policy` or `trained`."""


@pytest.fixture(scope="session")
def policy(submissions: Path) -> Path:
    """The expert's."""
    return submissions / "20260102_policy"


@pytest.fixture(scope="session")
def trained(submissions: Path) -> Path:
    """Of two seeds."""
    return submissions / "20260102_trained"


@pytest.fixture
def copies(tmp_path: Path, policy: Path, trained: Path) -> Copies:
    """Fresh copies of the submissions, by name."""
    return lambda name: copied({"policy": policy, "trained": trained}[name], tmp_path)
