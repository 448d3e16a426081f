"""Our trainer beside TRL's GRPOTrainer: `python -m tests.benchmarks.scripts.trl_trainer`.

TRL trains on one prompt and one response a row, so the first turns of Sokoban episodes are the case
that both can play: the same model, prompts in the same order, groups, limits of length, size of
micro-batches, number of optimizer steps, loss and worlds. Each generates with its own loop over
transformers on the CPU: TRL with `generate` over all rows, ours with the transformers engine.

In a second comparison both learn from the very same tokens, and generation is left out: TRL is
given what our trainer drew (`rollout_func`), and of ours only the learning is counted. Our trainer
runs once more with the sharing of instructions among prompts turned off.

Every trainer lives in a process of its own and they take turns, update by update; an update is
everything from the prompts to the logged line. Ratios are taken within a turn.
"""

import argparse
import asyncio
import multiprocessing
import os
import statistics
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator

from baselines.config.layers import resolve
from baselines.config.run import TrainingCallbacks, TrainingRun
from baselines.config.schema import TrainConfig
from baselines.inits.registry import find_model
from baselines.learning.learner import Advantages, Learner, ModelValues
from baselines.learning.metrics import Metrics
from baselines.learning.tally import UpdateStats
from baselines.rollouts.rows import Row
from baselines.training.trainer import Trainer
from benchmark.engines.transformers.engine import TransformersEngine, load_model
from tasks.registry import load_task
from tests.benchmarks.floors.bare_work import Spent, clocks
from tests.benchmarks.scripts.trainer_floor import add_settings
from tests.support.measured import cost

TASK, INIT = "sokoban", "tiny-sokoban"
OURS, WHOLE, TRL, TRL_GIVEN = "ours", "ours, each row whole", "TRL", "TRL, our tokens"
NAMES = (OURS, TRL, WHOLE, TRL_GIVEN)


@dataclass(frozen=True, slots=True)
class Case:
    """What is to be done.

    Attributes:
        groups: Prompts of an update.
        group_size: Responses to each.
        steps: Optimizer steps of an update.
        kl_coef: Of the distance to the init in the loss.
        micro_batch: TRL's rows of a forward pass; ours are cut by tokens, as the scale has it.
        updates: How many, the first of which is not counted.
    """

    groups: int
    group_size: int
    steps: int
    kl_coef: float
    micro_batch: int
    updates: int

    @property
    def rows(self) -> int:
        """Rows of an update."""
        return self.groups * self.group_size


@dataclass(frozen=True, slots=True)
class Given:
    """A response that was drawn by our trainer."""

    prompt_ids: list[int]
    response_ids: list[int]
    reward: float


@dataclass(frozen=True, slots=True)
class Done:
    """One update of one trainer.

    Attributes:
        all: What it spent.
        learning: Of that, for learning from the rows; only of ours.
        tokens: Response tokens.
        given: The rows, in the order of their prompts; only of ours.
    """

    all: Spent
    learning: Spent | None
    tokens: int
    given: list[Given] | None


class Turns:
    """A trainer's side of taking turns: it waits before every update, and reports after it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._mark: Spent | None = None
        self.payload: list[Given] | None = None

    def begin(self) -> None:
        """Wait until it is this trainer's turn."""
        self.payload = self._connection.recv()
        self._mark = clocks()

    def end(self) -> Spent | None:
        """What was spent in this turn; None before the first."""
        return None if self._mark is None else clocks() - self._mark

    def report(self, done: Done) -> None:
        """Tell it."""
        self._connection.send(done)


def view(number: int) -> Any:
    """An episode of the training stream that ends after one turn, and its first view."""
    task = load_task(TASK)
    episode = task.episode(task.training_entry(number), 1)
    return episode, episode.reset()


def configuration(case: Case) -> TrainConfig:
    """GRPO with token-mean at the tiny scale."""
    own = [
        f"rollout.groups={case.groups}",
        f"rollout.group_size={case.group_size}",
        "rollout.max_turns=1",
        f"optimization.mini_batches={case.steps}",
        f"optimization.updates={case.updates}",
        f"kl.coef={case.kl_coef}",
        "validation.every=null",
        f"checkpoint_every={case.updates + 1}",
    ]
    return resolve("grpo", "tiny", [TASK], own)


class TimedLearner(Learner):
    """Remembers the rows of an update and what learning from them took."""

    rows: Sequence[Row] = ()
    learning: Spent | None = None
    _began: Spent

    def plan(self, rows: Sequence[Row], number: int) -> list[list[int]]:
        self._began = clocks()
        return super().plan(rows, number)

    def metrics(
        self,
        rows: Sequence[Row],
        values: ModelValues,
        advantages: Advantages,
        stats: UpdateStats,
        number: int,
    ) -> Metrics:
        found = super().metrics(rows, values, advantages, stats, number)
        self.rows, self.learning = rows, clocks() - self._began
        return found


