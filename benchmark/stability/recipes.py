"""Groups logs of any trainer into recipes: which runs are seeds of one recipe.

Our own logs state their recipe. Logs of other trainers do not: each is a separate recipe unless the
user names the logs that are seeds of one.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

from benchmark.logs.curves import RunCurves, run_curves_of
from benchmark.logs.foreign import Format, Found, Meaning, Reading, find, readings
from benchmark.logs.foreign.detect import PACKED
from benchmark.logs.groups import curves_of
from benchmark.logs.lines import Start
from benchmark.logs.training_log import LOG, TrainingLog, read_training_log
from benchmark.stability.comparison import RecipeComparison, comparison_of
from benchmark.stability.run_end import divergence, early_stop
from benchmark.stability.runs import RunStability
from benchmark.stability.seeds import RecipeStability, recipe_stability, with_early_stops
from tasks.errors import UserError, suggestion

By = Literal["recipe", "run"]
REFERENCE: Final = "grpo"
"""The reference recipe of a comparison that includes it."""


@dataclass(frozen=True, slots=True)
class LoggedRun:
    """One run with its log.

    Attributes:
        log: The log's path.
        reading: The curves and notes read from it.
        task: The task; empty if the log does not state it.
        protocols: Protocol fingerprints by validation panel, and that of training under an empty
            name; empty if the log has none.
        ended: Update after which it was stopped early; None if it was not, or this is unknown.
        start: First line, for our own logs.
    """

    log: Path
    reading: Reading
    task: str = ""
    protocols: Mapping[str, str] = field(default_factory=dict)
    ended: int | None = None
    start: Start | None = None

    @property
    def run(self) -> RunCurves:
        """Its curves."""
        return self.reading.run


@dataclass(frozen=True, slots=True)
class Compared:
    """One row of the comparison: seeds of one recipe, or a single run.

    Attributes:
        label: Its distinguishing label; user-provided text.
        runs: Its runs, in the order of their seeds.
        stability: Their stability; its `runs` are in the same order.
    """

    label: str
    runs: tuple[LoggedRun, ...]
    stability: RecipeStability


@dataclass(frozen=True, slots=True)
class Comparisons:
    """Comparisons of recipes with each other.

    Attributes:
        each: One for every panel on which at least two recipes were validated, one of them with
            several seeds; labels are those of the rows.
        together: One over all panels, with the recipes' own names; None unless there are several
            panels with the same recipes on each.
        left_out: Labels of the other rows, with the reason.
    """

    each: tuple[RecipeComparison, ...] = ()
    together: RecipeComparison | None = None
    left_out: tuple[tuple[str, str], ...] = ()

    @property
    def all(self) -> tuple[RecipeComparison, ...]:
        """All of them."""
        return self.each if self.together is None else (*self.each, self.together)


@dataclass(frozen=True, slots=True)
class LogReadingOptions:
    """How logs are read and grouped.

    Attributes:
        format: Format of all logs; None to detect it.
        meanings: Meanings of fields given by the user.
        success: Name of the curve that counts as success; None for that of the only validation.
        by: `recipe` makes one row of our own logs that differ only in the seed, `run` makes one of
            every log.
    """

    format: Format | None = None
    meanings: Mapping[str, Meaning] | None = None
    success: str | None = None
    by: By = "recipe"


def compared(
    logs: Sequence[Path], named: Sequence[tuple[str, Sequence[Path]]], choices: LogReadingOptions
) -> list[Compared]:
    """Read logs and compute the stability of every recipe.

    Args:
        logs: Logs that state their recipe, or are separate recipes.
        named: Names of recipes, each with the logs of its seeds.
        choices: How they are read and grouped.

    Returns:
        Recipes: first those of our own logs, then single foreign runs, then the named ones.

    Raises:
        UserError: A log cannot be read, is given twice or lacks the success curve, logs given as
            seeds of one recipe are not, or a field named by the user is in no log.
    """
    if not (logs or named):
        raise UserError("no logs; give at least one")
    found = _found(logs, choices.format)
    found_named = [(name, _found(paths, choices.format)) for name, paths in named]
    _check_given_once([*found, *(one for _, founds in found_named for one in founds)])
    own, foreign = _read(found, choices)
    groups: list[tuple[str, list[LoggedRun]]] = []
    if own:
        for curve in curves_of(own, choices.by):
            _check_one_protocol(curve.runs)
            groups.append((curve.label, [_own_run(log) for log in curve.runs]))
    groups += [(label, [one]) for label, one in _labeled(foreign)]
    for name, founds in found_named:
        own, foreign = _read(founds, choices)
        _check_one_protocol(own)
        runs = [*map(_own_run, own), *foreign]
        groups.append((name, [_of_recipe(name, one) for one in runs]))
    _check_used(choices.meanings or {}, [one for _, runs in groups for one in runs])
    return [_compared(label, runs, choices.success) for label, runs in _with_own_labels(groups)]


def comparisons_of(rows: Sequence[Compared]) -> Comparisons:
    """Compare recipes with each other, by the final success of every seed.

    Only rates on one panel under one protocol are compared. If logs do not state their protocol, as
    with other trainers, the panel's name has to suffice. The first recipe of a comparison is
    `REFERENCE`, or else the first one given.

    Args:
        rows: The rows to compare.

    Returns:
        The comparisons; empty unless there are two rows, one of them with several seeds.
    """
    if len(rows) < 2 or all(len(row.runs) < 2 for row in rows):
        return Comparisons()
    grounds: dict[tuple[str, ...], list[Compared]] = {}
    left_out = []
    for row in rows:
        places = {_ground(*pair) for pair in zip(row.runs, row.stability.runs, strict=True)}
        if row.stability.worst_seed is None:
            left_out.append((row.label, "has a seed without a final success"))
        elif len(places) > 1:
            left_out.append((row.label, "has seeds of several protocols"))
        else:
            grounds.setdefault(places.pop(), []).append(row)
    several = {}
    for place, group in grounds.items():
        if len(group) == 1:
            left_out.append((group[0].label, "has no other recipe with its panel or protocol"))
        elif all(len(row.runs) == 1 for row in group):
            why = "has a single seed, like all others with its panel and protocol"
            left_out += [(row.label, why) for row in group]
        else:
            several[place] = sorted(group, key=lambda row: row.runs[0].run.recipe != REFERENCE)
    each = tuple(
        comparison_of({row.label: {_shown(place): _finals(row)} for row in group})
        for place, group in several.items()
    )
    return Comparisons(each, _together(several), tuple(left_out))


def _together(grounds: Mapping[tuple[str, ...], Sequence[Compared]]) -> RecipeComparison | None:
    """Compare on all panels at once, if each has the same recipes, each once."""
    names = [sorted(row.runs[0].run.recipe or "" for row in group) for group in grounds.values()]
    if len(names) < 2 or any(other != names[0] for other in names):
        return None
    shown = [_shown(place) for place in grounds]
    if len(set(names[0])) < len(names[0]) or len(set(shown)) < len(shown):
        return None
    scores: dict[str, dict[str, list[float]]] = {}
    for place, group in grounds.items():
        for row in group:
            scores.setdefault(row.runs[0].run.recipe or "", {})[_shown(place)] = _finals(row)
    return comparison_of(scores)


def _ground(one: LoggedRun, run: RunStability) -> tuple[str, str, str]:
    """Where a run's success was measured: task, panel (or curve) and protocol."""
    name, _, panel = (run.success_curve or "").partition("@")
    if name != "validation/success":
        return one.task, name, one.protocols.get("", "")
    if not panel:
        ours = [known for known in one.protocols if known]
        told = [meaning.panel for meaning in one.reading.read_as.values() if meaning.name == name]
        panel = next(iter([*ours, *told]), "")
    return one.task, panel, one.protocols.get(panel, "")


