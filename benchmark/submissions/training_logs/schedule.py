"""Checks that a training log is complete: all updates to the stated end, all due validations.

A log that ends before its collapse, or from which the bad validations were removed, shows no
collapse. The configuration contains the planned length and the validation interval; a forgery that
also changes the configuration is not detected.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from benchmark.logs.lines import Update
from benchmark.logs.schedule import learning_rate_of
from benchmark.logs.training_log import TrainingLog
from benchmark.stability.run_end import MAX_COUNT, UpdateSchedule, early_stop, is_count, schedule_of
from benchmark.submissions.format.findings import Finding
from benchmark.submissions.training_logs.counts import AS_WRITTEN
from tasks.texts import on_one_line

WHOLE: Final = "send the whole log of a finished run"


def _is_rate(value: Any) -> bool:
    return type(value) is float and 0 <= value < math.inf


def _is_option(value: Any) -> bool:
    return value is None or isinstance(value, dict)


_READ: Final[Mapping[tuple[str, str], tuple[Callable[[Any], bool], str]]] = {
    ("optimization", "updates"): (is_count, "a count"),
    ("optimization", "learning_rate"): (_is_rate, "a decimal number"),
    ("optimization", "warmup_updates"): (
        lambda n: type(n) is int and 0 <= n <= MAX_COUNT,
        "a count",
    ),
    ("optimization", "schedule"): (("constant", "linear").__contains__, "constant or linear"),
    ("validation", "every"): (lambda n: n is None or is_count(n), "a count or null"),
    ("rollout", "groups"): (is_count, "a count"),
    ("rollout", "group_size"): (is_count, "a count"),
    ("sampling", "dynamic"): (_is_option, "an object or null"),
    ("sampling", "cross_policy"): (_is_option, "an object or null"),
}
"""The configuration fields that are read, by section and name: test of the value, description."""


def check_schedule(log: TrainingLog) -> Iterator[Finding]:
    """Look for missing updates and validations in a log."""
    file = str(log.path)
    schedule = schedule_of(log)
    if schedule is None:
        problem = "does not say how many updates were planned, and how often they were validated"
        fix = "send the log exactly as written by `arlarena-bench train`"
        yield Finding(file, "configuration", problem, fix)
        return
    if not log.updates:
        yield Finding(file, "", "has no update", WHOLE)
        return
    for expected, line in enumerate(log.updates, 1):
        if line.update != expected:
            problem = f"has update {line.update} in place of {expected}"
            yield Finding(file, f"update {expected}", problem, "send the log without gaps")
            return
    if len(log.resumes) > len(log.updates) + len(log.validations):
        # A session that writes nothing else leaves no resume line.
        problem = f"continues {len(log.resumes):,} times, more often than it has other lines"
        yield Finding(file, "", problem, AS_WRITTEN)
        return
    last = len(log.updates)
    if last > schedule.updates:
        problem = f"ends at update {last}, but the configuration says {schedule.updates}"
        fix = "train for the configured number of updates; a longer run is a separate run"
        yield Finding(file, "updates", problem, fix)
        return
    if last < schedule.updates and early_stop(log) is None:
        problem = (
            f"ends at update {last}, but the configuration says {schedule.updates}, and "
            "nothing in the log justifies an early stop"
        )
        fix = f"{WHOLE}; the same train command resumes"
        yield Finding(file, "updates", problem, fix)
        return
    if schedule.every is None and log.validations:
        problem = "there are validations, but the configuration says none"
        yield Finding(
            file, "validations", problem, "send the log exactly as written by the trainer"
        )
    elif schedule.every is not None:
        yield from _check_due(log, schedule, last)


def check_settings(log: TrainingLog) -> Iterator[Finding]:
    """Look for an update whose batch or learning rate contradicts the configuration."""
    file, configuration = str(log.path), log.start.configuration
    for (section, name), (is_written, words) in _READ.items():
        part = configuration.get(section)
        if not isinstance(part, dict) or name not in part:
            problem = f"{section}.{name} is missing"
        elif not is_written(part[name]):
            problem = f"{section}.{name} is {_shown(part[name])}, the trainer writes {words}"
        else:
            continue
        yield Finding(file, "line 1, configuration", problem, AS_WRITTEN)
        return
    for line in log.updates:
        wanted = _counts(configuration, line)
        if line.values.get("policy/optimizer_steps"):
            rate = learning_rate_of(configuration["optimization"], line.update)
            wanted["policy/learning_rate"] = rate
        for name, value in wanted.items():
            said = line.values.get(name)
            if said is not None and not math.isclose(said, value, rel_tol=1e-6, abs_tol=1e-12):
                problem = f"{name} is {said:g}, the configuration gives {value:g}"
                yield Finding(file, f"update {line.update}", problem, AS_WRITTEN)
                return


def _shown(value: Any) -> str:
    return on_one_line(json.dumps(value), limit=40)


def _counts(configuration: Mapping[str, Any], line: Update) -> dict[str, float]:
    """Expected groups and episodes of an update: whole batches, several with dynamic sampling."""
    rollout, dynamic = configuration["rollout"], configuration["sampling"]["dynamic"]
    most = 1 if dynamic is None else dynamic.get("tries")
    if not is_count(most):
        most = MAX_COUNT
    tries = min(max(1, round(line.values.get("rollout/tries", 1))), most)
    groups = tries * rollout["groups"]
    return {
        "rollout/tries": tries,
        "rollout/groups": groups,
        "rollout/episodes": groups * rollout["group_size"],
    }


def _check_due(log: TrainingLog, schedule: UpdateSchedule, last: int) -> Iterator[Finding]:
    due = schedule.due(last)
    validated = {panel: {line.update for line in log.of_panel(panel)} for panel in log.panels}
    for panel, steps in (validated or {"any panel": set()}).items():
        missing = sorted(due - steps)
        odd = sorted(steps - due)
        if missing or odd:
            update = min(missing[:1] + odd[:1])
            what = "is none" if update in missing else "is one"
            problem = (
                f"there {what} of {panel} at update {update}, but the configuration "
                f"says one every {schedule.every} updates and one at the end"
            )
            yield Finding(str(log.path), "validations", problem, WHOLE)
            return
