"""What the harness costs over a vLLM server: a whole rollout against the floor.

    python -m tests.benchmarks.scripts.server_floor

A vLLM server with a tiny random model runs beside the client. The rollout plays Sokoban episodes of
different lengths through `OpenAIEngine` and `rollout.play`. The floor sends the same requests, all
known beforehand, over bare aiohttp with as many in flight, so that nothing waits for anything. Both
are interleaved and repeated, the server's prefix cache is emptied before each. With `--text-only`
the floor is also measured without log-probabilities and token ids.
"""

import argparse
import asyncio
import dataclasses
import json
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp

from benchmark.engines.core.base import Generation, Request
from benchmark.engines.server.openai import OpenAIEngine
from benchmark.evaluation.protocol import PanelProtocol, SamplingOverrides
from benchmark.evaluation.rollout import Job, Trajectory, play
from tasks.registry import load_task
from tests.benchmarks.floors.places import place_share
from tests.support.engines.servers import VllmServer, vllm_server
from tests.support.engines.tiny_model import make_tiny_model

EXTRAS = ("return_token_ids", "logprobs")


class Recorder(OpenAIEngine):
    """Remembers the request body of every turn."""

    def __init__(self, server: VllmServer, in_flight: int) -> None:
        super().__init__([server.url], server.model, in_flight=in_flight)
        self.bodies: list[dict[str, Any]] = []

    async def generate(self, request: Request) -> Generation:
        """Answer and remember."""
        fields = self._dialect.fields(request.messages, request.sampling, request.seed)
        self.bodies.append(fields)
        return await super().generate(request)


@dataclasses.dataclass(frozen=True, slots=True)
class Measured:
    """One run: tokens that the server wrote, requests, seconds of wall and of client CPU time."""

    tokens: int
    requests: int
    wall: float
    cpu: float

    @property
    def rate(self) -> float:
        """Tokens per second."""
        return self.tokens / self.wall

    @property
    def cost(self) -> float:
        """Client CPU milliseconds per request."""
        return 1000 * self.cpu / self.requests


def jobs(episodes: int, longest: int, max_tokens: int) -> list[Job]:
    """Episodes of 1 to `longest` turns; a random model never solves one sooner."""
    task = load_task("sokoban")
    panel = task.panel("builtin")
    protocol = PanelProtocol.of(task, panel, SamplingOverrides(max_tokens=max_tokens))
    lengths = random.Random(0)
    return [
        Job(task, entry, 0, dataclasses.replace(protocol, max_turns=lengths.randint(1, longest)))
        for entry in panel.entries[:episodes]
    ]


async def roll_out(engine: OpenAIEngine, work: list[Job], in_flight: int) -> Measured:
    """Play all episodes."""
    counts: list[int] = []

    async def deliver(trajectory: Trajectory) -> None:
        assert trajectory.error is None, trajectory.error
        counts.extend(turn.generation.response_tokens or 0 for turn in trajectory.turns)

    wall, cpu = time.perf_counter(), time.process_time()
    await play(work, engine, in_flight, deliver)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Measured(sum(counts), len(counts), wall, cpu)


async def send_all(url: str, bodies: list[dict[str, Any]], in_flight: int) -> Measured:
    """Send all requests over bare aiohttp."""
    remaining = iter(bodies)
    tokens = 0

    async def place(session: aiohttp.ClientSession) -> None:
        nonlocal tokens
        for body in remaining:
            async with session.post(f"{url}/v1/chat/completions", json=body) as response:
                value = json.loads(await response.read())
                tokens += value["usage"]["completion_tokens"]

    connector = aiohttp.TCPConnector(limit=in_flight)
    async with aiohttp.ClientSession(connector=connector) as session:
        wall, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(place(session) for _ in range(in_flight)))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Measured(tokens, len(bodies), wall, cpu)


async def compare(
    server: VllmServer, work: list[Job], in_flight: int, rounds: int, text_only: bool
) -> None:
    """Measure all variants in turn and print medians and their ratios to the floor."""
    async with Recorder(server, in_flight) as recorder:
        await roll_out(recorder, work, in_flight)
    random.Random(0).shuffle(recorder.bodies)
    plain = [
        {name: value for name, value in body.items() if name not in EXTRAS}
        for body in recorder.bodies
    ]

    async def rollout() -> Measured:
        async with OpenAIEngine([server.url], server.model, in_flight=in_flight) as engine:
            return await roll_out(engine, work, in_flight)

    variants: dict[str, Callable[[], Awaitable[Measured]]] = {
        "floor": lambda: send_all(server.url, recorder.bodies, in_flight),
        "rollout": rollout,
    }
    if text_only:
        variants["text only"] = lambda: send_all(server.url, plain, in_flight)
    measured: dict[str, list[Measured]] = {name: [] for name in variants}
    for number in range(rounds):
        for name in list(variants)[:: 1 if number % 2 == 0 else -1]:
            await empty_prefix_cache(server)
            measured[name].append(await variants[name]())
    report(measured, in_flight)
    share = place_share((job.protocol.max_turns for job in work), in_flight)
    print(f"{in_flight:>9} dependent turns keep at most {share:.2f} of the places busy")


def report(measured: dict[str, list[Measured]], in_flight: int) -> None:
    """Print one line per variant."""
    floors = measured["floor"]
    for name, figures in measured.items():
        ratios = sorted(one.rate / floor.rate for one, floor in zip(figures, floors, strict=True))
        print(
            f"{in_flight:>9} {name:>10} {statistics.median(one.rate for one in figures):>9,.0f} "
            f"{statistics.median(one.cost for one in figures):>15.2f} "
            f"{statistics.median(ratios):>9.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        )


async def empty_prefix_cache(server: VllmServer) -> None:
    """Make the server forget earlier runs."""
    url = f"{server.url}/reset_prefix_cache"
    async with aiohttp.ClientSession() as session, session.post(url) as response:
        response.raise_for_status()


def main() -> None:
    """Start the server, compare, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--episodes", type=int, default=256)
    parser.add_argument("--longest", type=int, default=15, help="turns of the longest episode")
    parser.add_argument("--max-tokens", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--text-only", action="store_true", help="see above")
    parser.add_argument("--in-flight", type=int, nargs="+", default=[32, 128])
    options = parser.parse_args()

    work = jobs(options.episodes, options.longest, options.max_tokens)
    with tempfile.TemporaryDirectory() as folder:
        model = make_tiny_model(Path(folder) / "tiny", context=2048)
        with vllm_server(model, environment={"VLLM_SERVER_DEV_MODE": "1"}) as server:
            print(
                f"{'in flight':>9} {'':>10} {'tokens/s':>9} {'CPU ms/request':>15} {'of floor':>9}"
            )
            for in_flight in options.in_flight:
                asyncio.run(compare(server, work, in_flight, options.rounds, options.text_only))


if __name__ == "__main__":
    main()
