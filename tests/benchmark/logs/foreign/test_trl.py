"""`trainer_state.json`, both handwritten and written by TRL itself."""

import importlib.util
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmark.logs.foreign import trl
from benchmark.logs.foreign.mapping import TRL, own_words
from benchmark.logs.foreign.rows import Reading
from benchmark.logs.foreign.tensorboard import read_tensorboard
from benchmark.logs.foreign.trl import read_trl
from tasks.errors import UserError


def training(step: int, **changes: Any) -> dict[str, Any]:
    """A line of GRPOTrainer, as TRL 1.16 writes it."""
    return {
        "clip_ratio/low_mean": 0.0,
        "completions/clipped_ratio": 0.25,
        "completions/max_length": 8.0,
        "completions/mean_length": 6.5,
        "entropy": 5.01,
        "epoch": step / 4,
        "frac_reward_zero_std": 0.5,
        "grad_norm": 4.3,
        "kl": 7.0e-08,
        "learning_rate": 1e-06,
        "loss": -1.0e-09,
        "num_tokens": 50.0 * step,
        "reward": 0.25,
        "reward_std": 0.5,
        "rewards/solved/mean": 0.25,
        "step": step,
        "step_time": 0.1,
    } | changes


def evaluation(step: int, rate: float) -> dict[str, Any]:
    return {"epoch": step / 4, "eval_reward": rate, "eval_rewards/solved/mean": rate, "step": step}


