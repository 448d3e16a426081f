"""Training runs of a few updates, on the real engine and world."""

import asyncio
import json
import math
import shutil
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from accelerate import Accelerator

from baselines.config.layers import RECIPES, names, resolve
from baselines.config.run import TrainingCallbacks, TrainingRun
from baselines.inits.registry import find_model
from baselines.learning.estimation import penalties_took_over
from baselines.learning.learner import Learner
from baselines.training.trainer import Trainer
from benchmark.engines.core.base import Engine, Generation, Request
from benchmark.engines.transformers.engine import TransformersEngine
from benchmark.logs.training_log import LOG, read_training_log
from benchmark.models import from_folder
from benchmark.submissions.checks.log_schedule import early_stop
from tasks.errors import UserError
from tasks.registry import load_task
from tasks.sokoban.task import SokobanTask
from tests.support.training.logs import validation_line, write_log
from tests.support.training.ranks import run_together
from tests.support.training.tiny_study import LEVELS, first_entries

pytestmark = pytest.mark.slow

SMALL = [
    "rollout.groups=2",
    "rollout.group_size=4",
    "rollout.max_turns=4",
    "validation.every=null",
    "checkpoint_every=2",
    "optimization.warmup_updates=0",
]

# Together they have every choice that any recipe makes; a test checks that. The steps of the others
# are in `learning/test_optimizer_steps.py`.
TRAINED = ("agentrl", "cispo_sm", "dr_grpo", "empg", "ppo", "reinforce_pp", "rloo", "sampo", "sapo")


def train(
    folder: Path,
    recipe: str = "sampo",
    own: tuple[str, ...] = (),
    kill_at: int | None = None,
    tasks: tuple[str, ...] = ("sokoban",),
    stop_on_collapse: bool = False,
    said: Callable[[str, int, int], None] | None = None,
    learner: type[Learner] = Learner,
    played_by: type[TransformersEngine] = TransformersEngine,
    stop_in: int | None = None,
) -> list[dict[str, Any]]:
    """Train, and give the update lines of this session.

    With `kill_at`, `FOLDER-killed` becomes what a kill after that update's line would leave. With
    `stop_in`, training is asked to stop in the middle of the validation after that update.
    """
    torch.set_num_threads(1)
    config = resolve(recipe, "tiny", tasks, [*SMALL, *own])
    name = "all-mixed" if len(tasks) > 1 else tasks[0].replace("_", "-")
    init = find_model(f"tiny-{name}")
    weights = init.path
    assert weights is not None
    run = TrainingRun(
        recipe, config, tuple(map(load_task, tasks)), init, 0, folder, (), stop_on_collapse
    )
    lines: list[dict[str, Any]] = []

    def keep(line: Any) -> None:
        if line["kind"] == "update":
            lines.append(dict(line))
            if line["update"] == kill_at:
                shutil.copytree(folder, folder.with_name(f"{folder.name}-killed"))

    folder.mkdir(exist_ok=True)

    async def main() -> None:
        async with AsyncExitStack() as stack:
            engine = await stack.enter_async_context(played_by(weights, deterministic=True))
            older = None
            if config.sampling.cross_policy is not None:
                older = await stack.enter_async_context(
                    TransformersEngine(weights, deterministic=True)
                )
            accelerator = Accelerator(cpu=True, project_dir=folder)

            def tell(phase: str, done: int, total: int) -> None:
                if said is not None:
                    said(phase, done, total)
                if (phase, trainer.state.update) == ("validation", stop_in) and done:
                    trainer.stop()

            watch = TrainingCallbacks(keep, tell)
            trainer = Trainer(run, engine, accelerator, watch, older, learner)
            await trainer.train()

    asyncio.run(main())
    return lines


def without_times(line: dict[str, Any]) -> dict[str, Any]:
    measured = ("seconds", "memory", "speed")
    return {name: value for name, value in line.items() if not name.startswith(measured)}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of GRPO of two updates, to be copied."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    train(folder, "grpo", ("optimization.updates=2",))
    return folder


@pytest.fixture
def begun(trained: Path, tmp_path: Path) -> Path:
    """A copy of it that may be continued."""
    return shutil.copytree(trained, tmp_path / "run")


def choices(recipe: str) -> set[tuple[str, str]]:
    """What a recipe's file chooses, as (place, value)."""
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
    # The same episodes are played; those of void ones are not trained on.
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


