"""Checks training logs for edits, and for belonging to another run.

Whoever invents counts that agree with each other, for a run as long as the configuration says, is
not seen by any program: a log says what its author says (the badge is called `logs`, not `proven`).

Logs of other trainers name no protocol, no init, no seed, and no length that was intended. Nothing
can be compared with what was evaluated, so stability from them has its own badge and columns.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from benchmark.logs.curves import RunCurves, run_curves_of
from benchmark.logs.foreign import Reading
from benchmark.logs.training_log import TrainingLog
from benchmark.models import same_weights
from benchmark.stability.runs import run_stability
from benchmark.stability.seeds import recipe_stability
from benchmark.submissions.checks.context import Context
from benchmark.submissions.checks.log_counts import (
    AS_WRITTEN,
    FRACTIONS,
    check_counts,
    numbers_of,
)
from benchmark.submissions.checks.log_panels import check_choice, check_panels
from benchmark.submissions.checks.log_schedule import check_schedule, check_settings
from benchmark.submissions.format.findings import Finding
from benchmark.submissions.format.schema import SUBMISSION
from benchmark.submissions.reading.entry import Entry, ReadCheckpoint
from tasks.errors import UserError

Hashes = npt.NDArray[np.int64]
"""(k,) hashes of numbers with their names, the same in one process alone."""
COPIED_SHARE: Final = 0.5
"""Of the updates of a log: more than that with the numbers of another log are copies. The first
updates of recipes with one seed and one init can be equal."""
EQUAL_NUMBERS: Final = 0.8
"""Of the numbers of an update: from that share on it is that of the other log."""
MAX_PANELS: Final = 32
"""Of one log: every one is looked for among all lines."""
DIGITS: Final = 5
"""First digits of a number that two models, or two runs, do not have in common by chance."""
FEWEST_VALIDATIONS: Final = 2
"""Validations after the init's that must be equal in two logs before it counts as a copy."""
MOST_SEEDS: Final = 8
"""That a note lists."""
FEWEST_POINTS: Final = 2
"""Validations of a foreign log without which nothing can be said of stability."""


def check_logs(entry: Entry, context: Context) -> list[Finding]:
    """Check logs against themselves, each other, and what was evaluated."""
    findings: list[Finding] = []
    logs = [(point, point.log) for point in entry.checkpoints if point.log is not None]
    for point, log in logs:
        findings += _check_identity(entry, point, log)
        findings += check_counts(log)
        if len(log.panels) > MAX_PANELS:
            problem = f"have {len(log.panels)} panels, but at most {MAX_PANELS} are read"
            findings.append(Finding(str(log.path), "validations", problem, AS_WRITTEN))
            continue
        findings += check_schedule(log)
        findings += check_settings(log)
        findings += check_panels(point, log)
    findings += _check_seeds(entry, [log for _, log in logs])
    findings += check_choice([each for each in logs if len(each[1].panels) <= MAX_PANELS])
    if note := gaps_of([point.checkpoint.seed for point in entry.checkpoints]):
        context.notes.append(note)
    if logs and not findings:
        try:
            recipe_stability([run_curves_of(log) for _, log in logs], resamples=1)
        except UserError as error:
            findings.append(Finding(SUBMISSION, "checkpoints", str(error), AS_WRITTEN))
    return findings


def check_foreign_logs(entry: Entry, _context: Context) -> Iterator[Finding]:
    """Check that logs of other trainers tell of success, each of its own training."""
    readings = [point.foreign for point in entry.checkpoints if point.foreign is not None]
    if not readings:
        return
    without = [p.checkpoint.seed for p in entry.checkpoints if p.foreign is None]
    kinds = sorted({reading.run.source for reading in readings})
    if without or len(kinds) > 1:
        problem = f"seeds {without} have no log of {kinds[0]}" if without else (
            f"there are logs of {' and '.join(kinds)}"
        )  # fmt: skip
        fix = "send one trainer's logs for every seed, or none: a selection would mislead"
        yield Finding(SUBMISSION, "checkpoints", problem, fix)
    for reading in readings:
        yield from _check_success(reading)
    for first, other in combinations([reading.run for reading in readings], 2):
        if equal := _equal_curves(first, other):
            problem = f"{equal} updates have the same numbers as {first.name}"
            yield Finding(other.name, "", problem, "send the log of each training")
    try:
        recipe_stability([reading.run for reading in readings], resamples=1)
    except UserError as error:
        fix = "map the same validation of every log (--map validation/success@PANEL=FIELD)"
        yield Finding(SUBMISSION, "checkpoints", str(error), fix)


