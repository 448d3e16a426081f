"""What trackers receive from a run."""

from pathlib import Path
from typing import Any

import pytest
from accelerate.tracking import TensorBoardTracker

from benchmark.cli.main import main
from benchmark.logs.foreign.tensorboard import PATTERN, read_tensorboard
from benchmark.logs.training_log import LOG, read_training_log
from tests.support.training.tiny_study import MIXED, make_tracks, use_tracks
from tests.support.training.train_command import train


@pytest.mark.slow
def test_validations_of_several_tasks_have_names_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed")
    make_tracks(tmp_path)
    use_tracks(tmp_path, monkeypatch)
    out = tmp_path / "run"
    words = ["train", "--track", "mixed", "--recipe", "grpo", "--out", str(out)]
    assert main([*words, "--tracker", "tensorboard", "--set", "optimization.updates=1"]) == 0
    log = read_training_log(out / LOG)
    assert len(log.panels) == len(MIXED)
    (file,) = (out / "arlarena-bench").glob(PATTERN)
    (found,) = read_tensorboard([file], {})
    for panel in log.panels:
        points = found.run.curves[f"validation/success@{panel}"]
        assert points.steps.tolist() == [line.update for line in log.of_panel(panel)]
        assert points.values.tolist() == [line.success for line in log.of_panel(panel)]


@pytest.mark.slow
def test_a_tracker_that_fails_does_not_end_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As one that loses its server; nor does it take the rest of the numbers with it."""
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed")
    told: list[int] = []
    log_numbers = TensorBoardTracker.log

    def failing(tracker: Any, numbers: Any, step: int, **other: Any) -> None:
        told.append(step)
        if step < 3:
            raise ConnectionError("gone\nfor now")
        log_numbers(tracker, numbers, step=step, **other)

    def finish(tracker: Any) -> None:
        tracker.writer.close()
        raise ConnectionError("still gone")

    monkeypatch.setattr(TensorBoardTracker, "log", failing)
    monkeypatch.setattr(TensorBoardTracker, "finish", finish)
    out = tmp_path / "run"
    assert train(out, "--tracker", "tensorboard", recipe="grpo", optimization__updates="3") == 0
    assert [line.update for line in read_training_log(out / LOG).updates] == told == [1, 2, 3]
    failed = "tensorboard failed (ConnectionError: gone); this does not affect the run or its log"
    assert [failed in text for text in caplog.messages if "the tracker" in text] == [True]
    (file,) = (out / "arlarena-bench").glob(PATTERN)
    (found,) = read_tensorboard([file], {})
    assert found.run.curves["rollout/return"].steps.tolist() == [3]