class Doubtful(Learner):
    """Runs its own pass for every old log-probability, whatever the engine is."""

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
    # What the engine said is not taken for the trainer's word when the two are compared: the gap
    # is that of the rows which the trainer has run.
    assert ours["engine/k1"] != passed["engine/k1"]
    assert 0 < ours["engine/abs_max"] < 1e-4 and 0 < passed["engine/abs_max"] < 1e-4


@pytest.mark.parametrize(
    ("recipe", "tasks"),
    [
        ("sampo", ("sokoban",)),
        ("agentrl", ("sokoban",)),
        ("ppo", ("sokoban",)),
        ("agentrl_norm", ("sokoban", "webshop")),
    ],
)
def test_a_killed_run_goes_on_as_if_nothing_had_been(
    recipe: str, tasks: tuple[str, ...], tmp_path: Path
) -> None:
    own: tuple[str, ...] = ("optimization.updates=4",)
    if recipe == "agentrl":
        own += ("sampling.cross_policy.refresh_every=2",)
    whole = train(tmp_path / "run", recipe, own, kill_at=3, tasks=tasks)
    assert all(line["policy/grad_norm"] > 0 for line in whole)
    killed = tmp_path / "run-killed"
    rest = train(killed, recipe, own, tasks=tasks)
    # The checkpoint is of update 2, so that update 3 is made again.
    assert [line["update"] for line in rest] == [3, 4]
    logged = [json.loads(line) for line in (killed / LOG).read_text().splitlines()]
    for found, expected in zip(logged[1:], whole, strict=True):
        if recipe == "agentrl":
            # Two engines side by side: which requests run together depends on who is quicker, and
            # with it the last digits of what they compute.
            assert found["tokens/response"] == expected["tokens/response"]
            assert found["policy/loss"] == pytest.approx(expected["policy/loss"], abs=1e-5)
        else:
            assert without_times(found) == without_times(expected)


def test_a_validation_that_was_stopped_is_made_when_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SokobanTask, "panel", first_entries(SokobanTask, LEVELS))
    own = ("optimization.updates=3", "validation.every=2", "checkpoint_every=100")
    train(tmp_path / "whole", "grpo", own)
    stopped = tmp_path / "stopped"
    for number, before in ((0, []), (2, [0]), (3, [0, 2])):
        with pytest.raises(asyncio.CancelledError):
            train(stopped, "grpo", own, stop_in=number)
        found = read_training_log(stopped / LOG)
        assert len(found.updates) == number
        assert [line.update for line in found.validations] == before
    assert train(stopped, "grpo", own) == []
    lines, expected = (
        [json.loads(line) for line in (folder / LOG).read_text().splitlines()[1:]]
        for folder in (stopped, tmp_path / "whole")
    )
    assert [without_times(line) for line in lines] == [without_times(line) for line in expected]
    assert [line["update"] for line in lines if line["kind"] == "validation"] == [0, 2, 3]
    places = [tmp_path / name / "last" for name in ("whole", "stopped")]
    weights = [(place / "model.safetensors").read_bytes() for place in places]
    states = [json.loads((place / "state/training_state.json").read_bytes()) for place in places]
    assert weights[0] == weights[1]
    for name in ("best", "best_update", "position"):
        assert states[0][name] == states[1][name]


def test_whoever_watches_is_told_how_much_is_played(tmp_path: Path) -> None:
    said: list[tuple[str, int, int]] = []
    train(tmp_path, "grpo", ("optimization.updates=1",), said=lambda *phase: said.append(phase))
    # 2 groups of 4 episodes: first that they begin, then that one after the other has ended.
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
    with pytest.raises(UserError, match=r"rows of tir_math are whole trajectories: use --set unit"):
        train(tmp_path / "run", recipe, tasks=("tir_math",))


def test_a_checkpoint_of_another_run_is_refused(begun: Path) -> None:
    with pytest.raises(UserError, match="another configuration"):
        train(begun, "grpo", ("optimization.updates=2", "kl.coef=0.5"))


def test_a_longer_run_is_the_same_and_what_moves_no_result_may_change(begun: Path) -> None:
    free = ("optimization.micro_batch_tokens=999", "rollout.concurrency=3", "checkpoint_every=1")
    (line,) = train(begun, "grpo", ("optimization.updates=3", *free))
    assert line["update"] == 3


def test_a_falling_rate_knows_how_long_the_run_is(tmp_path: Path) -> None:
    falling = "optimization.schedule=linear"
    train(tmp_path / "run", "grpo", ("optimization.updates=1", "checkpoint_every=1", falling))
    with pytest.raises(UserError, match="another configuration"):
        train(tmp_path / "run", "grpo", ("optimization.updates=2", falling))


