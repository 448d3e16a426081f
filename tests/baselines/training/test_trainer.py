"""Training runs of a few updates, with the real engine and task."""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from baselines.config.layers import RECIPES, names
from baselines.learning.estimation import penalties_took_over
from baselines.learning.learner import Learner
from baselines.learning.metrics import Metrics
from baselines.rollouts.rows import Row
from benchmark.engines.core.base import Engine, EngineDown, Generation, Request
from benchmark.engines.transformers.engine import TransformersEngine
from benchmark.logs.training_log import LOG, read_training_log
from benchmark.stability.run_end import early_stop
from tasks.errors import UserError
from tests.support.training.ranks import run_together
from tests.support.training.runs import SMALL, train

pytestmark = pytest.mark.slow

# Together they cover every choice of any recipe, which a test checks. The steps of the others are
# tested in `learning/test_optimizer_steps.py`.
TRAINED = ("agentrl", "cispo_sm", "dr_grpo", "empg", "ppo", "reinforce_pp", "rloo", "sampo", "sapo")


def choices(recipe: str) -> set[tuple[str, str]]:
    """The choices in a recipe's file, as (place, value)."""
    found: set[tuple[str, str]] = set()

    def add(place: str, value: Any) -> None:
        if isinstance(value, dict) and value:
            for name, inner in value.items():
                add(f"{place}.{name}", inner)
        else:
            found.add((place, repr(value)))

    add("", yaml.safe_load((RECIPES / f"{recipe}.yaml").read_text("utf-8")))
    return found


def test_the_recipes_that_are_trained_make_every_choice() -> None:
    made = set().union(*map(choices, TRAINED))
    missed = {recipe: choices(recipe) - made for recipe in names(RECIPES)}
    assert {recipe: rest for recipe, rest in missed.items() if rest} == {}


@pytest.mark.parametrize("recipe", TRAINED)
def test_recipes_train(recipe: str, tmp_path: Path) -> None:
    own = ("optimization.updates=2", "rollout.max_turns=8")
    lines = train(tmp_path / "run", recipe, own)
    assert [line["update"] for line in lines] == [1, 2]
    for line in lines:
        assert math.isfinite(line["policy/loss"]) and math.isfinite(line["policy/grad_norm"])
        assert line["engine/abs_max"] < 1e-3, "the trainer's log-probabilities are the engine's"
        assert line["policy/skipped_steps"] == 0
    assert lines[0]["kl_init/mean"] == pytest.approx(0, abs=1e-9)
    assert any(line["kl_init/mean"] > 1e-7 for line in lines[1:]), "the policy has moved"
    read_training_log(tmp_path / "run" / LOG)


def test_an_engine_without_room_for_new_weights_says_what_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = TransformersEngine._replace_weights

    def full(engine: TransformersEngine, weights: Any, version: int) -> None:
        if version:  # the error of vLLM's allocator when it wakes up after the first update
            raise RuntimeError("CUDA Error: out of memory at csrc/cumem_allocator.cpp:62")
        taken(engine, weights, version)

    monkeypatch.setattr(TransformersEngine, "_replace_weights", full)
    with pytest.raises(EngineDown, match="^out of memory: .*vLLM's share"):
        train(tmp_path / "run", "grpo", ("optimization.updates=1", "rollout.max_turns=2"))
    assert (tmp_path / "run/last/model.safetensors").exists()


def test_masked_episodes_are_in_no_loss(tmp_path: Path) -> None:
    # Two tokens fewer than some responses need.
    own = ("optimization.updates=1", "optimization.mini_batches=1", "rollout.max_tokens=26")
    lines = [
        train(
            tmp_path / how,
            "rloo",
            (*own, "rollout.groups=4", f"void_episodes={how}"),
            tasks=("tir_math",),
        )[0]
        for how in ("trained", "masked")
    ]
    # The same episodes are played, but void ones are not trained on.
    all_of_them, some = lines
    assert all_of_them["rollout/masked"] == 0 < some["rollout/masked"] < some["rollout/episodes"]
    assert all_of_them["tokens/response"] == some["tokens/response"]
    assert 0 < some["tokens/trained"] < all_of_them["tokens/trained"] == some["tokens/response"]
    assert some["policy/grad_norm"] != all_of_them["policy/grad_norm"]


def test_an_update_whose_episodes_are_all_masked_learns_nothing(tmp_path: Path) -> None:
    own = ("optimization.updates=1", "rollout.max_tokens=1", "void_episodes=masked")
    line = train(tmp_path / "run", "grpo", own, tasks=("tir_math",))[0]
    assert line["rollout/masked"] == line["rollout/episodes"] == 8
    assert line["policy/optimizer_steps"] == 0


class Choosy(Learner):
    """Selects no rows to learn from."""

    def plan(self, rows: Sequence[Row], number: int) -> list[list[int]]:
        del rows, number
        return []


def test_a_learner_may_leave_out_all_rows(tmp_path: Path) -> None:
    (line,) = train(tmp_path / "run", "grpo", ("optimization.updates=1",), learner=Choosy)
    assert line["policy/optimizer_steps"] == 0 < line["rollout/episodes"]


