"""Counts requests, tokens and idle time, with a clock that the tests control."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from benchmark.engines.core.base import Engine, EngineError, Generation, Request, Sampling
from benchmark.engines.core.metered import MeteredEngine, Usage
from benchmark.engines.core.scripted import ScriptedEngine
from tests.support.engines.tiny_model import ask


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Gated(Engine):
    """Answers a request when the test opens its gate, which is identified by the request's seed."""

    gates: dict[int, "asyncio.Future[Generation]"] = field(default_factory=dict)
    entered: list[str] = field(default_factory=list)
    name: str = "gated"

    async def __aenter__(self) -> "Gated":
        self.entered.append("in")
        return self

    async def __aexit__(self, *args: object) -> None:
        self.entered.append("out")

    async def generate(self, request: Request) -> Generation:
        self.gates[request.seed] = asyncio.get_running_loop().create_future()
        return await self.gates[request.seed]

    def describe(self) -> dict[str, Any]:
        return {"kind": "gated"}


class Play:
    """A metered engine, its clock, and a function that starts and ends requests at given times."""

    def __init__(self) -> None:
        self.clock, self.inner = Clock(), Gated()
        self.meter = MeteredEngine(self.inner, self.clock)
        self.tasks: dict[int, asyncio.Task[Generation]] = {}

    async def start(self, seed: int, at: float) -> None:
        self.clock.now = 1000 + at
        self.tasks[seed] = asyncio.create_task(self.meter.generate(ask("?", Sampling(), seed)))
        await asyncio.sleep(0)

    async def end(self, seed: int, at: float, result: Generation | Exception) -> None:
        self.clock.now = 1000 + at
        gate = self.inner.gates[seed]
        if isinstance(result, Exception):
            gate.set_exception(result)
        else:
            gate.set_result(result)
        await asyncio.wait([self.tasks[seed]])

    def usage(self, at: float) -> Usage:
        self.clock.now = 1000 + at
        return self.meter.usage()


def tokens(prompt: int | None, response: int | None) -> Generation:
    return Generation("", "stop", prompt_tokens=prompt, response_tokens=response)


def test_nothing_happened_yet() -> None:
    play = Play()
    assert play.usage(at=50) == Usage(0, 0, 0, 0, 0.0, 0.0)
    assert play.usage(at=50).idle_share == 0


async def test_time_and_tokens() -> None:
    play = Play()
    await play.start(1, at=10)  # the clock of the run starts here
    await play.start(2, at=12)
    await play.end(1, at=13, result=tokens(100, 7))
    assert play.usage(at=14) == Usage(1, 0, 100, 7, 4.0, 0.0)
    await play.end(2, at=15, result=tokens(50, 3))
    assert play.usage(at=18) == Usage(2, 0, 150, 10, 8.0, 3.0)  # idle from 15 to 18
    await play.start(3, at=19)  # idle from 15 to 19
    await play.end(3, at=20, result=tokens(None, None))
    usage = play.usage(at=26)  # and from 20 to 26
    assert usage == Usage(3, 0, 150, 10, 16.0, 10.0)
    assert usage.idle_share == 10 / 16


async def test_failed_and_cancelled_requests() -> None:
    play = Play()
    await play.start(1, at=0)
    await play.start(2, at=1)
    await play.end(1, at=2, result=EngineError("no"))
    with pytest.raises(EngineError, match="no"):
        await play.tasks[1]
    play.clock.now = 1003
    play.tasks[2].cancel()
    await asyncio.wait([play.tasks[2]])
    assert play.usage(at=5) == Usage(0, 2, 0, 0, 5.0, 2.0)


async def test_the_engine_is_entered_left_and_described() -> None:
    play = Play()
    async with play.meter as meter:
        assert meter is play.meter
        assert play.inner.entered == ["in"]
        assert meter.describe() == {"kind": "gated"}
        assert meter.name == "gated"
    assert play.inner.entered == ["in", "out"]


async def test_a_real_engine_passes_through() -> None:
    meter = MeteredEngine(ScriptedEngine("expert"))
    request = ask("?", Sampling())
    await request.episode.reset()
    expert = await request.episode.scripted("expert", 0)
    assert (await meter.generate(request)).text == expert
    assert meter.usage().requests == 1
    assert meter.usage().response_tokens == 0
