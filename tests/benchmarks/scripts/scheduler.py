"""How much of an engine's capacity the scheduler uses.

    python -m tests.benchmarks.scripts.scheduler

A simulated engine answers with the expert after a log-normal service time, at most 64 requests at
once, the others waiting in line. The service times depend on the turn alone, so every way of
scheduling has the same work. Printed is the wall time over the lower bound: the larger of the total
work divided by the capacity and the longest episode. Beside it the same work with a barrier after
every turn, as lockstep harnesses have it. All are interleaved and repeated.
"""

import argparse
import asyncio
import math
import random
import statistics
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from benchmark.engines.core.base import Engine, Generation, Request
from benchmark.engines.core.scripted import ScriptedEngine
from benchmark.evaluation.protocol import PanelProtocol, SamplingOverrides
from benchmark.evaluation.rollout import Job, Trajectory, longest_first, play
from benchmark.hosts.inline import InlineHost
from tasks.registry import load_task

CAPACITY = 64
MEDIAN_S = 0.05
SIGMA = 0.5


def service_time(request: Request) -> float:
    """Log-normal, from the turn's seed."""
    return MEDIAN_S * math.exp(SIGMA * random.Random(request.seed).gauss(0, 1))


class SimulatedEngine(Engine):
    """The expert, after a service time, `CAPACITY` at once."""

    name = "simulated"

    def __init__(self) -> None:
        self._expert = ScriptedEngine("expert")
        self._servers = asyncio.Semaphore(CAPACITY)

    async def generate(self, request: Request) -> Generation:
        async with self._servers:
            await asyncio.sleep(service_time(request))
        return await self._expert.generate(request)

    def describe(self) -> dict[str, Any]:
        return {"kind": self.name}


class CountingEngine(ScriptedEngine):
    """Answers at once and adds up the service times, for the lower bound."""

    def __init__(self) -> None:
        super().__init__("expert")
        self.per_episode: dict[int, float] = {}

    async def generate(self, request: Request) -> Generation:
        before = self.per_episode.get(request.affinity, 0.0)
        self.per_episode[request.affinity] = before + service_time(request)
        return await super().generate(request)


Way: TypeAlias = Callable[[list[Job], int], Coroutine[Any, Any, None]]


async def ignore(trajectory: Trajectory) -> None:
    """Keep nothing."""


async def without_barrier(jobs: list[Job], concurrency: int) -> None:
    await play(jobs, SimulatedEngine(), concurrency, ignore)


async def with_barrier(jobs: list[Job], concurrency: int) -> None:
    """Groups of episodes that wait for each other after every turn."""
    engine = SimulatedEngine()
    for first in range(0, len(jobs), concurrency):
        live = []
        for job in jobs[first : first + concurrency]:
            episode = await InlineHost().open(job.task, job.entry, job.protocol.max_turns)
            live.append((job, episode, await episode.reset(), 0))
        while live:
            requests = [
                Request(
                    view.messages,
                    job.protocol.sampling,
                    job.protocol.turn_seed(job.entry.id, job.repeat, turn),
                    0,
                    episode,
                )
                for job, episode, view, turn in live
            ]
            answers = await asyncio.gather(*map(engine.generate, requests))
            steps = [
                (job, episode, await episode.step(answer.text), turn)
                for (job, episode, _, turn), answer in zip(live, answers, strict=True)
            ]
            live = [
                (job, episode, step.view, turn + 1)
                for job, episode, step, turn in steps
                if step.outcome is None
            ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="interleaved repetitions")
    parser.add_argument("--plays", type=int, default=4, help="plays of the 256-level panel")
    arguments = parser.parse_args()
    task = load_task("sokoban")
    panel = task.panel("builtin")
    protocol = PanelProtocol.of(task, panel, SamplingOverrides(repeats=arguments.plays))
    jobs = [
        Job(task, e, repeat, protocol) for repeat in range(arguments.plays) for e in panel.entries
    ]
    counting = CountingEngine()
    asyncio.run(play(jobs, counting, 1, ignore))
    work, longest = sum(counting.per_episode.values()), max(counting.per_episode.values())
    bound = max(work / CAPACITY, longest)
    print(
        f"{len(jobs)} episodes, capacity {CAPACITY}, work {work:.0f} s, longest episode "
        f"{longest:.2f} s: lower bound {bound:.2f} s"
    )
    ordered = longest_first(jobs)
    ways: list[tuple[str, Way, list[Job], int]] = [
        (name, way, order, concurrency)
        for concurrency in (CAPACITY, 2 * CAPACITY, 4 * CAPACITY)
        for name, way, order in (
            ("as evaluated", without_barrier, ordered),
            ("in the panel's order", without_barrier, jobs),
            ("barrier per turn", with_barrier, jobs),
        )
    ]
    ratios: dict[tuple[str, int], list[float]] = {(name, n): [] for name, _, _, n in ways}
    for _ in range(arguments.repeats):
        for name, way, order, concurrency in ways:
            began = time.perf_counter()
            asyncio.run(way(order, concurrency))
            ratios[name, concurrency].append((time.perf_counter() - began) / bound)
    print(f"{'':20} in flight   wall time over the lower bound: median (min, max)")
    for (name, concurrency), values in sorted(ratios.items()):
        print(
            f"{name:20} {concurrency:9}   {statistics.median(values):.3f} "
            f"({min(values):.3f}, {max(values):.3f})"
        )


if __name__ == "__main__":
    main()
