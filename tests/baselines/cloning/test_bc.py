"""Behavior cloning: its training data, how it resumes, and that it learns."""

import contextlib
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from pydantic import ValidationError
from safetensors.torch import load_file

from baselines.cloning.bc import (
    LOG,
    CloningProgress,
    clone,
    learning_rate_at,
    remove_checkpoint,
)
from baselines.cloning.demonstrations import data_sha256, demonstrate
from baselines.cloning.examples import Example, batch_at, by_task
from baselines.cloning.model_card import model_card
from baselines.cloning.recipe import BCRecipe, Stage, Training, read_recipe
from benchmark.models import folder_sha256
from tasks.errors import UserError
from tasks.registry import load_task
from tasks.sokoban.task import SokobanTask
from tests.support.training.ranks import run_together

TRAINING = {
    "stages": [{"steps": 6, "prompt_tokens": 40}, {"steps": 4}],
    "batch_size": 4,
    "learning_rate": 1e-3,
    "warmup_steps": 2,
    "final_learning_rate": 1e-4,
    "weight_decay": 0.01,
    "max_grad_norm": 1.0,
    "checkpoint_every": 3,
}
MODEL = {
    "vocab_size": 512,
    "hidden_size": 32,
    "layers": 2,
    "heads": 2,
    "kv_heads": 1,
    "head_dim": 32,
    "intermediate_size": 64,
    "context": 512,
}
RECIPE = BCRecipe.model_validate(
    {
        "task": "sokoban",
        "seed": 3,
        "demonstrations": {"episodes": 30, "stream": 7},
        "model": MODEL,
        "training": TRAINING,
    }
)


