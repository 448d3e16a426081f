"""Badges: what is proven about a submission, computed, plus reruns by maintainers."""

from dataclasses import dataclass
from typing import Literal

from benchmark.submissions.check import CheckResult
from benchmark.submissions.reading.entry import Entry, ReadCheckpoint
from benchmark.submissions.reading.reruns import Rerun, Reruns, last_of, reruns_of


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
        rerun: Maintainers have played the checkpoints again and got the same within the interval,
            the last time that they did.
        retrained: Updates that maintainers have trained again, the first of every seed, with the
            same numbers; 0 if none. Who chose the evaluated actions is not proven.
        contradicted: Maintainers have played the checkpoints again and got something else, the
            last time that they did.
    """

    replayed: bool
    stability: Literal["logs", "foreign logs", "none"]
    init: Literal["fixed", "open"] | None
    rerun: bool
    retrained: int = 0
    contradicted: bool = False


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
    played, retrained = last_of(records, "episodes"), last_of(records, "updates")
    return Badges(
        replayed=verdict.replayed == sum(len(run.records) for run in entry.runs),
        stability=_stability(entry),
        init=init,
        rerun=played is not None and played.holds,
        retrained=_updates(retrained),
        contradicted=played is not None and not played.holds,
    )


def _updates(rerun: Rerun | None) -> int:
    """How many updates were trained again; 0 if none were, or they do not hold."""
    if rerun is None or rerun.sample is None or not rerun.holds:
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