class Talkative(Learner):
    """Adds its own metric."""

    def metrics(self, *given: Any) -> Metrics:
        return super().metrics(*given) | {"mine/kept": 0.5}


def test_a_metric_that_logs_do_not_have_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the learner gives the metric 'mine/kept', which logs do"):
        train(tmp_path / "run", "grpo", ("optimization.updates=1",), learner=Talkative)


class Doubtful(Learner):
    """Recomputes every old log-probability, whatever the engine is."""

    @property
    def engine_is_exact(self) -> bool:
        return False

    @engine_is_exact.setter
    def engine_is_exact(self, exact: bool) -> None:
        del exact


@pytest.mark.parametrize("epochs", [1, 2])
def test_old_log_probabilities_of_the_engine_are_those_of_a_pass(
    epochs: int, tmp_path: Path
) -> None:
    own = ("optimization.updates=1", f"optimization.epochs={epochs}")
    (ours,) = train(tmp_path / "engine", "grpo", own)
    (passed,) = train(tmp_path / "pass", "grpo", own, learner=Doubtful)
    assert ours["policy/optimizer_steps"] == 4 * epochs
    assert ours["kl_old/mean"] > 1e-7
    for name in ("policy/loss", "policy/grad_norm", "kl_old/mean", "ratio/p99", "policy/entropy"):
        assert ours[name] == pytest.approx(passed[name], rel=1e-3, abs=1e-9), name
    # Engine values do not stand in for the trainer's when the two are compared: the gap covers only
    # rows that the trainer has evaluated.
    assert ours["engine/k1"] != passed["engine/k1"]
    assert 0 < ours["engine/abs_max"] < 1e-4 and 0 < passed["engine/abs_max"] < 1e-4


def test_whoever_watches_is_told_how_much_is_played(tmp_path: Path) -> None:
    said: list[tuple[str, int, int]] = []
    train(tmp_path, "grpo", ("optimization.updates=1",), said=lambda *phase: said.append(phase))
    # 2 groups of 4 episodes: first a start event, then one for each finished episode.
    counted = [phase for phase in said if phase[2]]
    assert counted == [("rollout", done, 8) for done in range(9)]
    names = [name for name, _, total in said if not total]
    assert names == ["rollout", "old log probs", "reference", "update", "weights", "checkpoint"]


def test_a_learning_rate_of_zero_changes_nothing(tmp_path: Path) -> None:
    lines = train(
        tmp_path / "run", "grpo", ("optimization.updates=3", "optimization.learning_rate=0")
    )
    assert [line["engine/k3"] < 1e-6 for line in lines] == [True] * 3
    assert [line["kl_init/mean"] < 1e-9 for line in lines] == [True] * 3
    assert [line["ratio/max"] == pytest.approx(1, abs=1e-4) for line in lines] == [True] * 3


def test_rows_of_a_step_that_was_left_out_are_known_to_the_next_epoch(tmp_path: Path) -> None:
    """The policy does not move, so each row's distance from its old policy is only rounding."""
    own = ("updates=1", "learning_rate=0", "epochs=2", "mini_batches=90", "skip_empty=true")
    settings = ("kl.coef=0", "rollout.groups=4", "rollout.max_turns=15")
    every = (*settings, *(f"optimization.{each}" for each in own))
    (line,) = train(tmp_path / "run", "grpo", every)
    assert 0 < line["policy/optimizer_steps"] < 180
    assert line["kl_old/mean"] < 1e-6
    assert line["engine/abs_max"] < 1e-3


def test_penalties_that_take_over_are_told_once_each_time() -> None:
    shares = [0.6, None, 0.6, 0.6, 0.6, 0.7, 0.4, 0.9, 0.9, 0.9]
    told = [count for count in range(len(shares) + 1) if penalties_took_over(shares[:count])]
    assert told == [5, 10]


def test_a_whole_trajectory_is_a_row_in_tir_math(tmp_path: Path) -> None:
    own = ("optimization.updates=1", "rollout.max_turns=2", "rollout.max_tokens=96")
    (line,) = train(tmp_path / "run", "grpo", own, tasks=("tir_math",))
    assert line["engine/abs_max"] < 1e-3
    assert line["tokens/trained"] > 0


@pytest.mark.parametrize("recipe", ["sampo", "gigpo", "dapo_gigpo", "empg"])
def test_advantages_of_turns_need_rows_of_turns(recipe: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"rows of tir_math are whole trajectories: use another"):
        train(tmp_path / "run", recipe, tasks=("tir_math",))