def _check_success(reading: Reading) -> Iterator[Finding]:
    count = run_stability(reading.run).evaluations
    if count < FEWEST_POINTS:
        what = "a single validation" if count else "no validation success"
        problem = f"has {what}, from which no stability can be computed"
        fix = "name the field with --map validation/success=FIELD, or leave the logs out"
        yield Finding(reading.run.name, "", problem, fix)


def _check_identity(entry: Entry, point: ReadCheckpoint, log: TrainingLog) -> Iterator[Finding]:
    """Check that a log is of the training that the submission speaks of."""
    file, start = str(log.path), log.start
    if start.seed != point.checkpoint.seed:
        problem = f"has seed {start.seed}, but the checkpoint has seed {point.checkpoint.seed}"
        yield Finding(file, "line 1, seed", problem, "send the checkpoint's own log")
    configured = start.configuration.get("seed", start.seed)
    if configured != start.seed:
        problem = f"the seed is {configured!r}, the log's own {start.seed}"
        yield Finding(file, "line 1, configuration", problem, AS_WRITTEN)
    init = entry.submission.init
    if init is not None and init != start.init and not same_weights(init, start.init):
        problem = f"starts from {start.init.text}, but {SUBMISSION} says {init.text}"
        yield Finding(file, "line 1, init", problem, "state the init that training started from")
    recipe = entry.submission.method.recipe
    if recipe != start.recipe:
        problem = f"has the recipe {start.recipe}, but {SUBMISSION} says {recipe}"
        yield Finding(file, "line 1, recipe", problem, "use the recipe's name in the log")
    played = sorted({task for task, _ in point.panels})
    if not set(start.task.split("+")).intersection(played):
        problem = f"trains on {start.task}, but the runs are on {', '.join(played)}"
        yield Finding(
            file, "line 1, task", problem, "send the log of a training run on these tasks"
        )


def _check_seeds(entry: Entry, logs: Sequence[TrainingLog]) -> Iterator[Finding]:
    """Check that logs are of seeds of one recipe, each of its own, and that none is left out."""
    for first, other in pairwise(logs):
        if _settings(first) != _settings(other):
            problem = f"has other settings than {first.path}"
            fix = "send seeds of one recipe with the same configuration"
            yield Finding(str(other.path), "configuration", problem, fix)
        if first.start.plugins != other.start.plugins:
            problem = f"was trained with other plug-ins, or other code of them, than {first.path}"
            fix = "send seeds that were trained with the same code"
            yield Finding(str(other.path), "line 1, plugins", problem, fix)
    traces = [(log, traced(log)) for log in logs]
    for (first, theirs), (other, mine) in combinations(traces, 2):
        if equal := equal_updates(mine, all_hashes(theirs)):
            problem = f"{equal} updates have the same numbers as {first.path}"
            yield Finding(str(other.path), "", problem, "send the log of each training")
    for first, other in combinations(logs, 2):
        if equal := equal_validations(first, other):
            problem = f"{equal} validations after the init's are those of {first.path}"
            yield Finding(str(other.path), "validations", problem, "send the log of each training")
    missing = [point.checkpoint.seed for point in entry.checkpoints if point.log is None]
    if logs and missing:
        problem = f"seeds {missing} have no training log, but others do"
        fix = "send all logs or none: selected seeds do not measure stability"
        yield Finding(SUBMISSION, "checkpoints", problem, fix)


def gaps_of(seeds: Sequence[int]) -> str | None:
    """What is said of an entry whose seeds are not the first ones; None if they are."""
    given = sorted(set(seeds))
    if given == list(range(len(given))):
        return None
    listed = ", ".join(map(str, given[:MOST_SEEDS])) + ", ..." * (len(given) > MOST_SEEDS)
    first = "0" if len(given) == 1 else f"0 to {len(given) - 1}"
    return f"the seeds are {listed}, not {first}; reviewers may ask about others"


def first_digits(number: float) -> str:
    """What a number is to `DIGITS` digits."""
    return f"{number:.{DIGITS}g}"


