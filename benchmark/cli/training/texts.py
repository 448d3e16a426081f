"""Texts of `arlarena-bench train` about a run: its title, how to repeat it, how it ended."""

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import yaml

from benchmark.cli.arguments.training import DEFAULT_SCALE
from benchmark.cli.training.processes import process_count
from benchmark.commands_of_entry import eval_words
from benchmark.evaluation.evaluate import recorded_command
from benchmark.logs.curves import run_curves_of
from benchmark.logs.lines import Validation
from benchmark.logs.training_log import LOG, TrainingLog, read_training_log
from benchmark.models import ModelIdentity
from benchmark.stability.collapse import halved_on
from benchmark.stability.run_end import collapsed_at
from benchmark.stats.formatting import rate_text
from benchmark.versions import versions
from tasks.registry import task_word
from tasks.texts import counted, printable

if TYPE_CHECKING:
    from baselines.config.run import TrainingRun

_REPEAT = (
    "To repeat the run, give the command again with another --out. With --dry-run it prints its",
    "settings: they, and the hash of the init, must match those listed here. Server addresses",
    "(URL) and the beginnings of absolute paths (...) are not recorded: fill them in.",
)


def title(training: "TrainingRun", arguments: argparse.Namespace, engine: str) -> str:
    """Describe the run on one line.

    Args:
        training: The run.
        arguments: Options of the command.
        engine: The engine's kind.
    """
    facts = [
        f"{training.recipe} on {' and '.join(task.info.name for task in training.tasks)} from "
        f"{training.init.identity.name}",
        _place(arguments),
        f"seed {training.seed}",
        f"engine {engine}",
    ]
    count = process_count()
    facts += [f"{count} processes"] if count > 1 else []
    updates = training.config.optimization.updates
    facts.append(counted(updates, "update"))
    return f"{', '.join(facts)}: {training.folder}"


def config_text(training: "TrainingRun", arguments: argparse.Namespace, engine: str) -> str:
    """The resolved configuration as YAML, under comments on how to repeat the run.

    Args:
        training: The run.
        arguments: Options of the command.
        engine: The engine's kind.
    """
    command = shlex.join(recorded_command(sys.argv))
    found = ", ".join(f"{name} {version}" for name, version in versions().items())
    head = [
        f"command: {command}",
        f"recipe: {arguments.recipe}",
        _pinned(training, arguments),
        f"init: {_identity(training.init.identity)}",
        *(f"plug-in: {name}, SHA-256 {sha256}" for name, sha256 in training.plugins.items()),
        f"seed: {training.seed}",
        f"engine: {engine}",
        f"processes: {process_count()}",
        f"versions: {found}",
        *_REPEAT,
    ]
    # The contents of a comment must not end it.
    comments = "".join(f"# {printable(line)}\n" for line in head)
    return comments + yaml.safe_dump(training.configuration, sort_keys=False)


def closing_lines(
    training: "TrainingRun", arguments: argparse.Namespace, of_tasks: Sequence[str]
) -> list[str]:
    """How a run ended: its last and best success next to the init's, and how to evaluate its model.

    Args:
        training: The run, whose log is in its folder.
        arguments: Options of the command.
        of_tasks: The task settings among them.

    Raises:
        UserError: The log cannot be read.
    """
    validations: dict[int, list[Validation]] = {}
    log = read_training_log(training.folder / LOG)
    for line in log.validations:
        validations.setdefault(line.update, []).append(line)
    best, last = _best(validations), max(validations, default=0)
    lines = []
    if best is None:
        lines.append("no validation ran, so the log has no success rate")
    else:
        what = f"last of {counted(len(validations), 'validation')}"
        what += ", the best one" if best == last else ""
        what = what if best else "no validation was better than the init's; last"
        lines.append(_compared(what, last, validations) + _loss(log))
    if best and best != last:
        lines.append(_compared("best", best, {best: validations[best]}))
        if (training.folder / "best").is_dir():
            lines[-1] += "; it is in best/, chosen on this panel: report the last weights"
    if (training.folder / "last").is_dir():
        command = _eval_command(training, arguments, of_tasks, "last")
        lines.append(f"evaluate the last weights: {shlex.join(command)}")
    return lines


def _place(arguments: argparse.Namespace) -> str:
    """The track or scale of the run, for people."""
    if arguments.track is not None:
        return f"track {arguments.track}"
    return f"scale {arguments.scale or DEFAULT_SCALE}"


def _pinned(training: "TrainingRun", arguments: argparse.Namespace) -> str:
    """The track or scale of the run, with the track's hash unless the run is open."""
    if training.track is not None:
        return f"track: {training.track.name}, SHA-256 {training.track.sha256}"
    return _place(arguments).replace(" ", ": ", 1) + (", open" if arguments.track else "")


def _identity(model: ModelIdentity) -> str:
    facts = [model.name]
    facts += [f"revision {model.revision}"] if model.revision else []
    facts += [f"SHA-256 {model.sha256}"] if model.sha256 else []
    return ", ".join(facts)


def _best(validations: Mapping[int, Sequence[Validation]]) -> int | None:
    """The update of the best model: the first with the highest mean success."""
    means = {at: sum(line.success for line in of) / len(of) for at, of in validations.items()}
    return max(means, key=lambda at: (means[at], -at), default=None)


def _compared(what: str, update: int, validations: Mapping[int, Sequence[Validation]]) -> str:
    """Success after an update, with its interval, next to the init's."""
    before = {line.panel: line for line in validations.get(0, ())}
    rates = [
        f"{line.panel} {_rate(line)}"
        + (f" (init {_rate(before[line.panel])})" if update and line.panel in before else "")
        for line in validations[update]
    ]
    return f"{what}, after update {update}: success {', '.join(rates)}"


def _loss(log: TrainingLog) -> str:
    """A collapse or halving of a run, as the end of a line; empty without either."""
    if (update := collapsed_at(log)) is not None:
        return f"; collapsed at update {update:,}"
    late = [panel.partition(".")[0] or "the mean" for panel in halved_on(run_curves_of(log))]
    on = f" on {', '.join(late)}" if log.several_tasks else ""
    return f"; ended at half of its best or below{on}" if late else ""


def _rate(line: Validation) -> str:
    return rate_text(line.success, line.wilson_low, line.wilson_high)


def _eval_command(
    training: "TrainingRun", arguments: argparse.Namespace, of_tasks: Sequence[str], model: str
) -> tuple[str, ...]:
    """The command that evaluates on the validation panels, under the same protocol."""
    from baselines.training.validation import (
        chosen_settings,
        validation_options,
        validation_plan,
    )

    plan = validation_plan(training.config, training.tasks)
    protocols = [planned.protocol for planned in plan.panels]
    panels = [f"{task_word(one.task)}/{one.panel}" for one in protocols]
    options: list[str] = []
    # Settings of a track are not the user's.
    settings = list(dict.fromkeys([*chosen_settings(plan), *of_tasks]))
    for name, values in (("--set", settings), ("--data", arguments.data)):
        options += [part for value in values for part in (name, value)]
    options += validation_options(plan, training.config.validation.model_dump())
    return eval_words(str(training.folder / model), panels, options)