def _shown(ground: tuple[str, ...]) -> str:
    return "/".join(part for part in ground[:2] if part) or "validation"


def _finals(row: Compared) -> list[float]:
    finals = [run.final_success for run in row.stability.runs]
    return [final for final in finals if final is not None]


def _found(paths: Sequence[Path], chosen: Format | None) -> list[Found]:
    return [find(path, chosen) for path in paths]


def _own_log(path: Path) -> TrainingLog:
    """Read one of our own logs; a packed one gets the name of its unpacked file."""
    log = read_training_log(path, allow_torn=True)
    return replace(log, path=path.with_suffix("")) if path.name.endswith(PACKED) else log


def _read(
    founds: Sequence[Found], choices: LogReadingOptions
) -> tuple[list[TrainingLog], list[LoggedRun]]:
    """Our own logs, and the runs of all others."""
    own, foreign = [], []
    for found in founds:
        path = found.files[0]
        if found.format == "arlarena-bench":
            own.append(_own_log(path))
            continue
        for one in readings(found, choices.meanings or {}):
            if not one.run.curves:
                fields = ", ".join(map(repr, one.run.unknown[:8])) or "none"
                raise UserError(
                    f"{path} has no known metric; its fields are {fields}: map them with --map"
                )
            foreign.append(LoggedRun(path, one))
    return own, foreign


