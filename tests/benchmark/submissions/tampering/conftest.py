"""The submissions on a panel of few levels: what is forged in 24 episodes need not be in 256."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmark.evaluation.evaluate import Plan
from tasks.sokoban.task import SokobanTask
from tests.benchmark.submissions.tampering.forgery import EPISODES
from tests.support.once import made_once
from tests.support.submissions import play_policy, policy_submission, trained_submission
from tests.support.tiny_study import first_levels


@pytest.fixture(scope="module", autouse=True)
def few_levels() -> Iterator[None]:
    """All panels of Sokoban are their first levels, for what plays and for what checks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SokobanTask, "panel", first_levels(EPISODES))
        yield


@pytest.fixture(scope="module")
def submissions(tmp_path_factory: pytest.TempPathFactory, few_levels: None) -> Path:
    """A folder of two submissions: the expert, and two seeds that solve about 60 %."""
    plan = Plan.of([("sokoban", "builtin")])

    def make(folder: Path) -> None:
        expert, at_random = (
            play_policy(folder / name, name, plan) for name in ("expert", "random")
        )
        policy_submission(folder, expert)
        trained_submission(folder, expert, at_random)

    return made_once(tmp_path_factory, "few", make)


@pytest.fixture(scope="module")
def policy(submissions: Path) -> Path:
    """The expert's."""
    return submissions / "20260102_policy"


@pytest.fixture(scope="module")
def trained(submissions: Path) -> Path:
    """Of two seeds."""
    return submissions / "20260102_trained"
