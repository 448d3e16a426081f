"""What the trainer costs over generating and training the same tokens, bare.

    python -m tests.benchmarks.scripts.trainer_floor

An update of the trainer is everything between two lines of its log: rollouts on real worlds, old
log-probabilities, the distance to the init, optimizer steps, weights to the engine, the line. The
floor is, for the very prompts, seeds and rows of that update: the decode loop without an engine
around it, and forward, backward and AdamW over the same micro-batches with the plain loss
-A log p: no clipping of gradients, no entropies, no statistics.

Turns of an episode depend on each other. The first floor keeps to that (a turn is offered when the
one before it has its answer), the second has all turns at once. Our trainer computes the
instructions that prompts share once for a micro-batch; the floor is measured with that and without.
A third floor has none of this project's decoder and batches: the library's model alone, all turns
at once, in plain loops (`tests.benchmarks.floors.plain_work`).
Every update is followed by its floors, from the same weights and in turning order; ratios are taken
within an update. Peak memory is measured apart, each way in a process of its own.
"""

import argparse
import asyncio
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator

from baselines.config.layers import resolve
from baselines.config.run import TrainingCallbacks, TrainingRun
from baselines.config.schema import TrainConfig
from baselines.inits.registry import find_model
from baselines.learning.learner import Learner
from baselines.rollouts.rows import Row
from baselines.training.trainer import Trainer
from benchmark.engines.core.base import Engine, Generation, Request
from benchmark.engines.transformers.engine import TransformersEngine, load_model
from tasks.registry import load_task
from tests.benchmarks.floors.bare_work import Floor, Offer, Spent, Work, clocks
from tests.benchmarks.floors.plain_work import PlainFloor
from tests.support.measured import alone, cost

TASK, INIT = "sokoban", "tiny-sokoban"
MAX_BATCH = 64
PHASES = ("rollout", "old_log_probs", "reference", "update", "weights", "total")


class Recorder(Engine):
    """Passes everything on and remembers the turns of each episode."""

    def __init__(self, engine: TransformersEngine) -> None:
        self.name = engine.name
        self._engine = engine
        self.episodes: dict[int, list[Offer]] = defaultdict(list)

    async def generate(self, request: Request) -> Generation:
        generation = await self._engine.generate(request)
        prompt, response = generation.prompt_ids, generation.response_ids
        assert prompt is not None and response is not None
        offer = Offer(prompt, request.sampling, request.seed, response)
        self.episodes[request.affinity].append(offer)
        return generation

    async def load_weights(self, weights: Any, version: int) -> None:
        await self._engine.load_weights(weights, version)

    def describe(self) -> dict[str, Any]:
        return self._engine.describe()


class RecordedLearner(Learner):
    """Remembers what an update learned from."""

    rows: Sequence[Row]
    planned: Sequence[Sequence[int]]

    def plan(self, rows: Sequence[Row], number: int) -> list[list[int]]:
        found = super().plan(rows, number)
        self.rows, self.planned = rows, found
        return found


@dataclass(frozen=True, slots=True)
class Update:
    """One update, measured.

    Attributes:
        trainer: What the trainer spent.
        generated: The floor's generation, turn by turn and all at once.
        trained: The floor's training, with shared instructions and without.
        plain: Generation and training with the library's model alone.
        phases: Wall seconds of the trainer's phases.
        work: What was done.
    """

    trainer: Spent
    generated: tuple[Spent, Spent]
    trained: tuple[Spent, Spent]
    plain: tuple[Spent, Spent]
    phases: Mapping[str, float]
    work: Work


After = Callable[[Trainer, Work, Mapping[str, Any], Spent], None]


def configuration(steps: int, kl_coef: float, updates: int) -> TrainConfig:
    """GRPO at the tiny scale, 8 x 8 episodes, without validations and checkpoints on the way."""
    own = [
        "rollout.groups=8",
        "rollout.group_size=8",
        f"optimization.mini_batches={steps}",
        f"optimization.updates={updates}",
        f"kl.coef={kl_coef}",
        "validation.every=null",
        f"checkpoint_every={updates + 1}",
    ]
    return resolve("grpo", "tiny", [TASK], own)


def train(config: TrainConfig, after: After) -> None:
    """Train, and after every update call `after` outside of the time that is measured."""
    init = find_model(INIT)

    async def main(out: Path) -> None:
        assert init.path is not None
        run = TrainingRun("floor", config, (load_task(TASK),), init, 0, out)
        async with TransformersEngine(init.path, max_batch=MAX_BATCH, deterministic=True) as engine:
            recorder = Recorder(engine)
            mark = clocks()

            def listen(line: Mapping[str, Any]) -> None:
                nonlocal mark
                took = clocks() - mark
                if line["kind"] == "update":
                    episodes = list(recorder.episodes.values())
                    after(trainer, Work(episodes, learner.rows, learner.planned), line, took)
                    recorder.episodes.clear()
                mark = clocks()

            trainer = Trainer(
                run,
                recorder,
                Accelerator(cpu=True),
                TrainingCallbacks(listen),
                learner=RecordedLearner,
            )
            assert isinstance(trainer.learner, RecordedLearner)
            learner = trainer.learner
            await trainer.train()

    with tempfile.TemporaryDirectory() as out:
        asyncio.run(main(Path(out)))