def _own_run(log: TrainingLog) -> LoggedRun:
    run = run_curves_of(log)
    name = log.path.resolve().parent.name if log.path.name == LOG else log.path.stem
    notes = ("the last line is incomplete and was skipped",) if log.torn else ()
    ended, last = None, log.updates[-1].update if log.updates else 0
    if (reason := divergence(log)) is not None:
        ended = last
        notes = (*notes, f"ends early, after update {ended}, which counts as a collapse: {reason}")
    elif (reason := early_stop(log)) is not None:
        notes = (
            *notes,
            f"goes to update {last} so far; if --stop-on-collapse has ended it, it counts as "
            f"collapsed in an entry: {reason}",
        )
    protocols = {line.panel: line.fingerprint for line in log.validations}
    return LoggedRun(
        log.path,
        Reading(replace(run, name=name), {}, {}, notes),
        log.start.task,
        protocols | {"": log.start.fingerprint},
        ended,
        log.start,
    )


def _of_recipe(name: str, one: LoggedRun) -> LoggedRun:
    return replace(one, reading=replace(one.reading, run=replace(one.run, recipe=name)))


def _compared(label: str, runs: Sequence[LoggedRun], success: str | None) -> Compared:
    if success is not None:
        for one in runs:
            if success not in one.run.curves:
                guess = suggestion(success, tuple(one.run.curves))
                if not guess.startswith("; did"):  # otherwise it would list all sixty names
                    rates = [name for name in one.run.curves if "success" in name]
                    guess = f"; of success it has {', '.join(rates) or 'none'}"
                raise UserError(f"{one.log} has no curve {success!r}{guess}")
    # The order of `recipe_stability`.
    ordered = sorted(runs, key=lambda one: (one.run.seed is None, one.run.seed or 0, one.run.name))
    stability = recipe_stability(
        [one.run for one in ordered],
        success,
        resolutions=[one.reading.resolution for one in ordered],
    )
    stability = with_early_stops(stability, [one.ended for one in ordered])
    return Compared(label, tuple(ordered), stability)


def _labeled(runs: Sequence[LoggedRun]) -> list[tuple[str, LoggedRun]]:
    """Names of single runs, with the folder of their log if needed to distinguish them."""
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
            raise UserError(f"{founds[number].files[0]} is given twice; give each log once")


def _check_one_protocol(logs: Sequence[TrainingLog]) -> None:
    """Check that runs with different protocols are not seeds of one recipe."""
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
    for foreign in meanings:
        if not any(foreign in one.reading.read_as for one in runs):
            there = tuple({name for one in runs for name in one.run.unknown})
            raise UserError(f"--map: no log has values for {foreign!r}{suggestion(foreign, there)}")