class Stopped(Exception):
    """Simulates a kill."""


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.mark.slow
def test_a_resumed_run_is_the_uninterrupted_one(tmp_path: Path) -> None:
    def stop(progress: CloningProgress) -> None:
        if progress.step == 8:
            raise Stopped

    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    clone(RECIPE, whole)
    with pytest.raises(Stopped):
        clone(RECIPE, stopped, on_step=stop)
    assert (stopped / "checkpoint" / "step").read_text().startswith("6 ")
    other = RECIPE.model_copy(update={"seed": 4})
    with pytest.raises(UserError, match="has a checkpoint of another recipe"):
        clone(other, stopped)
    steps: list[int] = []
    clone(RECIPE, stopped, on_step=lambda progress: steps.append(progress.step))
    assert steps == [7, 8, 9, 10]
    assert folder_sha256(whole) == folder_sha256(stopped)
    logs = [
        [
            {k: v for k, v in json.loads(line).items() if k != "seconds"}
            for line in (out / LOG).read_text().splitlines()
        ]
        for out in (whole, stopped)
    ]
    assert logs[0] == logs[1]
    assert [line["step"] for line in logs[0]] == list(range(1, 11))
    # A finished run has nothing left to train.
    clone(RECIPE, whole, on_step=lambda progress: steps.append(progress.step))
    assert steps == [7, 8, 9, 10]
    assert folder_sha256(whole) == folder_sha256(stopped)
    remove_checkpoint(whole)
    assert not (whole / "checkpoint").exists()


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "between", "after"])
def test_a_kill_while_a_checkpoint_is_replaced_loses_nothing(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first checkpoint still exists when the second one replaces it."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    clone(RECIPE, whole)
    rename, place, moves = Path.rename, killed / "checkpoint", []

    def dying(self: Path, target: Path) -> Path:
        if self.parent == killed:
            moves.append(self.name)
            if len(moves) == {"before": 2, "between": 3, "after": 4}[moment]:
                raise Stopped
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", dying)
        with contextlib.suppress(Stopped):
            clone(RECIPE, killed)
    assert place.exists() == (moment != "between")
    steps: list[int] = []
    clone(RECIPE, killed, on_step=lambda progress: steps.append(progress.step))
    assert folder_sha256(whole) == folder_sha256(killed)
    assert steps[:1] != [1], "it began again"


@pytest.mark.slow
def test_processes_may_have_different_numbers_of_passes(tmp_path: Path) -> None:
    """One process has two of three turns, the other has one: two passes versus one, or one each."""
    training = {**TRAINING, "stages": [{"steps": 3}], "batch_size": 3}
    recipe = RECIPE.model_copy(update={"training": Training.model_validate(training)})
    (tmp_path / "recipe.yaml").write_text(recipe.model_dump_json())
    script, weights = Path(__file__).with_name("clone_together.py"), []
    for tokens in ("1", "100000"):
        out = tmp_path / tokens
        run_together(script, str(tmp_path / "recipe.yaml"), str(out), tokens)
        assert len((out / LOG).read_text().splitlines()) == 3
        weights.append(load_file(out / "model.safetensors"))
    # A batch has one mean, whichever process has its longer turns.
    clone(recipe, tmp_path / "alone", env_processes=1)
    alone = load_file(tmp_path / "alone" / "model.safetensors")
    for name, values in alone.items():
        for together in weights:
            torch.testing.assert_close(together[name], values, rtol=1e-4, atol=1e-5)
    logs = [
        [json.loads(line)["loss"] for line in (tmp_path / out / LOG).read_text().splitlines()]
        for out in ("alone", "1")
    ]
    assert logs[0] == pytest.approx(logs[1], rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_a_gradient_that_is_not_finite_is_not_applied(
    value: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint with such weights would fail at every resume."""

    def exploded(*_: object, **__: object) -> torch.Tensor:
        return torch.tensor(value)

    with monkeypatch.context() as patch:
        patch.setattr(Accelerator, "clip_grad_norm_", exploded)
        with pytest.raises(UserError, match=f"the gradient's norm is {value} at step 1: lower"):
            clone(RECIPE, tmp_path)
    assert not (tmp_path / "checkpoint").exists() and not (tmp_path / LOG).exists()


@pytest.mark.slow
def test_it_learns(tmp_path: Path) -> None:
    training = {**TRAINING, "stages": [{"steps": 60}], "batch_size": 8, "learning_rate": 5e-3}
    recipe = RECIPE.model_copy(update={"training": Training.model_validate(training)})
    log: list[CloningProgress] = []
    cloned = clone(recipe, tmp_path, on_step=log.append)
    # A new model knows nothing: its loss starts at or above the entropy of a uniform guess.
    assert log[0].loss > math.log(400)
    assert log[-1].loss < 1.5
    assert log[-1].token_accuracy > 0.5
    assert cloned.architecture == "Qwen3ForCausalLM"
    assert cloned.turns == len(demonstrate(load_task("sokoban"), 30, 7))


def test_the_learning_rate_starts_again_where_a_stage_says_so() -> None:
    stages = [{"steps": 4}, {"steps": 8}, {"steps": 10, "learning_rate": 4e-3}, {"steps": 10}]
    fields = {**TRAINING, "warmup_steps": 2, "final_learning_rate": 0.0, "learning_rate": 8e-3}
    training = Training.model_validate({**fields, "stages": stages})
    assert learning_rate_at(training, 2) == pytest.approx(8e-3)
    # Halfway between the end of the warm-up and the restart, then at the restart's end and middle.
    assert learning_rate_at(training, 7) == pytest.approx(4e-3)
    assert learning_rate_at(training, 12) == pytest.approx(0.0)
    assert learning_rate_at(training, 22) == pytest.approx(2e-3)
    assert learning_rate_at(training, 32) == pytest.approx(0.0)
    assert [step for step in range(1, 33) if training.restarts_at(step)] == [13]
    last = {"steps": 10, "learning_rate": 4e-3, "final_learning_rate": 1e-3}
    stages = [*stages[:2], last, {"steps": 10}]
    training = Training.model_validate({**fields, "stages": stages})
    assert learning_rate_at(training, 12) == pytest.approx(0.0)
    assert learning_rate_at(training, 32) == pytest.approx(1e-3)
    with pytest.raises(ValidationError, match="needs a learning_rate"):
        Training.model_validate({**fields, "stages": [{"steps": 4, "final_learning_rate": 1e-3}]})
    with pytest.raises(ValidationError, match="leave out its own"):
        Training.model_validate({**fields, "stages": stages[2:]})


@pytest.mark.slow
def test_the_weights_of_the_last_ends_are_averaged(tmp_path: Path) -> None:
    stages = [{"steps": 3}, {"steps": 2, "learning_rate": 2e-3}, {"steps": 2}]
    fields: dict[str, Any] = {**TRAINING, "stages": stages, "average_ends": 2}
    assert Training.model_validate(fields).averaged_steps == (3, 7)
    assert Training.model_validate({**fields, "average_ends": 1}).averaged_steps == ()
    with pytest.raises(ValidationError, match="falls 2 times"):
        Training.model_validate({**fields, "average_ends": 3})
    with pytest.raises(ValidationError, match="leave out stop_after"):
        Training.model_validate({**fields, "stop_after": 4})
    recipe = RECIPE.model_copy(update={"training": Training.model_validate(fields)})
    clone(recipe, tmp_path)
    first, last = (load_file(tmp_path / "ends" / f"{step}.safetensors") for step in (3, 7))
    mean = load_file(tmp_path / "model.safetensors")
    assert any(not torch.equal(first[name], last[name]) for name in first)
    for name in first:
        torch.testing.assert_close(mean[name], (first[name] + last[name]) / 2)


def test_the_learning_rate_warms_up_and_falls() -> None:
    training = Training.model_validate({**TRAINING, "stages": [{"steps": 12}]})
    assert learning_rate_at(training, 1) == pytest.approx(5e-4)
    assert learning_rate_at(training, 2) == pytest.approx(1e-3)
    assert learning_rate_at(training, 7) == pytest.approx(5.5e-4)
    assert learning_rate_at(training, 12) == pytest.approx(1e-4)


def test_training_may_stop_on_its_way() -> None:
    whole = Training.model_validate({**TRAINING, "stages": [{"steps": 8}, {"steps": 4}]})
    stopped = whole.model_copy(update={"stop_after": 10})
    assert (whole.steps, stopped.steps) == (12, 10)
    assert learning_rate_at(stopped, 10) == learning_rate_at(whole, 10) > 1e-4


def test_stages() -> None:
    assert RECIPE.training.steps == 10
    shown = [RECIPE.training.stage_at(step).prompt_tokens for step in (1, 6, 7, 10)]
    assert shown == [40, 40, None, None]
    with pytest.raises(ValueError, match="ended 1 steps before"):
        RECIPE.training.stage_at(11)
    for last in (Stage(steps=1, prompt_tokens=5), Stage(steps=1, first_turns=True)):
        with pytest.raises(ValueError, match="must use all turns and whole prompts"):
            Training.model_validate({**TRAINING, "stages": [last]})


def test_a_stage_of_first_turns_shows_no_others() -> None:
    stages = [{"steps": 1, "first_turns": True, "batch_size": 50}, {"steps": 1}]
    recipe = RECIPE.model_copy(
        update={"training": Training.model_validate({**TRAINING, "stages": stages})}
    )
    turns = [Example("sokoban", (number,), (1,), first=number % 5 == 0) for number in range(20)]
    examples = {"sokoban": turns}
    first = batch_at(examples, recipe, 1)
    assert len(first) == 50
    assert {turn.prompt[0] for turn in first} == {0, 5, 10, 15}
    then = batch_at(examples, recipe, 2)
    assert len(then) == TRAINING["batch_size"]
    assert any(not turn.first for turn in then)


def several(**stage: object) -> BCRecipe:
    """A recipe with two tasks and one stage."""
    shown = {"episodes": 6, "stream": 7}
    training = {**TRAINING, "stages": [{"steps": 1, **stage}, {"steps": 1}]}
    tasks = {"sokoban": shown, "tir_math": {**shown, "mistakes": 0.25}}
    return BCRecipe.model_validate(
        {"tasks": tasks, "seed": 3, "model": {**MODEL, "context": 2048}, "training": training}
    )


def test_shares_say_how_often_a_task_is_shown_and_how_much_of_its_prompts() -> None:
    stage = {"shares": {"sokoban": 1, "tir_math": 3}, "prompt_tokens": {"tir_math": 2}}
    recipe = several(**stage, batch_size=400)
    examples = {
        task: [Example(task, (1, 2, 3, number), (5,), first=True) for number in range(10)]
        for task in ("sokoban", "tir_math")
    }
    drawn = by_task(batch_at(examples, recipe, 1))
    assert 250 < len(drawn["tir_math"]) < 350
    assert {turn.prompt for turn in drawn["sokoban"]} == {(1, 2, 3, n) for n in range(10)}
    assert {turn.prompt for turn in drawn["tir_math"]} == {(3, n) for n in range(10)}
    alone = several(shares={"sokoban": 1}, batch_size=5)
    assert set(by_task(batch_at(examples, alone, 1))) == {"sokoban"}
    even = by_task(batch_at(examples, several(batch_size=400), 1))
    assert 150 < len(even["sokoban"]) < 250


def test_a_stage_may_leave_out_mistakes_and_show_rare_actions_more_often() -> None:
    of_kind = {"go": 810, "take": 80, "heat": 10}
    turns = [
        Example("tir_math", (number,), (1,), first=True, mistake=number % 2 == 0, kind=kind)
        for kind, count in of_kind.items()
        for number in range(count)
    ]
    examples = {"tir_math": turns, "sokoban": [replace(turn, task="sokoban") for turn in turns]}

    def drawn(**stage: object) -> dict[str, list[Example]]:
        return by_task(batch_at(examples, several(**stage, batch_size=4000), 1))

    def share(turns: list[Example], kind: str) -> float:
        return sum(turn.kind == kind for turn in turns) / len(turns)

    careful = drawn(careful=["tir_math"])
    assert not any(turn.mistake for turn in careful["tir_math"])
    assert any(turn.mistake for turn in careful["sokoban"])
    # Square roots: 9 to 2.8 to 1 instead of 81 to 8 to 1.
    half = drawn(balance={"tir_math": 0.5})
    roots = {kind: count**0.5 for kind, count in of_kind.items()}
    for kind, root in roots.items():
        assert share(half["tir_math"], kind) == pytest.approx(root / sum(roots.values()), abs=0.04)
    assert share(half["sokoban"], "go") == pytest.approx(0.9, abs=0.03)
    assert len(half["tir_math"]) == pytest.approx(2000, abs=150)
    alike = drawn(balance={"tir_math": 1})["tir_math"]
    assert share(alike, "heat") == pytest.approx(1 / 3, abs=0.04)
    with pytest.raises(ValueError, match="a stage names webshop, which is not cloned"):
        drawn(careful=["webshop"])


@pytest.mark.slow
def test_one_model_is_cloned_on_two_tasks(tmp_path: Path) -> None:
    recipe = several()
    cloned = clone(recipe, tmp_path)
    parts = [
        demonstrate(load_task(t), 6, 7, mistakes=m) for t, m in (("sokoban", 0), ("tir_math", 0.25))
    ]
    assert cloned.turns == sum(map(len, parts))
    assert cloned.data_sha256 == data_sha256([*parts[0], *parts[1]])
    card = model_card("both", "both.yaml", recipe, cloned, ())
    assert "on the tasks `sokoban`, `tir_math` of arlarena-bench" in card
    assert "`sokoban`: 6 training episodes (stream 7); `tir_math`: 6 training episodes" in card


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": "sokoban"}, "give either tasks"),
        ({"tasks": {}}, "give task and its demonstrations, or tasks"),
        ({"shares": {"webshop": 1}}, "a stage names webshop, which is not cloned"),
        ({"prompt_tokens": {"webshop": 9}}, "a stage names webshop, which is not cloned"),
        ({"shares": {}}, "at least 1 item"),
    ],
)
def test_a_recipe_of_several_tasks_is_checked(change: dict[str, object], message: str) -> None:
    stages = [change, {}] if change.keys() <= {"shares", "prompt_tokens"} else [{}, {}]
    content = several().model_dump(mode="json") | (change if stages == [{}, {}] else {})
    content["training"]["stages"] = [{"steps": 1, **stage} for stage in stages]
    with pytest.raises(ValueError, match=message):
        BCRecipe.model_validate(content)


def test_demonstrations_are_the_experts_and_always_the_same() -> None:
    task = load_task("sokoban")
    turns = demonstrate(task, 20, 7)
    assert len(turns) == sum(int(task.training_entry(i, 7).category) for i in range(20))
    assert data_sha256(turns) == data_sha256(demonstrate(task, 20, 7))
    assert data_sha256(turns) != data_sha256(turns[::-1])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("task: sokoban\n", "seed: Field required"),
        ("{", ", line 2, column 1 is not valid YAML: "),
        ("[]", "is not a recipe: Input should be"),
    ],
)
def test_a_broken_recipe_is_named(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "recipe.yaml"
    file.write_text(text)
    with pytest.raises(UserError, match=message):
        read_recipe(file)


def test_a_model_or_an_init() -> None:
    with pytest.raises(ValueError, match="either model"):
        BCRecipe.model_validate({**RECIPE.model_dump(), "init": "tiny-sokoban"})


def test_turns_longer_than_the_context_are_the_users_mistake(tmp_path: Path) -> None:
    small = RECIPE.model_copy(
        update={"model": RECIPE.model and RECIPE.model.model_copy(update={"context": 100})}
    )
    with pytest.raises(UserError, match=r"a turn has \d+ tokens, but the model's context is 100"):
        clone(small, tmp_path)


def test_a_task_without_a_solved_demonstration_is_the_users_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SokobanTask, "training_max_turns", 1)
    with pytest.raises(UserError, match="sokoban: the scripted player solved none of 30 episodes"):
        clone(RECIPE, tmp_path)
