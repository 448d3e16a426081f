"""`arlarena-bench train`: train a policy with a recipe, from an init."""

import argparse
import asyncio
import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from benchmark.cli.arguments.training import DEFAULT_SCALE
from benchmark.cli.from_baselines import find_model, with_init_settings
from benchmark.cli.say import say
from benchmark.cli.training.choices import (
    chosen_tasks,
    split_settings,
    task_shares,
    template_setting,
)
from benchmark.cli.training.early_checks import (
    changed_text,
    check_run,
    inert_text,
    renamed_text,
    unhashed_text,
)
from benchmark.cli.training.engines import (
    TIS_CAP,
    check_engine,
    corrects_by_default,
    engine_options,
    has_engine,
    make_engine,
    weights_dtype,
)
from benchmark.cli.training.gpus import as_trainer, divide, fit, launch, launched
from benchmark.cli.training.on_track import (
    Tuning,
    find_track,
    find_tuning,
    leaves_track,
    track_config,
    track_init,
)
from benchmark.cli.training.processes import is_main, process_count
from benchmark.cli.training.run_folder import (
    CONFIG,
    check_folder,
    earlier_lines,
    locked,
    refuse_others,
)
from benchmark.cli.training.signals import StopSignals, handlers_kept
from benchmark.cli.training.texts import closing_lines, config_text, title
from benchmark.engines.choose import choose_kind
from benchmark.files import os_error_text, write_atomically
from benchmark.hosts.worker import end_with
from benchmark.models import ModelSource, folder_sha256
from benchmark.track_schema import Track
from tasks.base import Task
from tasks.errors import UserError
from tasks.options import parse_settings
from tasks.seeding import sha256_text

