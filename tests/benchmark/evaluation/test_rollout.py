"""Plays every episode once, equally at any concurrency, and records errors, never drops them."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmark.engines.core.base import (
    Engine,
    EngineDown,
    EngineError,
    Generation,
    PromptTooLong,
    Request,
)
from benchmark.engines.core.scripted import ScriptedEngine
from benchmark.evaluation.protocol import PanelProtocol
from benchmark.evaluation.records import EpisodeRecord, record_of
from benchmark.evaluation.rollout import ATTEMPTS, Job, Trajectory, play
from tasks.chat.messages import text_of
from tasks.episode import Step
from tasks.errors import UserError
from tasks.registry import load_task
from tasks.text_task import TextEpisode

TASK = load_task("sokoban")
PANEL = TASK.panel("builtin")
PROTOCOL = PanelProtocol.of(TASK, PANEL)


def jobs(count: int) -> list[Job]:
    return [Job(TASK, entry, 0, PROTOCOL) for entry in PANEL.entries[:count]]


class FaultyEngine(Engine):
    """The expert, with a fault chosen by the test before each response."""

    name = "faulty"

    def __init__(self, fault: Callable[[Request, int], Exception | None]) -> None:
        self._fault = fault
        self._expert = ScriptedEngine("expert")
        self.calls = 0
        self.in_flight = 0
        self.most_in_flight = 0

    async def generate(self, request: Request) -> Generation:
        self.calls += 1
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(0)
            fault = self._fault(request, self.calls)
            if fault is not None:
                raise fault
            return await self._expert.generate(request)
        finally:
            self.in_flight -= 1

    def describe(self) -> dict[str, Any]:
        return {"kind": "faulty"}


async def records(engine: Engine, count: int, concurrency: int) -> list[EpisodeRecord]:
    kept: list[EpisodeRecord] = []

    async def keep(trajectory: Trajectory) -> None:
        kept.append(record_of(trajectory))

    await play(jobs(count), engine, concurrency, keep)
    return kept


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["expert", "random"])
async def test_records_do_not_depend_on_concurrency(policy: str) -> None:
    runs = [await records(ScriptedEngine(policy), 256, n) for n in (1, 8, 64)]
    lines = [sorted(record.model_dump_json() for record in run) for run in runs]
    assert lines[0] == lines[1] == lines[2]
    assert len(set(lines[0])) == 256


async def test_the_expert_solves_everything_in_optimal_length() -> None:
    for record in await records(ScriptedEngine("expert"), 256, 32):
        assert record.success
        assert len(record.turns) == int(record.category)
        assert record.score == pytest.approx(11 - 0.1 * len(record.turns))
        assert record.penalty == 0
        assert record.error is None


async def test_places_are_bounded_and_filled_at_once() -> None:
    engine = FaultyEngine(lambda request, call: None)
    await records(engine, 40, 7)
    assert engine.most_in_flight == 7


async def test_an_error_is_retried_from_the_start() -> None:
    failed: set[int] = set()

    def once(request: Request, call: int) -> Exception | None:
        if request.affinity in failed or "Turn 2" not in text_of(request.messages[0]):
            return None
        failed.add(request.affinity)
        return EngineError("hiccup")

    kept = await records(FaultyEngine(once), 10, 3)
    assert all(record.success and record.error is None for record in kept)
    assert len(failed) == 10


async def test_an_error_that_stays_is_a_recorded_failure() -> None:
    def second_turn(request: Request, call: int) -> Exception | None:
        return EngineError("broken") if "Turn 2" in text_of(request.messages[0]) else None

    engine = FaultyEngine(second_turn)
    kept = await records(engine, 5, 5)
    assert engine.calls == 5 * 2 * ATTEMPTS
    for record in kept:
        assert not record.success
        assert record.error == "EngineError: broken"
        assert len(record.turns) == 1
        # All fifteen turns are charged, and the fourteen unplayed ones count as invalid.
        assert (record.score, record.reward) == (-1.5, -1.5)
        assert record.penalty == pytest.approx(1.4)


async def test_a_failing_world_is_a_recorded_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: object, response: str) -> None:
        raise ZeroDivisionError("world")

    monkeypatch.setattr("tasks.text_task.TextEpisode.step", broken)
    (record,) = await records(ScriptedEngine("expert"), 1, 1)
    assert record.error == "ZeroDivisionError: world"
    assert record.turns == ()


async def test_an_engine_that_goes_down_stops_the_run() -> None:
    def down(request: Request, call: int) -> Exception | None:
        return EngineDown("gone") if call > 30 else None

    engine = FaultyEngine(down)
    with pytest.raises(EngineDown, match="gone"):
        await records(engine, 256, 8)
    assert engine.calls < 50
    assert engine.in_flight == 0


async def test_a_context_shorter_than_the_first_prompt_is_the_users_mistake() -> None:
    with pytest.raises(UserError, match=r"one-box-000 of sokoban: .* 300 tokens .* context 128"):
        await records(FaultyEngine(lambda request, call: PromptTooLong(300, 128)), 3, 1)


async def test_a_prompt_that_outgrows_the_context_is_a_recorded_failure() -> None:
    def third_turn(request: Request, call: int) -> Exception | None:
        return PromptTooLong(300, 290) if "Turn 3" in text_of(request.messages[0]) else None

    (record,) = await records(FaultyEngine(third_turn), 1, 1)
    assert record.error is not None
    assert record.error.startswith("PromptTooLong")
    assert len(record.turns) == 2


async def test_seeds_differ_by_turn_episode_and_repeat() -> None:
    seeds = {
        PROTOCOL.turn_seed(entry.id, repeat, turn)
        for entry in PANEL.entries
        for repeat in range(3)
        for turn in range(15)
    }
    assert len(seeds) == 256 * 3 * 15
    assert all(0 <= seed < 2**63 for seed in seeds)


async def test_an_error_never_raises_a_mean() -> None:
    """Whatever the turn of the error, and whatever the policy would have done afterward."""
    played = {record.episode: record for record in await records(ScriptedEngine("random"), 64, 8)}
    for broken_turn in (1, 3, 15):

        def fail(request: Request, call: int, turn: int = broken_turn) -> Exception | None:
            reached = f"Turn {turn} of" in text_of(request.messages[0])
            return EngineError("broken") if reached else None

        for record in await records(FaultyEngine(fail), 64, 8):
            if record.error is None:
                continue
            other = played[record.episode]
            assert not record.success
            assert record.score <= other.score
            assert record.episode_return <= other.episode_return


@pytest.mark.parametrize(
    ("field", "value", "cause"),
    [
        ("log_prob", float("nan"), "log_prob: Input should be a finite number"),
        ("text", "x" * 1_000_001, "response: String should have at most 1000000 characters"),
        ("text", "\ud800", "response: "),
        ("prompt_tokens", -1, "prompt_tokens: "),
    ],
)
async def test_what_no_record_can_hold_is_a_recorded_failure(
    field: str, value: object, cause: str
) -> None:
    class Odd(ScriptedEngine):
        async def generate(self, request: Request) -> Generation:
            changed: dict[str, Any] = {field: value}
            return replace(await super().generate(request), **changed)

    (record,) = await records(Odd("expert"), 1, 1)
    assert record.error is not None
    assert cause in record.error
    assert not record.success
    assert record.turns == ()


def nested(depth: int) -> dict[str, Any]:
    return {"a": nested(depth - 1)} if depth else {}


@pytest.mark.parametrize(
    "value",
    [
        *(np.int64(3), b"3", {3}, {1: 2, "a": 3}, "\ud800", float("nan")),
        *(nested(depth) for depth in (64, 190, 220, 300, 900)),
    ],
    ids=lambda value: repr(value)[:12],
)
async def test_facts_that_no_record_can_hold_are_a_recorded_failure(
    value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = TextEpisode.step

    def odd(self: TextEpisode[Any], response: str) -> Step:
        return replace(step(self, response), info={"boxes": value})

    monkeypatch.setattr(TextEpisode, "step", odd)
    (record,) = await records(ScriptedEngine("expert"), 1, 1)
    assert record.error is not None and "this episode cannot be recorded: " in record.error
    assert EpisodeRecord.model_validate_json(record.model_dump_json()) == record


async def test_the_deepest_facts_can_be_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    step = TextEpisode.step

    def deep(self: TextEpisode[Any], response: str) -> Step:
        return replace(step(self, response), info=nested(63))

    monkeypatch.setattr(TextEpisode, "step", deep)
    (record,) = await records(ScriptedEngine("expert"), 1, 1)
    assert record.error is None
    assert EpisodeRecord.model_validate_json(record.model_dump_json()) == record


@pytest.mark.parametrize("info", [None, [1]])
async def test_facts_have_names(info: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    step = TextEpisode.step

    def odd(self: TextEpisode[Any], response: str) -> Step:
        return replace(step(self, response), info=info)

    monkeypatch.setattr(TextEpisode, "step", odd)
    (record,) = await records(ScriptedEngine("expert"), 1, 1)
    assert record.error is not None and "this episode cannot be recorded: " in record.error


async def test_a_world_that_exits_is_a_recorded_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(self: object, response: str) -> None:
        raise SystemExit(3)

    monkeypatch.setattr(TextEpisode, "step", leave)
    (record,) = await records(ScriptedEngine("expert"), 1, 1)
    assert record.error == "SystemExit: 3"


async def test_a_world_that_cannot_be_opened_is_a_recorded_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def corrupt(self: object, entry: object, max_turns: int) -> None:
        raise OSError("corrupt game file")

    monkeypatch.setattr("tasks.sokoban.task.SokobanTask.episode", corrupt)
    (record,) = await records(ScriptedEngine("expert"), 1, 1)
    assert record.error == "OSError: corrupt game file"
    assert record.observation_hash is None


@pytest.mark.parametrize("fault", [BrokenPipeError("the worker is gone"), SystemExit(3)])
async def test_a_world_that_cannot_be_closed_keeps_its_result(
    fault: BaseException, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def dead(self: object) -> None:
        raise fault

    monkeypatch.setattr("tasks.text_task.TextEpisode.close", dead)
    (record,) = await records(ScriptedEngine("expert"), 1, 1)
    assert record.success
    assert "could not be closed" in caplog.text
