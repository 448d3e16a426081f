"""Warnings about a run that does not learn."""

from pathlib import Path

import pytest

from baselines.config.layers import resolve
from baselines.config.run import TrainingRun
from baselines.inits.registry import find_model
from baselines.learning.metrics import Metrics
from baselines.training.early_stopping import EarlyStopping
from tasks.registry import load_task


@pytest.mark.parametrize(
    ("spread", "share", "said"),
    [
        (0.0, 0.0, "in every group all episodes had the same return"),
        (0.5, 0.0, "returns in a group differ, but all advantages are 0"),
        (0.5, 1.0, "returns in a group differ, but all advantages are 0 without format penalties"),
    ],
)
def test_a_run_without_an_advantage_says_why(
    spread: float, share: float, said: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = resolve("grpo", "tiny", ["sokoban"], ["optimization.updates=2"])
    task, init = load_task("sokoban"), find_model("tiny-sokoban")
    watched = EarlyStopping(TrainingRun("grpo", config, (task,), init, 0, tmp_path), warns=True)
    for number in (1, 2):
        assert not caplog.text
        metrics: Metrics = {"rollout/group_std": spread, "policy/advantage_std": share}
        metrics["policy/penalty_share"] = share
        watched.note(number, metrics)
    assert f"no update of this run had an advantage: {said}, so that nothing was" in caplog.text
    assert ("the advantage grpo" in caplog.text) == (spread > 0)