if TYPE_CHECKING:
    from baselines.config.run import TrainingRun
    from baselines.config.schema import TrainConfig
    from baselines.launch.plan import GpuPlan
    from baselines.training.terminal_view import LiveView


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A run as its command line specifies it; nothing is loaded or started yet.

    Attributes:
        training: The run.
        track: The named track, even if settings make the run an open one; None without a track.
        origin: Origin of its learning rate on a track (see `track_config`).
        plan: Roles of the GPUs with --gpus; None without.
        arguments: The options of the trainer's processes.
        processes: Number of training processes.
    """

    training: "TrainingRun"
    track: Track | None
    origin: str | None
    plan: "GpuPlan | None"
    arguments: argparse.Namespace
    processes: int


def plan_run(arguments: argparse.Namespace) -> PlannedRun:
    """Resolve a command line, and assign the GPUs; for `train` and `doctor`.

    Raises:
        UserError: Something is unknown or missing, or options conflict.
    """
    from baselines.algorithms.plugins import load_plugins
    from baselines.config.layers import RECIPES, names

    plugins = load_plugins(arguments.plugin)
    if arguments.serve_gpus is not None and arguments.gpus is None:
        raise UserError("--serve-gpus has no effect without --gpus")
    plan = None if arguments.gpus is None else divide(arguments)
    arguments = arguments if plan is None else as_trainer(arguments, plan)
    processes = process_count() if plan is None else len(plan.training)
    track = find_track(arguments)
    if plugins and track is not None and arguments.recipe in names(RECIPES):
        raise UserError(
            f"--plugin cannot be used with --track and the shipped recipe {arguments.recipe}: "
            "entries of such runs are refused; leave it out, or name your own recipe"
        )
    training, origin = _open_run(arguments) if track is None else _track_run(arguments, track)
    training = replace(training, plugins={name: each.sha256 for name, each in plugins.items()})
    return PlannedRun(training, track, origin, plan, arguments, processes)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from baselines.training.tracking import check_trackers

    whole, planned = arguments, plan_run(arguments)
    training, track, plan = planned.training, planned.track, planned.plan
    arguments, processes = planned.arguments, planned.processes
    if is_main():
        refuse_others(training.folder)
    check_trackers(arguments.tracker)
    check_engine(training, arguments, processes)
    check_run(training, processes)
    changed = changed_text(training) if is_main() else None
    notes = (inert_text(training), renamed_text(training, track), unhashed_text(training))
    for said in (*notes, changed):
        if said is not None:
            _note(said)
    make, tuning = partial(_train, arguments=arguments), None
    if track is not None and planned.origin is not None:
        if arguments.tuning is not None:
            raise UserError(
                f"--tuning: nothing is tuned here, the learning rate is {planned.origin}"
            )
        _note(f"learning rate: {training.config.optimization.learning_rate:g}, {planned.origin}")
    elif track is not None:
        shared = None if arguments.tuning is None else Path(arguments.tuning)
        tuning = find_tuning(training, track, arguments.recipe, shared)
        _note(tuning.text(processes))
        if not tuning.left:
            training, found = tuning.settle(training, make)
            _note(found)
            tuning = None
    if plan is not None:
        check_folder(training, sharded=processes > 1, settled=tuning is None)
        if whole.dry_run or whole.gpus > 1:
            return launch(training, whole, plan)
    training, smaller = fit(training, arguments)
    if smaller is not None:
        _note(smaller)
    if arguments.dry_run:
        return _dry_run(training, arguments, tuning)
    if tuning is not None:
        training, found = tuning.settle(training, make)
        _note(found)
    with handlers_kept():
        return _close(training, arguments, _train(training, arguments, ends=True))


def _open_run(arguments: argparse.Namespace) -> "tuple[TrainingRun, None]":
    """The run of a recipe at a scale."""
    from baselines.config.layers import resolve

    if arguments.init is None:
        raise UserError(
            "--init is missing: give the starting weights, or a --track, which pins them"
        )
    init = find_model(arguments.init)
    names, mixture = task_shares(arguments.task or list(init.tasks))
    for name in names:
        task, slash, panel = name.partition("/")
        if slash:
            raise UserError(
                f"--task {name}: training plays a task's stream, not its panels; write --task "
                f"{task}, and --set validation.panel={panel} to be validated on that one"
            )
    if not names:
        raise UserError(
            "--task is missing, such as --task sokoban: the init belongs to no particular task"
        )
    own, of_tasks = split_settings(arguments, names)
    config = resolve(arguments.recipe, arguments.scale or DEFAULT_SCALE, names, [*mixture, *own])
    made_for = with_init_settings(arguments.init, parse_settings(of_tasks), names)
    training = _run_of(arguments, init, config, chosen_tasks(names, of_tasks, made_for))
    if corrects_by_default(training, choose_kind(engine_options(training, arguments)), own):
        _note(f"tis_cap={TIS_CAP:g}, as engine and trainer may differ (--set tis_cap=null: off)")
        training = replace(training, config=config.model_copy(update={"tis_cap": TIS_CAP}))
    return training, None


def _track_run(arguments: argparse.Namespace, track: Track) -> "tuple[TrainingRun, str | None]":
    """The run of a recipe on a track, and the origin of its learning rate (see `track_config`)."""
    own, of_tasks = split_settings(arguments, track.tasks)
    results = None if arguments.results is None else Path(arguments.results)
    config, origin = track_config(track, arguments.recipe, own, results)
    tasks = chosen_tasks(track.tasks, of_tasks, track.task_settings)
    training = _run_of(arguments, track_init(track), config, tasks)
    if leaving := leaves_track(own, of_tasks):
        _note(f"open run, not on track {track.name}: changed {', '.join(leaving)}")
        return training, origin
    return replace(training, track=track.claim), origin


def _run_of(
    arguments: argparse.Namespace,
    init: ModelSource,
    config: "TrainConfig",
    tasks: tuple[Task, ...],
) -> "TrainingRun":
    from baselines.config.run import TrainingRun

    training = TrainingRun(
        recipe=Path(arguments.recipe).stem,
        config=config,
        tasks=tasks,
        init=init,
        seed=arguments.seed,
        folder=_folder(arguments, init),
        trackers=tuple(arguments.tracker),
        stop_on_collapse=arguments.stop_on_collapse,
        env_processes=arguments.env_processes,
    )
    kind = choose_kind(engine_options(training, arguments))
    return replace(
        training,
        weights_dtype=weights_dtype(training, arguments, kind),
        weights_on_gpu=arguments.weights_nccl is not None,
    )


def _train(
    training: "TrainingRun", arguments: argparse.Namespace, ends: bool = False
) -> str | None:
    """Make all remaining updates; return why training stopped early, if it did.

    Args:
        training: The run.
        arguments: Options of the command.
        ends: See `StopSignals`.
    """
    kind = choose_kind(engine_options(training, arguments))
    content = config_text(training, arguments, kind)
    signals = StopSignals(ends)
    try:
        training.folder.mkdir(parents=True, exist_ok=True)
        with locked(training.folder):
            earlier = earlier_lines(training)
            if is_main():
                write_atomically(training.folder / CONFIG, content.encode())
            with _view(training, earlier, title(training, arguments, kind)) as view:
                return asyncio.run(_run(training, arguments, view, signals))
    except OSError as error:
        raise UserError(os_error_text(error, training.folder)) from error
    except (asyncio.CancelledError, KeyboardInterrupt):
        if not is_main():
            raise KeyboardInterrupt from None
        if signals.trainer is not None and signals.trainer.finished:
            how = f"all updates are made: the run in {training.folder} is finished"
        elif (training.folder / "last").exists():
            how = f"the same command resumes from the last checkpoint in {training.folder}"
        else:
            how = "the same command starts over"
        say(f"\nstopped; {how}", file=sys.stderr)
        raise KeyboardInterrupt from None


def _close(training: "TrainingRun", arguments: argparse.Namespace, reason: str | None) -> int:
    """Print how the run ended, in the main process."""
    if not is_main():
        return 0
    if reason is not None:
        say(f"stopped early: {reason}")
    _, of_tasks = split_settings(arguments, [task.info.name for task in training.tasks])
    for line in closing_lines(training, arguments, of_tasks):
        say(line)
    if (last := training.folder / "last").is_dir():
        # The hash distinguishes repetitions of the run on other machines.
        say(f"weights of last: SHA-256 {folder_sha256(last)}")
    say(f"log and checkpoints: {training.folder}")
    return 0


def _note(text: str) -> None:
    """Print a note to stderr, in the main process."""
    if is_main():
        say(text, file=sys.stderr, flush=True)


def _view(
    training: "TrainingRun", earlier: Sequence[Mapping[str, Any]], name: str
) -> contextlib.AbstractContextManager["LiveView | None"]:
    """The live view of the run, in the main process."""
    from baselines.training.terminal_view import LiveView

    if not is_main():
        return contextlib.nullcontext()
    return LiveView(training.config.optimization.updates, earlier, title=name)


async def _run(
    training: "TrainingRun",
    arguments: argparse.Namespace,
    view: "LiveView | None",
    signals: StopSignals,
) -> str | None:
    from baselines.config.run import TrainingCallbacks
    from baselines.training.processes import ended_together, make_accelerator
    from baselines.training.trainer import Trainer

    if process_count() > 1:
        # A killed launcher cannot end its processes.
        end_with(os.getppid())
    accelerator = make_accelerator(training)
    watch = TrainingCallbacks() if view is None else TrainingCallbacks(view.line, view.phase)
    with ended_together(accelerator), signals:
        async with contextlib.AsyncExitStack() as stack:
            engine = older = None
            if has_engine(training, arguments, accelerator):
                engine = await stack.enter_async_context(make_engine(training, arguments))
                if training.config.sampling.cross_policy is not None:
                    older = await stack.enter_async_context(make_engine(training, arguments))
            trainer = Trainer(training, engine, accelerator, watch, older)
            signals.trainer = trainer
            reason = await trainer.train()
    if accelerator.num_processes > 1:
        accelerator.end_training()
    return reason


def _folder(arguments: argparse.Namespace, init: ModelSource) -> Path:
    if arguments.out:
        return Path(arguments.out)
    name = init.identity.name.replace("/", "-")
    where = arguments.track or f"{name}-{Path(arguments.scale or DEFAULT_SCALE).stem}"
    folder = f"train-{Path(arguments.recipe).stem}-{where}-s{arguments.seed}"
    chosen = [*arguments.set, *template_setting(arguments)]
    if chosen:  # else all runs of a sweep would have the same folder
        folder += f"-{sha256_text(' '.join(sorted(chosen)))[:8]}"
    return Path("runs") / folder


def _dry_run(training: "TrainingRun", arguments: argparse.Namespace, tuning: Tuning | None) -> int:
    from baselines.learning.sharding import is_sharded
    from baselines.training.dry_run import computed, measure
    from baselines.training.processes import make_accelerator

    say(yaml.safe_dump(training.configuration, sort_keys=False), end="")
    accelerator = make_accelerator(training)
    # Before loading anything that may not fit.
    layout = replace(launched(training, arguments), sharded=is_sharded(accelerator))
    say(f"\n{computed(training, layout)}", flush=True)

    async def measured() -> str:
        async with contextlib.AsyncExitStack() as stack:
            engine = None
            if has_engine(training, arguments, accelerator):
                engine = await stack.enter_async_context(make_engine(training, arguments))
            first = 0.0 if tuning is None else tuning.updates_left(training)
            estimate = await measure(training, engine, accelerator, first)
            return estimate.text()

    say(asyncio.run(measured()))
    return 0
