"""The submissions on a panel with few levels: many forgeries do not need all 256 episodes.

A folder of tests uses them by importing the fixtures in its `conftest.py`.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmark.evaluation.evaluate import Plan
from tasks.sokoban.task import SokobanTask
from tests.support.once import made_once
from tests.support.submissions.small import play_policy, policy_submission, trained_submission
from tests.support.training.tiny_study import use_first_entries

EPISODES = 24
"""Episodes of the panel."""


@pytest.fixture(scope="module", autouse=True)
def few_levels() -> Iterator[None]:
    """Reduce all Sokoban panels to their first levels, for both playing and checking."""
    with pytest.MonkeyPatch.context() as patch:
        use_first_entries(patch, SokobanTask, EPISODES)
        yield


def _played(factory: pytest.TempPathFactory, policy: str) -> Path:
    plan = Plan.of([("sokoban", "builtin")])
    return made_once(factory, f"few-{policy}", lambda folder: play_policy(folder, policy, plan))


@pytest.fixture(scope="module")
def expert_run(tmp_path_factory: pytest.TempPathFactory, few_levels: None) -> Path:
    """The expert's run on them."""
    return _played(tmp_path_factory, "expert")


@pytest.fixture(scope="module")
def random_run(tmp_path_factory: pytest.TempPathFactory, few_levels: None) -> Path:
    """The random policy's run on them."""
    return _played(tmp_path_factory, "random")


@pytest.fixture(scope="module")
def submissions(
    tmp_path_factory: pytest.TempPathFactory, expert_run: Path, random_run: Path
) -> Path:
    """A folder of two submissions: the expert, and two seeds that solve about 60%."""

    def make(folder: Path) -> None:
        policy_submission(folder, expert_run)
        trained_submission(folder, expert_run, random_run)

    return made_once(tmp_path_factory, "few", make)


@pytest.fixture(scope="module")
def policy(submissions: Path) -> Path:
    """The expert's submission."""
    return submissions / "20260102_policy"


@pytest.fixture(scope="module")
def trained(submissions: Path) -> Path:
    """The submission of two seeds."""
    return submissions / "20260102_trained"
