"""What the harness costs over vLLM in process: a whole rollout against the floor.

    python -m tests.benchmarks.scripts.vllm_floor --model DIR

The rollout plays a panel through `VllmEngine` and `rollout.play`: turns of an episode depend on
each other, worlds step, prompts are rendered. The floor offers exactly the same prompts (token ids,
sampling, limits) to the bare `LLMEngine` with nothing to wait for: all at once, and, as a second
floor, with as many in flight as the rollout had. All three run on one engine, interleaved and
repeated, each with an empty prefix cache; ratios are taken within a round.
`tests.benchmarks.scripts.server_floor` does the same through a server.
"""

import argparse
import asyncio
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmark.engines.core.base import Engine, Generation, Request, Sampling
from benchmark.engines.core.tickets import Ticket
from benchmark.engines.vllm.build import set_environment
from benchmark.engines.vllm.engine import VllmEngine, sampling_params
from benchmark.evaluation.protocol import PanelProtocol
from benchmark.evaluation.rollout import Job, Trajectory, longest_first, play
from tasks.registry import load_task
from tasks.seeding import stable_seed
from tests.benchmarks.floors.places import place_share

TINY = Path(__file__).parents[3] / "baselines" / "inits" / "tiny-sokoban"


@dataclass(frozen=True, slots=True)
class Offer:
    """One recorded request: what the floor offers again."""

    prompt_ids: tuple[int, ...]
    sampling: Sampling
    max_tokens: int
    seed: int


@dataclass(frozen=True, slots=True)
class Measured:
    """One run: requests, their tokens, and seconds."""

    requests: int
    prompt_tokens: int
    response_tokens: int
    seconds: float

    @property
    def rate(self) -> float:
        """Response tokens per second."""
        return self.response_tokens / self.seconds


class Recorder(Engine):
    """Passes requests on and remembers them with the length of the response."""

    def __init__(self, engine: VllmEngine) -> None:
        self.name = engine.name
        self._engine = engine
        self._context = int(engine.describe()["context"])
        self.offers: list[Offer] = []
        self.turns: Counter[int] = Counter()
        self.response_tokens = 0

    async def generate(self, request: Request) -> Generation:
        """Answer and remember."""
        generation = await self._engine.generate(request)
        ids = generation.prompt_ids
        assert ids is not None and generation.response_tokens is not None
        max_tokens = min(request.sampling.max_tokens, self._context - len(ids))
        self.offers.append(Offer(ids, request.sampling, max_tokens, request.seed))
        self.response_tokens += generation.response_tokens
        self.turns[request.affinity] += 1
        return generation

    def describe(self) -> dict[str, Any]:
        """The engine's facts."""
        return self._engine.describe()


def panel_jobs(task_name: str, panel_name: str, episodes: int, sampling: Sampling) -> list[Job]:
    """The first episodes of a panel."""
    task = load_task(task_name)
    panel = task.panel(panel_name)
    protocol = replace(PanelProtocol.of(task, panel), sampling=sampling)
    return longest_first(Job(task, entry, 0, protocol) for entry in panel.entries[:episodes])


async def rollout_in_process(
    engine: VllmEngine, jobs: Sequence[Job], in_flight: int
) -> tuple[Measured, Recorder]:
    """Play all episodes through the harness; also gives back what was asked of the engine."""
    recorder = Recorder(engine)

    async def deliver(trajectory: Trajectory) -> None:
        assert trajectory.error is None, trajectory.error

    began = time.perf_counter()
    await play(jobs, recorder, in_flight, deliver)
    seconds = time.perf_counter() - began
    prompt_tokens = sum(len(offer.prompt_ids) for offer in recorder.offers)
    measured = Measured(len(recorder.offers), prompt_tokens, recorder.response_tokens, seconds)
    return measured, recorder