def test_a_run_that_has_collapsed_stays_stopped(begun: Path) -> None:
    fallen = [validation_line(update, solved) for update, solved in ((0, 200), (1, 0), (2, 0))]
    start, *rest = (begun / LOG).read_text("utf-8").splitlines()
    lines = [json.loads(line) for line in rest] + fallen
    lines.sort(key=lambda line: (line["update"], line["kind"] == "validation"))
    write_log(begun / LOG, [json.loads(start), *lines])
    assert train(begun, "grpo", ("optimization.updates=3",), stop_on_collapse=True) == []
    more = train(begun, "grpo", ("optimization.updates=3",))
    assert [line["update"] for line in more] == [3]


@pytest.mark.slow
def test_two_processes_train_as_one(tmp_path: Path) -> None:
    own = ("optimization.updates=2", "rollout.max_turns=8")
    script = Path(__file__).parent / "train_together.py"
    run_together(script, str(tmp_path), "each,main", "sampo", *SMALL, *own)
    one = train(tmp_path / "one", "sampo", own)
    # Every process has an engine, or the main one has the only one.
    for engines in ("each", "main"):
        two = read_training_log(tmp_path / engines / LOG).updates
        for alone, together in zip(one, two, strict=True):
            for name in ("rollout/success", "tokens/response", "rollout/uniform_groups"):
                assert together.values[name] == alone[name]
            for name in ("policy/loss", "policy/grad_norm", "policy/entropy", "kl_old/mean"):
                assert together.values[name] == pytest.approx(alone[name], rel=1e-3, abs=1e-7)


def test_steps_that_are_not_finite_are_skipped_and_end_training(tmp_path: Path) -> None:
    own = (
        "optimization.updates=9",
        "optimization.learning_rate=1e30",
        "optimization.max_skipped=3",
    )
    train(tmp_path / "run", "grpo", own)
    log = read_training_log(tmp_path / "run" / LOG)
    assert len(log.updates) < 9
    assert log.updates[-1].values["policy/skipped_steps"] == 3
    assert (early_stop(log) or "").startswith("3 optimizer steps in a row")
    whole = (tmp_path / "run" / LOG).read_bytes()
    train(tmp_path / "run", "grpo", own)
    assert (tmp_path / "run" / LOG).read_bytes() == whole


class Off(TransformersEngine):
    """Says that every token was more likely than it was."""

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
    """Takes new weights, and keeps the old ones under the new number."""

    def _replace_weights(self, weights: Any, version: int) -> None:
        assert self._decoder is not None
        old = self._decoder.model.state_dict()
        super()._replace_weights([(name, one.clone()) for name, one in old.items()], version)


class Silent(Deaf):
    """Says nothing of its weights either."""

    weight_checksums = Engine.weight_checksums


@pytest.mark.parametrize(
    ("engine", "said", "updates"),
    [
        (Deaf, "35 of 35 tensors of the transformers engine stayed as they were", 1),
        (Silent, r"after update 2 engine/k3 is .*the engine did not take the last ones", 2),
    ],
)
def test_an_engine_that_keeps_old_weights_ends_the_run_after_a_logged_update(
    engine: type[TransformersEngine], said: str, updates: int, tmp_path: Path
) -> None:
    # At the first update all is well: the engine has read the init itself.
    own = ("optimization.learning_rate=0.03", "optimization.updates=3")
    with pytest.raises(UserError, match=said):
        train(tmp_path / "run", "grpo", own, played_by=engine)
    log = read_training_log(tmp_path / "run" / LOG)
    assert len(log.updates) == updates
    assert log.updates[0].values["engine/k3"] == pytest.approx(0, abs=1e-9)


def test_the_last_update_leaves_texts_and_says_if_nothing_was_learned(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # Nobody solves a level in one turn, and a valid action has no penalty.
    own = ("rollout.max_turns=1", "format_penalty=0", "optimization.updates=2")
    lines = train(tmp_path / "run", "grpo", own)
    assert not any(line["policy/advantage_std"] for line in lines)
    assert caplog.text.count("no update of this run had an advantage") == 1
    (sample,) = (tmp_path / "run/samples").iterdir()
    assert sample.name == "update-000002.jsonl" and sample.read_text().count("\n") == 8


def test_checkpoints_are_models(trained: Path) -> None:
    source = from_folder(trained / "last")
    assert source.path is not None
    assert find_model("tiny-sokoban").identity.sha256 != source.identity.sha256
