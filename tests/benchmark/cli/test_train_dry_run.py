"""`arlarena-bench train --dry-run`: what a run would do, and what would prevent it."""

from pathlib import Path

import pytest
import yaml

from baselines.algorithms.advantage.base import Advantage
from baselines.algorithms.clipping.base import Clipping
from baselines.config.layers import resolve
from baselines.config.schema import TrainConfig
from benchmark.cli.main import main
from benchmark.engines.core.base import EngineError, Generation, Request
from benchmark.engines.transformers.engine import TransformersEngine
from benchmark.exit_codes import EXIT_USER_ERROR
from benchmark.models import from_folder
from tests.support.training.train_command import TINY, one_thread, train

__all__ = ["one_thread"]
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.slow
def test_a_dry_run_says_what_it_would_be_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert train(out, "--dry-run", optimization__updates="50", validation__every="10") == 0
    assert not out.exists()
    printed = capsys.readouterr().out
    configuration, _, estimate = printed.partition("\npolicy: ")
    resolved = yaml.safe_load(configuration)
    tasks = resolved.pop("tasks")
    expected = {**TINY, "optimization.updates": "50", "validation.every": "10"}
    own = [f"{name}={value}" for name, value in expected.items()]
    assert TrainConfig.model_validate(resolved) == resolve("sampo", "tiny", ["sokoban"], own)
    assert tasks == {"sokoban": {}}
    model = from_folder(Path(__file__).parents[3] / "baselines/inits/tiny-sokoban").path
    assert model is not None
    from safetensors.torch import load_file

    parameters = sum(weight.numel() for weight in load_file(model / "model.safetensors").values())
    assert estimate.startswith(f"{parameters:,} parameters, 1 process\n")
    assert "the run: 50 updates and 6 validations, about " in estimate
    assert "measured: 8 episodes of 2 groups played, and " in estimate
    each = 4 * parameters / 2**30
    assert f"weights {each:.2f}, gradients {each:.2f}, moments {2 * each:.2f}, " in estimate


@pytest.mark.slow
def test_a_dry_run_in_which_nothing_can_be_played_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def generate(self: TransformersEngine, request: Request) -> Generation:
        raise EngineError("the model has no answer")

    monkeypatch.setattr(TransformersEngine, "generate", generate)
    assert train(tmp_path / "run", "--dry-run") == EXIT_USER_ERROR
    said = capsys.readouterr().err
    assert "no episode of update 1 could be played: EngineError: the model has no answer" in said
    assert "Traceback" not in said


METHODS = """from typing import Literal

from torch import Tensor

from baselines.algorithms.advantage.base import Advantage, RowBatch
from baselines.algorithms.clipping.base import Clipping, TokenBatch, TokenLosses


class Nothing(Advantage):
    name: Literal["nothing"] = "nothing"

    def of(self, rows: RowBatch) -> Tensor:
        return rows.scores * 0


class Root(Clipping):
    name: Literal["root"] = "root"

    def losses(self, batch: TokenBatch) -> TokenLosses:
        ratios = batch.ratios()
        return TokenLosses((ratios - 1).abs().sqrt(), *batch.beyond(ratios, 0.2, 0.2))
"""


@pytest.mark.slow
def test_a_dry_run_shows_a_method_that_cannot_learn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Advantages of 0, and a root, whose gradient at a ratio of 1 is not finite."""
    (tmp_path / "methods.py").write_text(METHODS)
    recipe = tmp_path / "mine.yaml"
    words = ["train", "--recipe", str(recipe), "--plugin", str(tmp_path / "methods.py")]
    words += ["--init", "tiny-sokoban", "--set", "penalty_in=advantages", "--dry-run"]
    whole = "advantage: {name: ADVANTAGE}\nclipping: {name: CLIPPING}\naggregation: token-mean\n"
    try:
        recipe.write_text(whole.replace("ADVANTAGE", "nothing").replace("CLIPPING", "ppo"))
        assert main(words) == 0
        warning = "all advantages without format penalties are 0: look at the advantage nothing"
        assert warning in caplog.text
        caplog.clear()
        recipe.write_text(whole.replace("ADVANTAGE", "grpo").replace("CLIPPING", "root"))
        assert main(words) == EXIT_USER_ERROR
        said = capsys.readouterr().err
        assert "optimizer steps from the init had a loss or gradient that is not finite" in said
        assert "the clipping root and the advantage grpo" in said
        assert "all advantages" not in caplog.text
    finally:
        Advantage.choices.pop("nothing", None)
        Clipping.choices.pop("root", None)


@pytest.mark.slow
def test_a_dry_run_of_a_mixture_measures_every_task(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--init", "tiny-all", "--task", "sokoban=3", "--task", "tir_math=1"]
    own = ["rollout.group_size=2", "rollout.max_turns={sokoban: 2, tir_math: 1}"]
    sets = [word for each in own for word in ("--set", each)]
    assert main(["train", "--recipe", "grpo", *words, *sets, "--dry-run"]) == 0
    printed = capsys.readouterr().out
    # No level can be solved within two turns: three groups of two episodes of two rows, and two
    # programs.
    assert "one update: about 14 rows, " in printed
    assert "measured: 4 episodes of 2 groups played, and 6 rows trained on" in printed
