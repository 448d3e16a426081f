"""What a call costs in worker processes and inline.

    python -m tests.benchmarks.scripts.host_calls

Sokoban episodes are played with one fixed action by as many coroutines as there are episodes in
flight; there is no engine. Printed is the wall time of a step: inline, where it is the world's own
time and nothing else, and through worker processes, where the world's time is spread over them.
Beside it the CPU time of a step in the process of the event loop, which is what an engine in the
same process has to share its cores with.
"""

import argparse
import asyncio
import statistics
import time
from dataclasses import dataclass

from benchmark.hosts.choose import EnvPool
from tasks.base import Task
from tasks.sokoban.task import SokobanTask
from tests.support.runs.worker_tasks import WorkerSokoban, process_of

ACTION = "<think>I try this and see what happens to the box.</think><action>up</action>"
MAX_TURNS = 50


@dataclass(frozen=True)
class Measured:
    """Microseconds of a step: wall time, and CPU time of this process."""

    wall: float
    cpu: float


async def measure(task: Task, processes: int, in_flight: int, episodes: int) -> Measured:
    """Play episodes, as many at a time as are in flight."""
    entries = task.panel("builtin").entries
    waiting = iter(range(episodes))
    steps = 0

    async def place(hosts: EnvPool) -> None:
        nonlocal steps
        for number in waiting:
            episode = await hosts.open(task, entries[number % len(entries)], MAX_TURNS)
            await episode.reset()
            while (await episode.step(ACTION)).outcome is None:
                steps += 1
            steps += 1
            episode.close()

    async with EnvPool(processes) as hosts:
        if task.info.worker_processes:  # start all of them
            calls = (hosts.workers.run(process_of, task, 0.5) for _ in range(processes))
            await asyncio.gather(*calls)
        wall, cpu = time.perf_counter(), time.process_time()
        async with asyncio.TaskGroup() as group:
            for _ in range(in_flight):
                group.create_task(place(hosts))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Measured(wall / steps * 1e6, cpu / steps * 1e6)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="interleaved repetitions")
    parser.add_argument("--episodes", type=int, default=512, help="episodes of 50 steps each")
    arguments = parser.parse_args()
    worker, inline = WorkerSokoban(), SokobanTask()
    ways: list[tuple[str, Task, int, int]] = [
        ("inline", inline, 1, 64),
        *(
            (f"{processes} processes, {in_flight} in flight", worker, processes, in_flight)
            for processes in (1, 2)
            for in_flight in (1, 64, 128)
        ),
    ]
    results: dict[str, list[Measured]] = {name: [] for name, *_ in ways}
    for _ in range(arguments.repeats):
        for name, task, processes, in_flight in ways:
            one = asyncio.run(measure(task, processes, in_flight, arguments.episodes))
            results[name].append(one)
    print(f"{'':28} wall us a step: median (min, max)   CPU us of this process: median")
    for name, measured in results.items():
        walls = [one.wall for one in measured]
        spread = f"{statistics.median(walls):.1f} ({min(walls):.1f}, {max(walls):.1f})"
        print(f"{name:28} {spread:36} {statistics.median(one.cpu for one in measured):.1f}")


if __name__ == "__main__":
    main()
