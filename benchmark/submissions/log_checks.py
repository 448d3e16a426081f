"""What can be seen of a training log that was edited, or is of another run.

Rates are counts: a success rate of 256 episodes is a multiple of 1/256, and its interval follows
from it. Whoever draws a smoother curve by hand breaks that; whoever picks other counts does not,
and no program sees it: a log says what its author says (the badge is called `logs`, not `proven`).
"""

from collections.abc import Iterator, Mapping
from itertools import combinations, pairwise
from typing import Any

from benchmark.run_curves import run_curves_of
from benchmark.stability.seeds import recipe_stability
from benchmark.statistics import wilson
from benchmark.submissions.entry import Entry, ReadCheckpoint
from benchmark.submissions.findings import Finding
from benchmark.training_lines import Update, Validation
from benchmark.training_log import TrainingLog
from tasks.errors import UserError

AS_WRITTEN = "send the log as the trainer has written it"
TOLERANCE = 1e-6
"""By how much a rate that was rounded to float32 may miss a count, times the count."""
CONFIDENCE = 0.9999
"""Of the interval in which the evaluated success lies around one of the log's validations: batches
and machines decide between tokens that are equally likely, so that the same weights play a little
otherwise."""

_COUNTED: Mapping[str, str] = {
    "rollout/success": "rollout/episodes",
    "rollout/uniform_groups": "rollout/groups",
}
"""Shares that are counts, and of what."""


def check_logs(entry: Entry) -> list[Finding]:
    """Hold logs against themselves, each other, and what was evaluated."""
    findings: list[Finding] = []
    logs = [(point, point.log) for point in entry.checkpoints if point.log is not None]
    for point, log in logs:
        findings += _check_identity(entry, point, log)
        findings += _check_counts(log)
        findings += _check_evaluated(point, log)
    for (_, first), (_, other) in pairwise(logs):
        if _settings(first) != _settings(other):
            problem = f"is of other settings than {first.path}"
            fix = "send seeds of one recipe with one configuration"
            findings.append(Finding(str(other.path), "configuration", problem, fix))
    for (_, first), (_, other) in combinations(logs, 2):
        if other.updates and _numbers(first) == _numbers(other):
            problem = f"holds the numbers of {first.path}"
            findings.append(Finding(str(other.path), "", problem, "send the log of each training"))
    with_log = [point.log is not None for point in entry.checkpoints]
    if any(with_log) and not all(with_log):
        missing = [p.checkpoint.seed for p in entry.checkpoints if p.log is None]
        problem = f"seeds {missing} have no training log and others have"
        fix = "send all logs, or none: a choice of seeds is no measure of stability"
        findings.append(Finding("submission.json", "checkpoints", problem, fix))
    if logs and not findings:
        try:
            recipe_stability([run_curves_of(log) for _, log in logs], resamples=1)
        except UserError as error:
            findings.append(Finding("submission.json", "checkpoints", str(error), AS_WRITTEN))
    return findings


def _check_identity(entry: Entry, point: ReadCheckpoint, log: TrainingLog) -> Iterator[Finding]:
    file = str(log.path)
    if log.start.seed != point.checkpoint.seed:
        problem = f"is of seed {log.start.seed}, the checkpoint of seed {point.checkpoint.seed}"
        yield Finding(file, "line 1, seed", problem, "send the checkpoint's own log")
    init = entry.submission.init
    if init is not None and init != log.start.init:
        problem = f"starts from {log.start.init.text}, submission.json says {init.text}"
        yield Finding(file, "line 1, init", problem, "state the init that training started from")


def _check_counts(log: TrainingLog) -> Iterator[Finding]:
    for number, line in enumerate(log.validations):
        problem = _fault_of_validation(line)
        if problem:
            place = f"validation {number + 1} (update {line.update}, {line.panel})"
            yield Finding(str(log.path), place, problem, AS_WRITTEN)
            return
    for update in log.updates:
        problem = _fault_of_update(update)
        if problem:
            yield Finding(str(log.path), f"update {update.update}", problem, AS_WRITTEN)
            return


def _fault_of_validation(line: Validation) -> str | None:
    solved = round(line.success * line.episodes)
    if abs(line.success * line.episodes - solved) > TOLERANCE * line.episodes:
        return f"success {line.success} is no share of {line.episodes} episodes"
    interval = wilson(solved, line.episodes)
    ends = abs(interval.low - line.wilson_low), abs(interval.high - line.wilson_high)
    if max(ends) > TOLERANCE:
        return f"the interval is not that of {solved} of {line.episodes} episodes"
    return None


def _fault_of_update(update: Update) -> str | None:
    for share, of in _COUNTED.items():
        rate, count = update.values.get(share), update.values.get(of)
        if rate is None or count is None:
            continue
        if abs(rate * count - round(rate * count)) > TOLERANCE * max(count, 1):
            return f"{share} {rate} is no share of {count:g} ({of})"
    return None


def _check_evaluated(point: ReadCheckpoint, log: TrainingLog) -> Iterator[Finding]:
    """See that the log knows of a policy as good as the one that was evaluated."""
    for (task, panel), summary in point.panels.items():
        same = [line for line in log.validations if line.fingerprint == summary.fingerprint]
        if not same:
            continue
        success = summary.success.value
        for line in same:
            solved = round(line.success * line.episodes)
            around = wilson(solved, line.episodes, CONFIDENCE)
            if around.low <= success <= around.high:
                break
        else:
            problem = (
                f"no validation of {task}/{panel} is near the {success:.1%} that the checkpoint "
                "solves"
            )
            yield Finding(str(log.path), "validations", problem, "send the checkpoint's own log")


def _settings(log: TrainingLog) -> dict[str, Any]:
    configuration = {k: v for k, v in log.start.configuration.items() if k != "seed"}
    return {"recipe": log.start.recipe, "task": log.start.task, "configuration": configuration}


def _numbers(log: TrainingLog) -> list[dict[str, float]]:
    """What no two seeds have in common: all numbers of the updates but time and memory."""
    apart = ("seconds/", "memory/")
    return [
        {name: value for name, value in line.values.items() if not name.startswith(apart)}
        for line in log.updates
    ]
