"""From logs of any trainer to the recipes that are compared: which runs are seeds of one recipe.

Our own logs say so themselves. Logs of other trainers do not: each is a recipe of its own, unless
the user names the logs that are seeds of one.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from benchmark.foreign_logs import Format, Found, Meaning, Reading, find, readings
from benchmark.run_curves import RunCurves, run_curves_of
from benchmark.stability.seeds import RecipeStability, recipe_stability
from benchmark.training_curves import curves_of
from benchmark.training_log import LOG, TrainingLog, read_training_log
from tasks.errors import UserError, near

By = Literal["recipe", "run"]


@dataclass(frozen=True, slots=True)
class LoggedRun:
    """One run with the log that it was read from.

    Attributes:
        log: The log's path.
        reading: What was read.
    """

    log: Path
    reading: Reading

    @property
    def run(self) -> RunCurves:
        """Its curves."""
        return self.reading.run


@dataclass(frozen=True, slots=True)
class Compared:
    """One row of the comparison: seeds of one recipe, or a single run.

    Attributes:
        label: What tells it from the others; of a user's making.
        runs: Its runs, in the order of their seeds.
        stability: What they come to; its `runs` are in the same order.
    """

    label: str
    runs: tuple[LoggedRun, ...]
    stability: RecipeStability


@dataclass(frozen=True, slots=True)
class Choices:
    """How logs are read and sorted.

    Attributes:
        format: Format of all logs; by their content if None.
        meanings: What fields mean by the user's word.
        success: Name of the curve that counts as success; of the only validation if None.
        by: `recipe` makes one row of our own logs that differ in nothing but the seed, `run` one
            of every log.
    """

    format: Format | None = None
    meanings: Mapping[str, Meaning] | None = None
    success: str | None = None
    by: By = "recipe"


def compared(
    logs: Sequence[Path], named: Sequence[tuple[str, Sequence[Path]]], choices: Choices
) -> list[Compared]:
    """Read logs and compute the stability of every recipe.

    Args:
        logs: Logs whose recipe is their own word, or each a recipe.
        named: Names of recipes, each with the logs of its seeds.
        choices: How they are read and sorted.

    Returns:
        Recipes: first those of our own logs, then single foreign runs, then the named ones.

    Raises:
        UserError: A log cannot be read, stands there twice or lacks the success curve, seeds of one
            recipe are none, or the user's words fit no log.
    """
    if not (logs or named):
        raise UserError("no logs; name at least one")
    found = [find(path, choices.format) for path in logs]
    found_named = [(name, [find(path, choices.format) for path in paths]) for name, paths in named]
    _check_given_once([*found, *(one for _, founds in found_named for one in founds)])
    own, foreign = _read(found, choices)
    groups: list[tuple[str, list[LoggedRun]]] = []
    if own:
        for curve in curves_of(own, choices.by):
            _check_one_protocol(curve.runs)
            groups.append((curve.label, [_own_run(log) for log in curve.runs]))
    groups += [(label, [one]) for label, one in _labelled(foreign)]
    for name, founds in found_named:
        own, foreign = _read(founds, choices)
        _check_one_protocol(own)
        runs = [*map(_own_run, own), *foreign]
        groups.append((name, [_of_recipe(name, one) for one in runs]))
    _check_used(choices.meanings or {}, [one for _, runs in groups for one in runs])
    return [_compared(label, runs, choices.success) for label, runs in _with_own_labels(groups)]


def _read(founds: Sequence[Found], choices: Choices) -> tuple[list[TrainingLog], list[LoggedRun]]:
    """Our own logs, and the runs of all others."""
    own, foreign = [], []
    for found in founds:
        path = found.files[0]
        if found.format == "arlarena-bench":
            own.append(read_training_log(path, allow_torn=True))
            continue
        for one in readings(found, choices.meanings or {}):
            if not one.run.curves:
                fields = ", ".join(map(repr, one.run.unknown[:8])) or "none"
                raise UserError(
                    f"{path} holds no number that is known; its fields are {fields}: say what "
                    "they are with --map"
                )
            foreign.append(LoggedRun(path, one))
    return own, foreign


def _own_run(log: TrainingLog) -> LoggedRun:
    run = run_curves_of(log)
    name = log.path.resolve().parent.name if log.path.name == LOG else log.path.stem
    notes = ("the last line has no end and was passed over",) if log.torn else ()
    return LoggedRun(log.path, Reading(replace(run, name=name), {}, {}, notes))


def _of_recipe(name: str, one: LoggedRun) -> LoggedRun:
    return replace(one, reading=replace(one.reading, run=replace(one.run, recipe=name)))


def _compared(label: str, runs: Sequence[LoggedRun], success: str | None) -> Compared:
    if success is not None:
        for one in runs:
            if success not in one.run.curves:
                known = tuple(one.run.curves)
                raise UserError(f"{one.log} has no curve {success!r}{near(success, known)}")
    # The order of `recipe_stability`.
    ordered = sorted(runs, key=lambda one: (one.run.seed is None, one.run.seed or 0, one.run.name))
    stability = recipe_stability([one.run for one in ordered], success)
    return Compared(label, tuple(ordered), stability)


def _labelled(runs: Sequence[LoggedRun]) -> list[tuple[str, LoggedRun]]:
    """Names of single runs, with the folder of their log where it takes that to differ."""
    ways: tuple[Callable[[LoggedRun], str], ...] = (
        lambda one: one.run.name,
        lambda one: f"{one.log.resolve().parent.name}/{one.run.name}",
        lambda one: f"{one.log}: {one.run.name}",
    )
    names: list[str] = []
    for way in ways:
        names = [way(one) for one in runs]
        if len(set(names)) == len(names):
            break
    return list(zip(names, runs, strict=True))


def _with_own_labels(
    groups: Iterable[tuple[str, list[LoggedRun]]],
) -> Iterable[tuple[str, list[LoggedRun]]]:
    seen: Counter[str] = Counter()
    for label, runs in groups:
        seen[label] += 1
        yield (f"{label} ({seen[label]})" if seen[label] > 1 else label), runs


def _check_given_once(founds: Sequence[Found]) -> None:
    places = [found.files[0].resolve() for found in founds]
    for number, place in enumerate(places):
        if place in places[:number]:
            raise UserError(f"{founds[number].files[0]} is given twice; give every log once")


def _check_one_protocol(logs: Sequence[TrainingLog]) -> None:
    """Rates of different protocols are not seeds of one."""
    seen: dict[str, tuple[str, Path]] = {}
    for log in logs:
        for line in log.validations:
            fingerprint, path = seen.setdefault(line.panel, (line.fingerprint, log.path))
            if fingerprint != line.fingerprint:
                raise UserError(
                    f"{path} and {log.path} validated {line.panel} under different protocols; "
                    "compare them as recipes, with --by run"
                )


def _check_used(meanings: Mapping[str, Meaning], runs: Sequence[LoggedRun]) -> None:
    for field in meanings:
        if not any(field in one.reading.read_as for one in runs):
            there = tuple({name for one in runs for name in one.run.unknown})
            raise UserError(f"--map: no log has numbers under {field!r}{near(field, there)}")