def measure(config: TrainConfig) -> list[Update]:
    """Train, and do the bare work of every update after it; the first one only warms up."""
    floor = Floor(folder(), config.optimization, MAX_BATCH)
    plain = PlainFloor(folder(), config.optimization, MAX_BATCH)
    measured: list[Update] = []

    def after(trainer: Trainer, work: Work, line: Mapping[str, Any], took: Spent) -> None:
        ways: list[Callable[[], Spent]] = [
            lambda: floor.generate(work, at_once=False),
            lambda: floor.generate(work, at_once=True),
            lambda: floor.train(work, share_prefix=True),
            lambda: floor.train(work, share_prefix=False),
            lambda: plain.generate(work),
            lambda: plain.train(work),
        ]
        results = [Spent(0, 0)] * len(ways)
        for place in range(len(ways)):
            chosen = (place + len(measured)) % len(ways)
            results[chosen] = ways[chosen]()
        phases = {name: line[f"seconds/{name}"] for name in PHASES}
        pairs = ((results[0], results[1]), (results[2], results[3]), (results[4], results[5]))
        measured.append(Update(took, *pairs, phases, work))
        for each in (floor, plain):
            each.take(trainer.learner.model.state_dict())

    train(config, after)
    return measured[1:]


def report(steps: int, kl_coef: float, updates: Sequence[Update]) -> None:
    """Print the ratios of one setting."""
    rows = statistics.median(len(update.work.rows) for update in updates)
    responses = statistics.median(
        sum(len(row.response_ids) for row in update.work.rows) for update in updates
    )
    print(
        f"\n{steps} optimizer step{'s' * (steps > 1)} an update, kl.coef {kl_coef}: "
        f"{len(updates)} updates of {rows:.0f} rows, {responses:,.0f} response tokens (medians)"
    )
    print(f"{'':42} {'CPU s':>7} {'wall s':>7}   trainer / this, CPU; wall: median (min to max)")
    line("trainer", [update.trainer for update in updates], updates)
    for generation, asked in enumerate(("turn by turn", "all at once")):
        for training, shared in enumerate(("shared", "each row whole")):
            name = f"floor: {asked}, {shared}"
            floors = [u.generated[generation] + u.trained[training] for u in updates]
            line(name, floors, updates)
    line("library's model alone", [u.plain[0] + u.plain[1] for u in updates], updates)
    parts = {
        "generation, turn by turn": [update.generated[0] for update in updates],
        "generation, all at once": [update.generated[1] for update in updates],
        "training, shared": [update.trained[0] for update in updates],
        "training, each row whole": [update.trained[1] for update in updates],
        "generation, plain loop": [update.plain[0] for update in updates],
        "training, packed": [update.plain[1] for update in updates],
    }
    for name, values in parts.items():
        print(f"  {name:40} {_median(values, 'cpu'):7.2f} {_median(values, 'wall'):7.2f}")
    medians = {name: statistics.median(u.phases[name] for u in updates) for name in PHASES}
    print(
        "  trainer's phases, wall s:", *(f"{name} {value:.2f}" for name, value in medians.items())
    )


def line(name: str, values: Sequence[Spent], updates: Sequence[Update]) -> None:
    """One line of the table."""
    ratios = []
    for clock in ("cpu", "wall"):
        found = sorted(
            getattr(update.trainer, clock) / getattr(value, clock)
            for update, value in zip(updates, values, strict=True)
        )
        ratios.append(f"{statistics.median(found):.2f} ({found[0]:.2f} to {found[-1]:.2f})")
    print(
        f"{name:42} {_median(values, 'cpu'):7.2f} {_median(values, 'wall'):7.2f}   "
        + ("; ".join(ratios) if name != "trainer" else "")
    )


def _median(values: Sequence[Spent], clock: str) -> float:
    return statistics.median(float(getattr(value, clock)) for value in values)


def trainer_memory(steps: int, kl_coef: float) -> tuple[float, Work]:
    """MiB that two updates of the trainer add at most, models included; the work of the first."""
    torch.set_num_threads(1)
    load_model(folder(), "float32", "cpu")
    works: list[Work] = []
    config = configuration(steps, kl_coef, 2)
    _, highest = cost(lambda: train(config, lambda trainer, work, line, took: works.append(work)))
    return highest, works[0]


def floor_memory(steps: int, kl_coef: float, work: Work, share_prefix: bool) -> float:
    """MiB that the bare work adds at most, models included."""
    torch.set_num_threads(1)
    load_model(folder(), "float32", "cpu")

    def run() -> None:
        floor = Floor(folder(), configuration(steps, kl_coef, 2).optimization, MAX_BATCH)
        floor.generate(work, at_once=False)
        floor.train(work, share_prefix)

    return cost(run)[1]


def folder() -> Path:
    """The init's files."""
    path = find_model(INIT).path
    assert path is not None
    return path


def add_settings(parser: argparse.ArgumentParser, updates: int) -> None:
    """Options for what is compared: every number of steps with every coefficient."""
    parser.add_argument("--steps", type=int, nargs="+", default=[1, 4], help="of an update")
    parser.add_argument("--kl-coef", type=float, nargs="+", default=[0.0, 0.01])
    parser.add_argument("--updates", type=int, default=updates, help="measured in each setting")


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    add_settings(parser, updates=8)
    options = parser.parse_args()
    torch.set_num_threads(1)
    settings = list(product(options.kl_coef, options.steps))
    for kl_coef, steps in settings:
        report(steps, kl_coef, measure(configuration(steps, kl_coef, options.updates + 1)))
    print("\npeak memory beyond the libraries, MiB:")
    for kl_coef, steps in settings:
        highest, work = alone(trainer_memory, steps, kl_coef)
        floors = [alone(floor_memory, steps, kl_coef, work, share) for share in (True, False)]
        print(
            f"{steps} optimizer step{'s' * (steps > 1)}, kl.coef {kl_coef}: trainer {highest:.0f}, "
            f"floor {floors[0]:.0f} with shared instructions ({highest / floors[0]:.2f}), "
            f"{floors[1]:.0f} without ({highest / floors[1]:.2f})"
        )


if __name__ == "__main__":
    main()
