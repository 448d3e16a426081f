"""Checks training logs for edits, and that they belong to the submitted runs.

No program can detect invented numbers that are consistent and cover the configured length, so a log
is only its author's word (the badge is called `logs`, not `proven`).

Logs of other trainers do not contain protocol, init, seed or planned length. They cannot be
compared with the evaluation, so stability from them has its own badge and columns.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise
from typing import Any, Final

from benchmark.flat import flat
from benchmark.logs.curves import run_curves_of
from benchmark.logs.foreign import Reading
from benchmark.logs.lines import FREE
from benchmark.logs.training_log import TrainingLog
from benchmark.models import same_weights
from benchmark.stability.runs import run_stability
from benchmark.stability.seeds import recipe_stability
from benchmark.submissions.checks.context import Context
from benchmark.submissions.format.findings import Finding
from benchmark.submissions.format.schema import SUBMISSION
from benchmark.submissions.reading.entry import Entry, ReadCheckpoint
from benchmark.submissions.training_logs.begins import check_begins, known_starts
from benchmark.submissions.training_logs.changes import Changes, changes_text, copied_changes
from benchmark.submissions.training_logs.counts import AS_WRITTEN, check_counts
from benchmark.submissions.training_logs.likeness import (
    all_hashes,
    equal_curves,
    equal_updates,
    equal_validations,
    traced,
    validated,
)
from benchmark.submissions.training_logs.panels import check_choice, check_panels
from benchmark.submissions.training_logs.rollouts import hidden_fall
from benchmark.submissions.training_logs.schedule import check_schedule, check_settings
from tasks.errors import UserError
from tasks.texts import digest_text, on_one_line

MAX_PANELS: Final = 32
"""Maximum number of panels of a log, because all lines are searched for each."""
MOST_SEEDS: Final = 8
"""Maximum number of seeds listed in a note."""
FEWEST_POINTS: Final = 2
"""Minimum number of validations in a foreign log to compute stability."""


def check_logs(entry: Entry, context: Context) -> list[Finding]:
    """Check that logs are consistent in themselves, with each other, and with the evaluation."""
    findings: list[Finding] = []
    logs = [(point, point.log) for point in entry.checkpoints if point.log is not None]
    starts = known_starts(entry)
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
        findings += check_begins(point, log, starts)
    findings += _check_seeds(entry, [log for _, log in logs])
    findings += check_choice([each for each in logs if len(each[1].panels) <= MAX_PANELS])
    if note := gaps_of([point.checkpoint.seed for point in entry.checkpoints]):
        context.notes.append(note)
    if note := _code_note([log for _, log in logs]):
        context.notes.append(note)
    for _, log in logs:
        if len(log.panels) <= MAX_PANELS and (note := hidden_fall(log)):
            context.notes.append(on_one_line(note))
    if logs and not findings:
        try:
            recipe_stability([run_curves_of(log) for _, log in logs], resamples=1)
        except UserError as error:
            findings.append(Finding(SUBMISSION, "checkpoints", str(error), AS_WRITTEN))
    return findings


def check_foreign_logs(entry: Entry, _context: Context) -> Iterator[Finding]:
    """Check that logs of other trainers contain success, and that each is of a different run."""
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
    fix = "send the log of each training run"
    for first, other in combinations([reading.run for reading in readings], 2):
        if equal := equal_curves(first, other):
            problem = f"{equal} updates have the same numbers as {first.name}"
            yield Finding(other.name, "", problem, fix)
        elif found := copied_changes(Changes.of_curves(other), Changes.of_curves(first)):
            yield Finding(other.name, "", changes_text(found, first.name), fix)
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
    """Check that a log is of the training that the submission declares."""
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
    """Check that logs are of different seeds of one recipe, and that none is missing."""
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
    changes = {str(log.path): Changes.of_log(log) for log in logs}
    for (first, theirs), (other, mine) in combinations(traces, 2):
        if equal := equal_updates(mine, all_hashes(theirs)):
            problem = f"{equal} updates have the same numbers as {first.path}"
            yield Finding(str(other.path), "", problem, "send the log of each training run")
        elif found := copied_changes(changes[str(other.path)], changes[str(first.path)]):
            problem = changes_text(found, str(first.path))
            yield Finding(str(other.path), "", problem, "send the log of each training run")
    for first, other in combinations(logs, 2):
        if equal := equal_validations(validated(first), validated(other)):
            problem = f"{equal} validations after the init's are those of {first.path}"
            yield Finding(
                str(other.path), "validations", problem, "send the log of each training run"
            )
    missing = [point.checkpoint.seed for point in entry.checkpoints if point.log is None]
    if logs and missing:
        problem = f"seeds {missing} have no training log, but others do"
        fix = "send all logs or none: selected seeds do not measure stability"
        yield Finding(SUBMISSION, "checkpoints", problem, fix)


def gaps_of(seeds: Sequence[int]) -> str | None:
    """Note on an entry whose seeds are not the first ones; None if they are."""
    given = sorted(set(seeds))
    if given == list(range(len(given))):
        return None
    listed = ", ".join(map(str, given[:MOST_SEEDS])) + ", ..." * (len(given) > MOST_SEEDS)
    first = "0" if len(given) == 1 else f"0 to {len(given) - 1}"
    return f"the seeds are {listed}, not {first}; reviewers may ask about others"


def _code_note(logs: Sequence[TrainingLog]) -> str | None:
    """Note on an entry that was trained with plug-ins, whose code nobody has reviewed."""
    code = {name: sha256 for log in logs for name, sha256 in log.start.plugins.items()}
    if not code:
        return None
    listed = ", ".join(f"{name} (SHA-256 {digest_text(sha256)})" for name, sha256 in code.items())
    return on_one_line(
        f"the code of the plug-ins, which is not sent: {listed}; read it before the entry is merged"
    )


def _settings(log: TrainingLog) -> dict[str, Any]:
    known = flat(log.start.configuration).items()
    configuration = {name: value for name, value in known if name not in FREE | {"seed"}}
    return {"recipe": log.start.recipe, "task": log.start.task, "configuration": configuration}
