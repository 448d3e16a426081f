"""What trackers get of a run."""

from pathlib import Path

import pytest

from benchmark.cli.main import main
from benchmark.logs.foreign.tensorboard import PATTERN, read_tensorboard
from benchmark.logs.training_log import LOG, read_training_log
from tests.support.training.tiny_study import MIXED, make_tracks, use_tracks


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
