"""Runs that are killed, stopped and resumed, with the real engine and task."""

import asyncio
import json
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmark.engines.core.base import EngineDown, EngineError, Generation, Request
from benchmark.engines.transformers.engine import TransformersEngine
from benchmark.logs.training_log import LOG, TrainingLogWriter, read_training_log
from tasks.errors import UserError
from tasks.sokoban.task import SokobanTask
from tests.baselines.training.train_together import Refusing
from tests.support.training.full_disk import files_of_at_most
from tests.support.training.logs import validation_line, without_times, write_log
from tests.support.training.runs import train
from tests.support.training.tiny_study import LEVELS, use_first_entries

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of GRPO of two updates, to be copied."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    train(folder, "grpo", ("optimization.updates=2",))
    return folder


@pytest.fixture
def begun(trained: Path, tmp_path: Path) -> Path:
    """A copy of the run that can be continued."""
    return shutil.copytree(trained, tmp_path / "run")


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
    # The checkpoint is from update 2, so update 3 is repeated.
    assert [line["update"] for line in rest] == [3, 4]
    logged = [json.loads(line) for line in (killed / LOG).read_text().splitlines()]
    assert [without_times(line) for line in logged[1:]] == [without_times(line) for line in whole]


def test_a_validation_that_was_stopped_is_made_when_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_first_entries(monkeypatch, SokobanTask, LEVELS)
    own = ("optimization.updates=3", "validation.every=2", "checkpoint_every=100")
    train(tmp_path / "whole", "grpo", own)
    stopped = tmp_path / "stopped"
    for phase, number, before in (
        ("validation", 0, []),
        ("rollout", 0, [0]),
        ("validation", 2, [0]),
        ("rollout", 2, [0, 2]),
        ("validation", 3, [0, 2]),
    ):
        with pytest.raises(asyncio.CancelledError):
            train(stopped, "grpo", own, stop_in=(phase, number))
        found = read_training_log(stopped / LOG)
        assert len(found.updates) == number
        assert [line.update for line in found.validations] == before
    # The state after a kill between a validation's line and its checkpoint.
    with TrainingLogWriter(stopped / LOG) as writer:
        played = found.validations[-1].model_dump()
        writer.append({**played, "update": 3, "score": -1.0, "seconds_total": 1e6})
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
    for name in ("validated", "best", "skipped", "position"):
        assert states[0][name] == states[1][name]
    assert states[0]["validated"] == 3


@pytest.mark.parametrize("where", ["load_weights", "full disk", "memory", "older", "generate"])
@pytest.mark.parametrize("validates", [True, False])
def test_a_run_whose_engine_dies_loses_no_update(
    where: str, validates: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Dying(TransformersEngine):
        """Dies when it gets the weights of update 2, or at the first request after that.

        Or it refuses these weights because memory, or the disk that they pass through, is full;
        with `older`, only the engine of the older policy does.
        """

        version = 0
        others = 0

        async def load_weights(self, weights: Any, version: int) -> None:
            self.version = version
            if version == 2 and where == "load_weights":
                raise EngineDown("gone")
            if version == 2 and where == "full disk":
                raise UserError("the weights cannot be written: all space is gone")
            if version == 2 and (where == "memory" or (where == "older" and Dying.others)):
                raise torch.OutOfMemoryError("gone")
            await super().load_weights(weights, version)
            Dying.others += version == 2

        async def generate(self, request: Request) -> Generation:
            if self.version == 2:
                raise EngineDown("gone")
            return await super().generate(request)

    use_first_entries(monkeypatch, SokobanTask, LEVELS)
    own: tuple[str, ...] = (
        "optimization.updates=3",
        "checkpoint_every=100",
        "sampling.cross_policy.refresh_every=2",
    )
    if validates:
        own += ("validation.every=1",)
    train(tmp_path / "whole", "agentrl", own)
    died = tmp_path / "died"
    with pytest.raises(EngineDown, match="gone|out of memory"):
        train(died, "agentrl", own, played_by=Dying)
    assert len(read_training_log(died / LOG).updates) == 2
    assert [line["update"] for line in train(died, "agentrl", own)] == [3]
    lines, expected = (
        [json.loads(line) for line in (folder / LOG).read_text().splitlines()[1:]]
        for folder in (died, tmp_path / "whole")
    )
    assert [without_times(line) for line in lines] == [without_times(line) for line in expected]
    samples = [
        sorted(p.name for p in place.rglob("samples*")) for place in (died, tmp_path / "whole")
    ]
    assert samples[0] == samples[1]


def test_a_run_that_can_play_no_more_loses_no_update(tmp_path: Path) -> None:
    own = ("optimization.updates=3", "checkpoint_every=100")
    whole = train(tmp_path / "whole", "grpo", own)
    with pytest.raises(UserError, match=r"^no episode of update 3 could be played: .* refused$"):
        train(tmp_path / "run", "grpo", own, played_by=Refusing)
    (line,) = train(tmp_path / "run", "grpo", own)
    assert without_times(line) == without_times(whole[-1])


def test_a_run_that_could_never_play_pins_no_settings(tmp_path: Path) -> None:
    class Never(Refusing):
        until = 0

    own = ("optimization.updates=1", "rollout.max_tokens=20")
    with pytest.raises(UserError, match="^no episode of update 1 could be played"):
        train(tmp_path / "run", "grpo", own, played_by=Never)
    assert len(train(tmp_path / "run", "grpo", ("optimization.updates=1",))) == 1


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (EngineDown("gone"), "the engine failed: gone; "),
        (EngineError("no"), "no episode of update 2 could be played: EngineError: no; "),
    ],
)
def test_a_full_disk_does_not_hide_what_has_ended_a_run(
    end: Exception, said: str, tmp_path: Path
) -> None:
    class Failing(Refusing):
        async def generate(self, request: Request) -> Generation:
            if self.version == 1:
                full.enter_context(files_of_at_most(50_000))
                raise end
            return await super().generate(request)

    own = ("optimization.updates=3", "checkpoint_every=100")
    with ExitStack() as full, pytest.raises(UserError) as caught:
        train(tmp_path / "run", "grpo", own, played_by=Failing)
    assert str(caught.value).startswith(f"{said}the checkpoint in {tmp_path / 'run'} cannot be ")
    assert str(caught.value).endswith(": free disk space and run the same command again")


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
    state = begun / "last/state/training_state.json"
    state.write_text(json.dumps(json.loads(state.read_text()) | {"validated": 2}))
    assert train(begun, "grpo", ("optimization.updates=3",), stop_on_collapse=True) == []
    more = train(begun, "grpo", ("optimization.updates=3",))
    assert [line["update"] for line in more] == [3]


def test_a_diverged_run_whose_checkpoint_does_not_count_steps_stays_ended(tmp_path: Path) -> None:
    """The checkpoint is from a version that did not store the count."""
    own = (
        "optimization.updates=9",
        "optimization.learning_rate=1e30",
        "optimization.max_skipped=3",
    )
    assert len(train(tmp_path, "grpo", own)) < 9
    facts = tmp_path / "last/state/training_state.json"
    content = json.loads(facts.read_bytes())
    assert content.pop("skipped")[0] == 3
    facts.write_text(json.dumps({**content, "best_update": 0}))
    assert train(tmp_path, "grpo", own) == []
