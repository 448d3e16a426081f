"""The name of an evaluation's folder."""

from pathlib import Path

import pytest

from benchmark.cli.commands.eval_run import _default_folder
from benchmark.evaluation.evaluate import Plan
from benchmark.logs.training_log import LOG
from benchmark.models import ModelIdentity, ModelSource


@pytest.mark.parametrize("trained", [True, False])
def test_checkpoints_of_training_runs_are_told_apart(trained: bool, tmp_path: Path) -> None:
    """All checkpoints are called last or best."""
    run = tmp_path / "train-grpo-s0"
    (run / "last").mkdir(parents=True)
    if trained:
        (run / LOG).touch()
    model = ModelIdentity(name="last", kind="folder", sha256="1" * 64)
    plan = Plan.of([("sokoban", "builtin")])
    found = _default_folder(ModelSource(model, run / "last"), "transformers", plan)
    beginning = "train-grpo-s0-last" if trained else "last"
    assert str(found) == f"runs/{beginning}_11111111_transformers_{plan.fingerprint[:8]}"