def floor_in_process(
    llm: Any, offers: Sequence[Offer], stop_ids: list[int], in_flight: int | None
) -> Measured:
    """Offer recorded requests to the bare engine.

    Args:
        llm: vLLM's `LLMEngine`, idle.
        offers: What to offer, in this order.
        stop_ids: Tokens that end a response.
        in_flight: Most requests in the engine; None offers everything at once.
    """
    from vllm.inputs import TokensPrompt

    future: asyncio.Future[Any] = asyncio.get_event_loop().create_future()
    waiting = [
        (
            TokensPrompt(prompt_token_ids=list(offer.prompt_ids)),
            sampling_params(
                Ticket([], offer.sampling, offer.max_tokens, offer.seed, future), stop_ids
            ),
        )
        for offer in reversed(offers)
    ]
    running = tokens = count = 0
    began = time.perf_counter()
    while waiting or running:
        while waiting and (in_flight is None or running < in_flight):
            prompt, params = waiting.pop()
            llm.add_request(f"floor-{count}", prompt, params)
            running, count = running + 1, count + 1
        for output in llm.step():
            if output.finished:
                tokens += len(output.outputs[0].token_ids)
                running -= 1
    seconds = time.perf_counter() - began
    prompt_tokens = sum(len(offer.prompt_ids) for offer in offers)
    return Measured(len(offers), prompt_tokens, tokens, seconds)


async def compare(engine: VllmEngine, jobs: list[Job], in_flight: int, rounds: int) -> None:
    """Measure the rollout and both floors in turn; print one line each."""
    # The worker thread waits for requests while the floor runs, so the engine is free.
    llm, stop_ids = engine._llm, engine._stop_ids
    _, recorder = await rollout_in_process(engine, jobs, in_flight)
    offers = recorder.offers
    names = ["rollout", "floor, same in flight", "floor, all at once"]
    measured: dict[str, list[Measured]] = {name: [] for name in names}
    for number in range(rounds):
        for name in names if number % 2 == 0 else reversed(names):
            llm.reset_prefix_cache()
            if name == "rollout":
                one, _ = await rollout_in_process(engine, jobs, in_flight)
            else:
                limit = in_flight if name == names[1] else None
                one = floor_in_process(llm, offers, stop_ids, limit)
            measured[name].append(one)
    for name in names:
        print(line(name, in_flight, measured[name], measured["rollout"]))
    share = place_share((recorder.turns[stable_seed(*job.key)] for job in jobs), in_flight)
    print(f"{in_flight:>9}  dependent turns keep at most {share:.2f} of the places busy")


def line(name: str, in_flight: int, floors: list[Measured], rollouts: list[Measured]) -> str:
    """One line of the table: the rate, and the rollout's share of it."""
    rates = sorted(one.rate for one in floors)
    shares = sorted(r.rate / f.rate for r, f in zip(rollouts, floors, strict=True))
    last = floors[-1]
    return (
        f"{in_flight:>9}  {name:<22} {last.requests:>8} {last.prompt_tokens:>13} "
        f"{last.response_tokens:>15} {statistics.median(rates):>9,.0f} "
        f"({rates[0]:,.0f} to {rates[-1]:,.0f})   "
        f"{statistics.median(shares):.2f} ({shares[0]:.2f} to {shares[-1]:.2f})"
    )


async def run(options: argparse.Namespace) -> None:
    """Start the engine once and compare at every number in flight."""
    sampling = Sampling(temperature=options.temperature, max_tokens=options.max_tokens)
    jobs = panel_jobs(options.task, options.panel, options.episodes, sampling)
    async with VllmEngine(options.model) as engine:
        print(engine.describe())
        print(
            f"{'in flight':>9}  {'':<22} {'requests':>8} {'prompt tokens':>13} "
            f"{'response tokens':>15} {'tokens/s, median (min to max)'}   "
            "rollout / this, median (min to max)"
        )
        for in_flight in options.in_flight:
            await compare(engine, jobs, in_flight, options.rounds)


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--model", type=Path, default=TINY, help="model folder")
    parser.add_argument("--task", default="sokoban")
    parser.add_argument("--panel", default="builtin")
    parser.add_argument("--episodes", type=int, default=256)
    parser.add_argument("--max-tokens", type=int, default=Sampling().max_tokens)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--in-flight", type=int, nargs="+", default=[32, 128])
    options = parser.parse_args()
    from torch.cuda import is_available

    # Threads read their number from the environment; the floor runs in another one than the engine.
    set_environment(is_available())
    asyncio.run(run(options))


if __name__ == "__main__":
    main()