def state(folder: Path, *history: Any, **changes: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "trainer_state.json"
    content = {"global_step": 2, "log_history": list(history), "logging_steps": 1} | changes
    path.write_text(json.dumps(content, indent=2), "utf-8")
    return path


def read(path: Path, *own: str) -> Reading:
    (found,) = read_trl(path, own_words(own))
    return found


def test_the_numbers_of_both_kinds_of_lines(tmp_path: Path) -> None:
    path = state(
        tmp_path / "grpo-run",
        evaluation(0, 0.125),
        training(1),
        training(2, grad_norm=math.nan, loss=None),
        evaluation(2, 0.5),
        {"step": 2, "train_loss": 1e-9, "train_runtime": 1.5},
    )
    found = read(path, "validation/success=eval_rewards/solved/mean")
    curves = {n: (c.steps.tolist(), c.values.tolist()) for n, c in found.run.curves.items()}
    assert curves["validation/success"] == ([0, 2], [0.125, 0.5])
    assert curves["policy/loss"] == ([1], [-1.0e-09])
    assert curves["kl_init/mean"] == ([1, 2], [7.0e-08, 7.0e-08])
    assert curves["rollout/return"] == ([1, 2], [0.25, 0.25])
    assert curves["rollout/uniform_groups"] == ([1, 2], [0.5, 0.5])
    assert curves["response/truncated"] == ([1, 2], [0.25, 0.25])
    assert curves["response/tokens_mean"] == ([1, 2], [6.5, 6.5])
    assert math.isnan(curves["policy/grad_norm"][1][1])
    assert set(curves) == {
        "validation/success", "policy/loss", "kl_init/mean", "rollout/return",
        "rollout/uniform_groups", "response/truncated", "response/tokens_mean",
        "policy/grad_norm", "policy/entropy",
    }  # fmt: skip
    assert (found.run.name, found.run.source) == ("grpo-run", "trl")
    assert {"reward_std", "num_tokens", "eval_reward", "train_runtime"} <= set(found.run.unknown)
    assert "epoch" not in found.run.unknown
    assert "in a group" in found.because["reward_std"]
    assert "sync_ref_model" in found.read_as["kl"].provided
    assert found.notes == ()


def test_means_over_steps_are_said(tmp_path: Path) -> None:
    assert "the mean of 10 steps" in read(state(tmp_path, training(10), logging_steps=10)).notes[0]
    assert "a mean of steps" in read(state(tmp_path, training(10), logging_steps=0.1)).notes[0]


def test_a_checkpoint_has_the_name_of_its_run(tmp_path: Path) -> None:
    path = state(tmp_path / "my-run" / "checkpoint-20", training(1))
    assert read(path).run.name == "my-run"


@pytest.mark.parametrize(
    ("history", "message"),
    [
        ([training(2), training(1)], r"log_history\[1\]: step 1 comes after step 2"),
        ([training(1), training(1, kl=0.5)], r"log_history\[1\]: 'kl' of step 1 appears twice"),
        ([training(1) | {"step": 1.5}], r"log_history\[0\]: the step is 1.5"),
        ([{"loss": 1.0}], r"log_history\[0\]: the step is None"),
        ([training(1), 3], r"log_history\[1\]: is not an object"),
        ([training(1, entropy="high")], "'entropy' is not a number"),
        ([training(1, frac_reward_zero_std=50.0)], "not in percent"),
    ],
)
def test_faults_are_named_with_their_place(tmp_path: Path, history: Any, message: str) -> None:
    path = state(tmp_path, *history)
    with pytest.raises(UserError, match=message) as caught:
        read(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "no list log_history"),
        ('{"log_history": {}}', "no list log_history"),
        ('{"log_history": [', "not JSON"),
        ('{"log_history": [], "log_history": []}', "appears twice"),
        ("", "not JSON"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "trainer_state.json"
    path.write_text(content)
    with pytest.raises(UserError, match=message):
        read(path)


def test_the_number_of_objects_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = state(tmp_path, training(1), training(2))
    monkeypatch.setattr(trl, "MAX_ROWS", 3)
    with pytest.raises(UserError, match="more than 3 objects"):
        read(path)


REAL = """
import sys
from pathlib import Path
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer
from tests.support.engines.tiny_model import make_tiny_model

folder = Path(sys.argv[1])
model = make_tiny_model(folder / "model")
data = Dataset.from_dict({"prompt": [f"push box {n}" for n in range(8)]})

def solved(completions, **_):
    return [float(len(text) % 2) for text in completions]

trainer = GRPOTrainer(
    model=AutoModelForCausalLM.from_pretrained(model),
    reward_funcs=solved,
    args=GRPOConfig(
        output_dir=str(folder / "run"), per_device_train_batch_size=4, num_generations=2,
        max_steps=2, max_completion_length=8, beta=0.04, use_cpu=True, bf16=False,
        gradient_checkpointing=False, logging_steps=1, eval_strategy="steps", eval_steps=2,
        per_device_eval_batch_size=2, num_generations_eval=2, save_strategy="no",
        report_to="tensorboard", disable_tqdm=True, dataloader_pin_memory=False,
    ),
    train_dataset=data,
    eval_dataset=data.select(range(2)),
    processing_class=AutoTokenizer.from_pretrained(model, padding_side="left"),
)
trainer.train()
trainer.save_state()
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(importlib.util.find_spec("trl") is None, reason="TRL is not installed")
def test_what_trl_itself_writes(tmp_path: Path) -> None:
    # In a separate process, because importing TRL changes other libraries.
    logs = tmp_path / "tb"
    environment = os.environ | {"TENSORBOARD_LOGGING_DIR": str(logs), "TRACKIO_DISABLE": "1"}
    subprocess.run(
        [sys.executable, "-c", REAL, str(tmp_path)], check=True, env=environment,
        cwd=Path(__file__).parents[4],
    )  # fmt: skip
    path = tmp_path / "run" / "trainer_state.json"
    history = json.loads(path.read_text())["log_history"]
    found = read(path, "validation/success=eval_rewards/solved/mean")
    for name, meaning in TRL.items():
        if name.startswith("sampling/"):  # only with vLLM
            continue
        lines = [line for line in history if name in line]
        assert [line["step"] for line in lines] == [1, 2], name
        curve = found.run.curves[meaning.name]
        assert curve.values.tolist() == pytest.approx([line[name] for line in lines], abs=1e-6)
    assert found.run.curves["validation/success"].steps.tolist() == [2]

    (events,) = read_tensorboard(sorted(logs.glob("*tfevents*")), own_words(
        ["validation/success=eval/rewards/solved/mean"]))  # fmt: skip
    assert set(events.run.curves) == set(found.run.curves)
    for name, curve in events.run.curves.items():
        assert curve.steps.tolist() == found.run.curves[name].steps.tolist()
        assert curve.values == pytest.approx(found.run.curves[name].values, rel=1e-6)
