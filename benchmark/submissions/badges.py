"""Badges: what is proven about a submission, computed, plus reruns by maintainers."""

from dataclasses import dataclass
from typing import Literal

from benchmark.submissions.check import CheckResult
from benchmark.submissions.reading.entry import Entry, ReadCheckpoint
from benchmark.submissions.reading.reruns import Rerun, Reruns, reruns_of


@dataclass(frozen=True, slots=True)
class Badges:
    """What can be said of a submission.

    Attributes:
        replayed: Every episode was executed again and holds; who chose the actions is not proven.
        stability: `logs`: raw training logs were sent, and stability is computed from their
            validations; `foreign logs`: likewise from logs of another trainer, which nothing ties
            to the panels that were played; `none`: there are none. A log says what its author says.
        init: `fixed`: it is a registered init with a pinned hash, or was trained from one, as its
            authors declare; `open`: from something else; null for a policy.
        rerun: Maintainers have played the checkpoints again and got the same within the interval.
        retrained: Updates that maintainers have trained again, the first of every seed, with the
            same numbers; 0 if none. Who chose the evaluated actions is not proven.
    """

    replayed: bool
    stability: Literal["logs", "foreign logs", "none"]
    init: Literal["fixed", "open"] | None
    rerun: bool
    retrained: int = 0


def badges_of(verdict: CheckResult, reruns: Reruns) -> Badges:
    """The badges of a submission that was checked.

    Args:
        verdict: Of the check.
        reruns: What maintainers have repeated, by folder name (`read_reruns`).

    Raises:
        ValueError: It was not accepted: there are no badges.
    """
    entry = verdict.entry
    if entry is None or not verdict.accepted:
        raise ValueError("a submission that is not accepted has no badges")
    submission = entry.submission
    init: Literal["fixed", "open"] | None = None
    if submission.method.kind == "trained":
        init = "fixed" if submission.init and submission.init.kind == "init" else "open"
    elif submission.method.kind == "init":
        init = "fixed"
    # The check refuses an init without a pinned hash.
    records = reruns_of(verdict.folder, reruns)
    return Badges(
        replayed=verdict.replayed == sum(len(run.records) for run in entry.runs),
        stability=_stability(entry),
        init=init,
        rerun=any(map(_played, records)),
        retrained=max(map(_retrained, records), default=0),
    )


def _played(rerun: Rerun) -> bool:
    """Whether the checkpoints were played again, and hold."""
    return rerun.sample is None or (rerun.sample.what == "episodes" and rerun.sample.holds)


def _retrained(rerun: Rerun) -> int:
    """How many updates were trained again; 0 if something else was repeated, or does not hold."""
    if rerun.sample is None or rerun.sample.what != "updates" or not rerun.sample.holds:
        return 0
    return rerun.sample.count


def _stability(entry: Entry) -> Literal["logs", "foreign logs", "none"]:
    if all(map(_is_judged, entry.checkpoints)):
        return "logs"
    foreign = all(point.foreign is not None for point in entry.checkpoints)
    return "foreign logs" if foreign else "none"


def _is_judged(point: ReadCheckpoint) -> bool:
    """Whether there is a log to compute stability from; the check has seen that it is whole."""
    return point.log is not None and bool(point.log.validations)