def run_ours(turns: Turns, case: Case, share_prefix: bool) -> None:
    """Train with our trainer."""
    init = find_model(INIT)
    config = configuration(case)

    async def main(out: Path) -> None:
        assert init.path is not None
        run = TrainingRun("trl", config, (load_task(TASK),), init, 0, out)
        async with TransformersEngine(init.path, deterministic=True) as engine:

            def listen(line: Mapping[str, Any]) -> None:
                if line["kind"] == "update":
                    spent = turns.end()
                    assert spent is not None
                    given = [_given(row) for row in learner.rows]
                    tokens = sum(len(row.response_ids) for row in given)
                    turns.report(Done(spent, learner.learning, tokens, given))
                if line.get("update") != case.updates:
                    turns.begin()

            trainer = Trainer(
                run, engine, Accelerator(cpu=True), TrainingCallbacks(listen), learner=TimedLearner
            )
            assert isinstance(trainer.learner, TimedLearner)
            learner = trainer.learner
            learner.updater.share_prefix &= share_prefix
            learner.updater.packs &= share_prefix
            await trainer.train()

    with tempfile.TemporaryDirectory() as out:
        asyncio.run(main(Path(out)))


def _given(row: Row) -> Given:
    return Given(row.prompt_ids.tolist(), row.response_ids.tolist(), row.reward - row.penalty)