@pytest.mark.slow
def test_two_processes_train_as_one(tmp_path: Path) -> None:
    own = ("optimization.updates=2", "rollout.max_turns=8")
    script = Path(__file__).parent / "train_together.py"
    run_together(script, str(tmp_path), "each,main", "sampo", *SMALL, *own)
    one = train(tmp_path / "one", "sampo", own)
    # Every process has an engine, or only the main one.
    for engines in ("each", "main"):
        two = read_training_log(tmp_path / engines / LOG).updates
        kept = torch.load(tmp_path / engines / "last/state/learner.pt", weights_only=True)
        assert kept["ranks"].tolist() == [0, 1]
        for alone, together in zip(one, two, strict=True):
            for name in ("rollout/success", "tokens/response", "rollout/uniform_groups"):
                assert together.values[name] == alone[name]
            for name in ("policy/loss", "policy/grad_norm", "policy/entropy", "kl_old/mean"):
                assert together.values[name] == pytest.approx(alone[name], rel=1e-3, abs=1e-7)


# With PPO, the critic's steps are finite throughout.
@pytest.mark.parametrize("recipe", ["grpo", "ppo"])
def test_steps_that_are_not_finite_are_skipped_and_end_training(
    recipe: str, tmp_path: Path
) -> None:
    own = (
        "optimization.updates=9",
        "optimization.learning_rate=1e30",
        "optimization.max_skipped=3",
        *(["advantage.learning_rate=1e-5"] if recipe == "ppo" else []),
    )
    train(tmp_path / "run", recipe, own)
    log = read_training_log(tmp_path / "run" / LOG)
    assert len(log.updates) < 9
    assert log.updates[-1].values["policy/skipped_steps"] == 3
    assert log.updates[-1].values.get("critic/skipped_steps") == (0 if recipe == "ppo" else None)
    assert (early_stop(log) or "").startswith("3 optimizer steps in a row")
    whole = (tmp_path / "run" / LOG).read_bytes()
    train(tmp_path / "run", recipe, own)
    assert (tmp_path / "run" / LOG).read_bytes() == whole


def test_a_run_that_is_stopped_while_it_diverges_ends_where_it_would_have(tmp_path: Path) -> None:
    own = (
        "optimization.updates=9",
        "optimization.learning_rate=1e30",
        "optimization.max_skipped=10",
    )
    made = [line["policy/optimizer_steps"] for line in train(tmp_path / "whole", "grpo", own)]
    assert made[-2:] == [0, 0] and len(made) < 9
    with pytest.raises(asyncio.CancelledError):
        train(tmp_path / "stopped", "grpo", own, stop_in=("rollout", len(made) - 2))
    assert [line["update"] for line in train(tmp_path / "stopped", "grpo", own)] == [
        len(made) - 1,
        len(made),
    ]


class Off(TransformersEngine):
    """Overstates every token's probability."""

    async def generate(self, request: Request) -> Generation:
        made = await super().generate(request)
        assert made.token_log_probs is not None
        return replace(made, token_log_probs=tuple(one + 0.5 for one in made.token_log_probs))


def test_an_engine_of_other_probabilities_ends_the_run_after_a_logged_update(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "run"
    with pytest.raises(UserError, match=r"after the first update engine/k3 is 0\.1.*other model"):
        train(folder, "grpo", ("tis_cap=2", "optimization.updates=2"), played_by=Off)
    (line,) = read_training_log(folder / LOG).updates
    # exp(-1/2) - 1 + 1/2
    assert line.values["engine/k3"] == pytest.approx(0.1065, abs=1e-3)
    assert line.values["kl_init/mean"] == pytest.approx(0, abs=1e-6)
    assert not (folder / "last").exists()


class Deaf(TransformersEngine):
    """Accepts new weights, but keeps the old ones under the new version."""

    def _replace_weights(self, weights: Any, version: int) -> None:
        assert self._decoder is not None
        old = self._decoder.model.state_dict()
        super()._replace_weights([(name, one.clone()) for name, one in old.items()], version)


class Silent(Deaf):
    """Does not report checksums either."""

    weight_checksums = Engine.weight_checksums


@pytest.mark.parametrize(
    ("engine", "said", "updates"),
    [
        (Deaf, "35 of 35 tensors of the transformers engine stayed as they were", 1),
        (Silent, r"after update 2 engine/k3 is .*it did not load the latest ones", 2),
    ],
)
def test_an_engine_that_keeps_old_weights_ends_the_run_after_a_logged_update(
    engine: type[TransformersEngine], said: str, updates: int, tmp_path: Path
) -> None:
    # The first update works: the engine has read the init itself.
    own = ("optimization.learning_rate=0.03", "optimization.updates=3")
    with pytest.raises(UserError, match=said):
        train(tmp_path / "run", "grpo", own, played_by=engine)
    log = read_training_log(tmp_path / "run" / LOG)
    assert len(log.updates) == updates
    assert log.updates[0].values["engine/k3"] == pytest.approx(0, abs=1e-9)


def test_the_last_update_leaves_texts_and_says_if_nothing_was_learned(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # No level can be solved in one turn, and a valid action has no penalty.
    own = ("rollout.max_turns=1", "format_penalty=0", "optimization.updates=2")
    lines = train(tmp_path / "run", "grpo", own)
    assert not any(line["policy/advantage_std"] for line in lines)
    assert caplog.text.count("no update of this run had an advantage") == 1
    (sample,) = (tmp_path / "run/samples").iterdir()
    assert sample.name == "update-000002.jsonl" and sample.read_text().count("\n") == 8
