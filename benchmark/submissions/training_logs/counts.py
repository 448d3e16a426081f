"""Checks that rates in a training log are possible counts.

A success rate over 256 episodes is a multiple of 1/256 and determines its interval, and a share of
responses is a fraction of the played turns. Curves smoothed by hand violate this.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from benchmark.logs.lines import Update, Validation
from benchmark.logs.metrics import METRICS
from benchmark.logs.training_log import TrainingLog
from benchmark.stats.intervals import wilson
from benchmark.submissions.format.findings import Finding

AS_WRITTEN: Final = "send the log exactly as written by the trainer"
TOLERANCE: Final = 1e-6
"""Maximum error of a rate rounded to float32, relative to the count."""

_COUNTED: Final[Mapping[str, str]] = {
    "rollout/success": "rollout/episodes",
    "rollout/uniform_groups": "rollout/groups",
}
"""Shares, and the counts that they are fractions of."""
_APART: Final = ("seconds/", "memory/", "speed/")
"""Prefixes of metrics of the machine, not of the policy."""
_ALWAYS: Final = (
    *("rollout/success", "rollout/score", "rollout/return", "rollout/reward", "rollout/penalty"),
    *("rollout/turns", "rollout/episodes", "rollout/groups", "rollout/uniform_groups"),
    *("rollout/group_std", "rollout/tries", "rollout/errors", "tokens/prompt", "tokens/response"),
    *("policy/optimizer_steps", "policy/skipped_steps"),
)
"""Metrics that the trainer logs in every update."""
_OF_STEPS: Final = tuple(
    name
    for name in METRICS
    if name.startswith(("kl_old/", "ratio/"))
    or name
    in (
        *("policy/loss", "policy/grad_norm", "policy/grad_norm_max", "policy/entropy"),
        *("policy/learning_rate", "policy/advantage_std", "tokens/trained"),
    )
)
"""Metrics that it logs in every update with an optimizer step."""

FRACTIONS: Final = 5
"""Minimum number of non-integer values in an update to compare it with others."""


def check_counts(log: TrainingLog) -> Iterator[Finding]:
    """Look for a validation and an update with impossible numbers."""
    for number, line in enumerate(log.validations):
        problem = _fault_of_validation(line)
        if problem:
            place = f"validation {number + 1} (update {line.update}, {line.panel})"
            yield Finding(str(log.path), place, problem, AS_WRITTEN)
            return
    tasks, before = log.start.task.split("+"), 0.0
    for update in log.updates:
        problem = (
            _fault_of_update(update)
            or _fault_of_tasks(update, tasks)
            or _fault_of_sums(update)
            or _fault_of_time(update, before)
        )
        if problem:
            yield Finding(str(log.path), f"update {update.update}", problem, AS_WRITTEN)
            return
        before = update.seconds_total


def numbers_of(line: Update) -> dict[str, float]:
    """The numbers of an update that differ between seeds: all except time and memory."""
    return {name: value for name, value in line.values.items() if not name.startswith(_APART)}


def _fault_of_validation(line: Validation) -> str | None:
    solved = round(line.success * line.episodes)
    if not _is_count(line.success, line.episodes):
        return f"success {line.success} is not a fraction of {line.episodes} episodes"
    interval = wilson(solved, line.episodes)
    ends = abs(interval.low - line.wilson_low), abs(interval.high - line.wilson_high)
    if max(ends) > TOLERANCE:
        return f"the interval does not match {solved} of {line.episodes} episodes"
    turns = line.turns * line.episodes
    if abs(turns - round(turns)) > TOLERANCE * max(turns, 1):
        return f"turns {line.turns} is not a mean over {line.episodes} episodes"
    for name, share in (("format_ok", line.format_ok), ("action_ok", line.action_ok)):
        if not _is_count(share, round(turns)):
            return f"{name} {share} is not a fraction of {round(turns)} turns"
    return None


def _fault_of_update(update: Update) -> str | None:
    there = update.values.keys() | set(update.nonfinite)
    wanted = (*_ALWAYS, *(_OF_STEPS if update.values.get("policy/optimizer_steps") else ()))
    if missing := [name for name in wanted if name not in there]:
        return f"lacks {missing[0]}, which the trainer always measures"
    stepped = bool(update.values.get("policy/optimizer_steps"))
    lost = sum(name in update.nonfinite for name in _OF_STEPS)
    if stepped and (_fractions(update) < FRACTIONS or 2 * lost > len(_OF_STEPS)):
        return "has optimizer steps, but most of its numbers are missing, integers or not finite"
    for share, of in _COUNTED.items():
        rate, count = update.values.get(share), update.values.get(of)
        if rate is not None and count is not None and not _is_count(rate, count):
            return f"{share} {rate} is not a fraction of {count:g} ({of})"
    return None


def _fault_of_tasks(update: Update, tasks: Sequence[str]) -> str | None:
    """Fault of per-task numbers for another task, or for the only one; None if there are none."""
    for name in (*update.values, *update.nonfinite):
        _, of_task, task = name.partition("@")
        if of_task and (task not in tasks or len(tasks) == 1):
            return f"has {name}, but the training is on {', '.join(tasks)}"
    return None


def _fault_of_sums(update: Update) -> str | None:
    """How an update's tokens contradict its turns; None if they do not."""
    said = update.values
    turns = said.get("rollout/turns", 0.0) * said.get("rollout/episodes", 0.0)
    if said.get("tokens/prompt", math.inf) < turns * (1 - TOLERANCE):
        return f"tokens/prompt {said['tokens/prompt']:g} are fewer than its {turns:g} turns"
    mean, total = said.get("response/tokens_mean"), said.get("tokens/response")
    if mean is not None and total is not None:
        wanted = mean * turns
        if not math.isclose(wanted, total, rel_tol=TOLERANCE):
            return (
                f"tokens/response is {total:g}, but {turns:g} turns with {mean:g} tokens "
                f"(response/tokens_mean) have {wanted:g}"
            )
    return None


def _fault_of_time(update: Update, before: float) -> str | None:
    """How the total time contradicts that of an update; None if it does not."""
    took, passed = update.values.get("seconds/total"), update.seconds_total - before
    if took is not None and passed < took * (1 - TOLERANCE):
        return f"took {took:g} seconds, but seconds_total grows by {passed:g}"
    return None


def _fractions(update: Update) -> int:
    return sum(not float(value).is_integer() for value in numbers_of(update).values())


def _is_count(share: float, of: float) -> bool:
    count = share * of
    return abs(count - round(count)) <= TOLERANCE * max(of, 1)