def run_trl(turns: Turns, case: Case, given: bool) -> None:
    """Train with TRL: on what it draws, or on what it is given."""
    from transformers import AutoTokenizer, PrinterCallback, TrainerCallback
    from trl.trainer.grpo_trainer import GRPOTrainer

    folder = find_model(INIT).path
    assert folder is not None

    class Listener(TrainerCallback):
        """Takes turns around the optimizer steps of an update."""

        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step % case.steps == 0:
                self.report()
                turns.begin()

        def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self.report()

        def report(self) -> None:
            spent = turns.end()
            if spent is not None:
                turns.report(Done(spent, None, drawn[-1], None))

    drawn: list[int] = []

    def worlds(completions: Any, number: list[int], **kwargs: Any) -> list[float | None]:
        drawn.append(sum(len(ids) for ids in kwargs["completion_ids"]))
        if turns.payload is not None:
            return [row.reward for row in turns.payload]
        texts = [completion[0]["content"] for completion in completions]
        return [view(n)[0].step(text).reward for n, text in zip(number, texts, strict=True)]

    def hand_over(prompts: Any, trainer: Any) -> dict[str, Any]:
        assert turns.payload is not None
        if not drawn:
            rendered, _, _ = trainer._tokenize_prompts(prompts)
            assert rendered == [row.prompt_ids for row in turns.payload], "not the same prompts"
        return {
            "prompt_ids": [row.prompt_ids for row in turns.payload],
            "completion_ids": [row.response_ids for row in turns.payload],
            "logprobs": None,
        }

    with tempfile.TemporaryDirectory() as out:
        trainer = GRPOTrainer(
            model=load_model(folder, "float32", "cpu"),
            reward_funcs=worlds,
            args=trl_arguments(case, out),
            train_dataset=trl_prompts(case),
            processing_class=AutoTokenizer.from_pretrained(folder, padding_side="left"),
            callbacks=[Listener()],
            rollout_func=hand_over if given else None,
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()


def trl_arguments(case: Case, out: str) -> Any:
    """The same choices in TRL's words."""
    from trl.trainer.grpo_config import GRPOConfig

    ours = configuration(case)
    optimization, rollout = ours.optimization, ours.rollout
    per_step = case.rows // case.steps // case.micro_batch
    return GRPOConfig(
        output_dir=out,
        per_device_train_batch_size=case.micro_batch,
        gradient_accumulation_steps=per_step,
        steps_per_generation=per_step * case.steps,
        num_generations=case.group_size,
        max_steps=case.updates * case.steps,
        max_completion_length=rollout.max_tokens,
        temperature=rollout.temperature,
        beta=ours.kl.coef,
        loss_type="dapo",  # the mean over the tokens of an optimizer step
        shuffle_dataset=False,
        learning_rate=optimization.learning_rate,
        lr_scheduler_type="constant",
        weight_decay=optimization.weight_decay,
        max_grad_norm=optimization.max_grad_norm,
        optim="adamw_torch",
        bf16=False,
        gradient_checkpointing=False,
        use_cpu=True,
        dataloader_pin_memory=False,
        logging_steps=case.steps,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )


def trl_prompts(case: Case) -> Any:
    """The first prompts of the training stream, as many as there will be."""
    from datasets import Dataset

    numbers = list(range(case.groups * case.updates))
    prompts = [[dict(message) for message in view(number)[1].messages] for number in numbers]
    return Dataset.from_dict({"prompt": prompts, "number": numbers})


def work(connection: Connection, name: str, case: Case) -> None:
    """Run a trainer in this process; tells at last the MiB that it added at most."""
    torch.set_num_threads(1)
    folder = find_model(INIT).path
    assert folder is not None
    # What libraries load when they are first used is not a trainer's memory.
    load_model(folder, "float32", "cpu")
    theirs = name in (TRL, TRL_GIVEN)
    if theirs:
        # It has not been tried with the vLLM that is installed, which has no part in this.
        warnings.filterwarnings("ignore", "TRL currently supports vLLM", UserWarning)
        import trl.trainer.grpo_trainer  # noqa: F401
    turns = Turns(connection)
    run = (
        partial(run_trl, turns, case, name == TRL_GIVEN)
        if theirs
        else partial(run_ours, turns, case, name == OURS)
    )
    connection.send(cost(run)[1])


def compare(case: Case) -> tuple[dict[str, list[Done]], dict[str, float]]:
    """Let all trainers take turns.

    Returns:
        The updates of each but the first, and the MiB of memory that each added at most.
    """
    context = multiprocessing.get_context("spawn")
    connections: dict[str, Any] = {}
    processes = []
    for name in NAMES:
        connections[name], far = context.Pipe()
        processes.append(context.Process(target=work, args=(far, name, case), daemon=True))
        processes[-1].start()
        # So that the end of the process is the end of the connection.
        far.close()
    done: dict[str, list[Done]] = {name: [] for name in NAMES}
    for number in range(case.updates):
        given = None
        # What is given to TRL has to be drawn before.
        for name in NAMES if number % 2 == 0 else (WHOLE, TRL, OURS, TRL_GIVEN):
            connections[name].send(given if name == TRL_GIVEN else None)
            one = connections[name].recv()
            given = one.given if name == OURS else given
            done[name].append(replace(one, given=None))
    memory = {name: connection.recv() for name, connection in connections.items()}
    for process in processes:
        process.join()
    return {name: updates[1:] for name, updates in done.items()}, memory


def report(case: Case, done: Mapping[str, list[Done]], memory: Mapping[str, float]) -> None:
    """Print the ratios of one setting."""
    print(
        f"\n{case.steps} optimizer step{'s' * (case.steps > 1)} an update, kl.coef {case.kl_coef}: "
        f"{case.updates - 1} updates of {case.groups} x {case.group_size} rows"
    )
    print(f"{'':30} {'CPU s':>7} {'wall s':>7} {'tokens/s':>9} {'MiB':>5}   ratio to TRL, median")
    for name in (TRL, OURS, WHOLE):
        _line(name, [(d.tokens, d.all) for d in done[name]], done[TRL], memory[name])
    print("learning from the same tokens:")
    _line(TRL, [(d.tokens, d.all) for d in done[TRL_GIVEN]], done[TRL_GIVEN], memory[TRL_GIVEN])
    for name in (OURS, WHOLE):
        learned = [(d.tokens, d.learning) for d in done[name] if d.learning is not None]
        _line(name, learned, done[TRL_GIVEN], None)


def _line(
    name: str, values: Sequence[tuple[int, Spent]], base: Sequence[Done], memory: float | None
) -> None:
    cpu = [tokens / spent.cpu for tokens, spent in values]
    wall = [tokens / spent.wall for tokens, spent in values]
    ratios = [
        sorted(ours * getattr(b.all, clock) / b.tokens for ours, b in zip(rates, base, strict=True))
        for clock, rates in (("cpu", cpu), ("wall", wall))
    ]
    shown = "; ".join(f"{statistics.median(r):.2f} ({r[0]:.2f} to {r[-1]:.2f})" for r in ratios)
    print(
        f"  {name:28} {statistics.median(s.cpu for _, s in values):7.2f} "
        f"{statistics.median(s.wall for _, s in values):7.2f} {statistics.median(cpu):9,.0f} "
        f"{'' if memory is None else f'{memory:.0f}':>5}   {shown}"
    )


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    add_settings(parser, updates=5)
    parser.add_argument("--groups", type=int, default=64)
    parser.add_argument("--group-size", type=int, default=8)
    parser.add_argument("--micro-batch", type=int, default=32, help="rows of TRL's micro-batches")
    options = parser.parse_args()
    # Nothing is fetched, and threads are compared one to one.
    os.environ |= {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "TRL_EXPERIMENTAL_SILENCE": "1"}
    print("tokens/s: response tokens per CPU second; ratios of tokens/s by CPU; by wall time")
    for kl_coef, steps in product(options.kl_coef, options.steps):
        case = Case(
            options.groups,
            options.group_size,
            steps,
            kl_coef,
            options.micro_batch,
            options.updates + 1,
        )
        report(case, *compare(case))


if __name__ == "__main__":
    main()