def traced(log: TrainingLog) -> list[Hashes]:
    """Of each update a hash of every number, where it has enough of them to be told apart by.

    Counts, and a success rate that is one, are equal in many logs; `FRACTIONS` other numbers are
    not.
    """
    traces = []
    for line in log.updates:
        numbers = {name: float(value) for name, value in numbers_of(line).items()}
        fractions = {n: value for n, value in numbers.items() if not value.is_integer()}
        if len(fractions) >= FRACTIONS:
            hashes = [hash((name, first_digits(value))) for name, value in fractions.items()]
            traces.append(np.array(hashes, np.int64))
    return traces


def traced_curves(run: RunCurves) -> list[Hashes]:
    """The same of another trainer's log."""
    rows: dict[int, list[tuple[str, float]]] = {}
    for name, points in run.curves.items():
        finite = points.finite
        for step, value in zip(finite.steps.tolist(), finite.values.tolist(), strict=True):
            if not float(value).is_integer():
                rows.setdefault(step, []).append((name, value))
    return [
        np.array([hash((name, first_digits(value))) for name, value in row], np.int64)
        for row in rows.values()
        if len(row) >= FRACTIONS
    ]


def _equal_curves(one: RunCurves, other: RunCurves) -> int:
    """How many updates two logs have in common, if these are most of them, or all numbers are."""
    if equal := equal_updates(traced_curves(other), all_hashes(traced_curves(one))):
        return equal
    same = one.curves.keys() == other.curves.keys() and all(
        np.array_equal(points.steps, other.curves[name].steps)
        and np.array_equal(points.values, other.curves[name].values, equal_nan=True)
        for name, points in one.curves.items()
    )
    return max((points.steps.size for points in one.curves.values()), default=0) if same else 0


def all_hashes(traces: Sequence[Hashes]) -> Hashes:
    """All hashes of a log, each once."""
    return np.unique(np.concatenate(traces)) if traces else np.zeros(0, np.int64)


def equal_updates(mine: Sequence[Hashes], theirs: Hashes, updates: int | None = None) -> int:
    """How many updates of a log say what updates of another log do, if these are most of them.

    Args:
        mine: Of `traced`.
        theirs: `all_hashes` of the other one.
        updates: Of so many they must be most; None for those of `mine`.

    Returns:
        Their number, those with `EQUAL_NUMBERS` of their numbers in the other log; 0 if it is no
        more than can be by chance.
    """
    equal = sum(float(np.isin(numbers, theirs).mean()) >= EQUAL_NUMBERS for numbers in mine)
    return equal if equal > COPIED_SHARE * (len(mine) if updates is None else updates) else 0


def equal_validations(one: TrainingLog, other: TrainingLog) -> int:
    """How many validations two training runs have in common, if these are most of them.

    Two seeds solve as many episodes after one update now and then; in as many turns, with as many
    valid responses and to the same score, they do not: logs of this project's own have no such
    validation in common. Runs that solve nothing, or everything, in all turns that there are, may
    be equal: they have nothing left to differ in.

    Returns:
        Their number, without those of the init and of policies that solve nothing; 0 if they are
        not more than `COPIED_SHARE`, or fewer than `FEWEST_VALIDATIONS`. Where any differs, those
        of policies that solve everything do not count either.
    """
    mine, theirs = _validated(one), _validated(other)
    common = mine.keys() & theirs.keys()
    differ = any(mine[place] != theirs[place] for place in common)
    most = 1.0 if differ else math.inf
    telling = [p for p in common if 0 < mine[p][0] < most or 0 < theirs[p][0] < most]
    equal = sum(mine[place] == theirs[place] for place in telling)
    return equal if equal >= FEWEST_VALIDATIONS and equal > COPIED_SHARE * len(telling) else 0


def _validated(log: TrainingLog) -> dict[tuple[int, str], tuple[float, ...]]:
    return {
        (line.update, line.fingerprint): (
            *(line.success, line.score),
            *(line.turns, line.format_ok, line.action_ok),
        )
        for line in log.validations
        if line.update
    }


def _settings(log: TrainingLog) -> dict[str, Any]:
    configuration = {k: v for k, v in log.start.configuration.items() if k != "seed"}
    return {"recipe": log.start.recipe, "task": log.start.task, "configuration": configuration}
