"""Badges: computed facts that are proven about a submission, and reruns by maintainers."""

from dataclasses import dataclass
from typing import Literal

from benchmark.submissions.check import CheckResult
from benchmark.submissions.reading.entry import Entry, ReadCheckpoint
from benchmark.submissions.reading.reruns import Rerun, Reruns, last_of, reruns_of


@dataclass(frozen=True, slots=True)
class Badges:
    """The badges of a submission.

    Attributes:
        replayed: Whether every episode was replayed and holds. Who chose the actions is not proven.
        stability: `logs`: stability is computed from the validations in raw training logs;
            `foreign logs`: from logs of another trainer, which nothing ties to the evaluated
            panels; `none`: there are no logs. Logs are not proven: they contain what authors write.
        init: `fixed`: the weights are a registered init with a pinned hash, or were trained from
            one, as the authors declare; `open`: from something else; null for a policy.
        rerun: Whether maintainers' last rerun of the checkpoints gave the same results within the
            interval.
        retrained: Number of first updates that maintainers have trained again, for every seed, with
            the same numbers; 0 if none. Who chose the evaluated actions is not proven.
        contradicted: Whether maintainers' last rerun of the checkpoints gave different results.
    """

    replayed: bool
    stability: Literal["logs", "foreign logs", "none"]
    init: Literal["fixed", "open"] | None
    rerun: bool
    retrained: int = 0
    contradicted: bool = False


def badges_of(verdict: CheckResult, reruns: Reruns) -> Badges:
    """Compute the badges of a checked submission.

    Args:
        verdict: Result of the check.
        reruns: Maintainers' reruns, by folder name (`read_reruns`).

    Raises:
        ValueError: It was not accepted, so there are no badges.
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
    """Number of updates trained again; 0 if there are none, or if they differ from the log."""
    if rerun is None or rerun.sample is None or not rerun.holds:
        return 0
    return rerun.sample.count


def _stability(entry: Entry) -> Literal["logs", "foreign logs", "none"]:
    if all(map(_is_judged, entry.checkpoints)):
        return "logs"
    foreign = all(point.foreign is not None for point in entry.checkpoints)
    return "foreign logs" if foreign else "none"


def _is_judged(point: ReadCheckpoint) -> bool:
    """Whether there is a log to compute stability from; the check ensures that it is complete."""
    return point.log is not None and bool(point.log.validations)
