"""Badges: what is proven about a submission, computed, plus reruns by maintainers."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

import yaml
from pydantic import Field, StringConstraints, TypeAdapter, ValidationError

from benchmark.fields import Sha256
from benchmark.submissions.check import CheckResult
from benchmark.submissions.format.plain_yaml import read_plain_yaml
from benchmark.submissions.format.schema import SUBMISSION
from benchmark.submissions.reading.entry import Entry, ReadCheckpoint
from benchmark.submissions.reading.folder import MAX_SUBMISSION, read_plain
from tasks.errors import UserError
from tasks.strict import Strict, first_fault
from tasks.texts import first_line

RERUN: Final = "reruns.yaml"
"""Beside the submissions, where none of them can touch it; maintainers write it."""


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


class RerunSample(Strict):
    """What was repeated of an entry, and what came of it (`benchmark.submissions.rerun`).

    Attributes:
        commit: Of the code; with the day the seed of the sample.
        what: Episodes that the weights played again, or updates that were trained again.
        count: How many.
        equal: Of these so many were equal: in all answers, or in all numbers.
        holds: Whether that is what the records say, within their noise.
    """

    commit: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
    what: Literal["episodes", "updates"]
    count: Annotated[int, Field(ge=1)]
    equal: Annotated[int, Field(ge=0)]
    holds: bool

    @property
    def text(self) -> str:
        """One line for people."""
        done = "played" if self.what == "episodes" else "trained"
        verdict = "they hold" if self.holds else "they do not hold"
        return (
            f"{self.count} {self.what} {done} again at commit {self.commit[:12]}, {self.equal} "
            f"equal: {verdict}"
        )


class Rerun(Strict):
    """One entry of the maintainers' reruns.

    Attributes:
        date: Day, ISO 8601.
        by: Who.
        note: What came out.
        sample: What was repeated; null where a person has repeated it in another way.
        submission_sha256: Of the entry's `submission.json`, which lists all its files by hash: a
            record is of this content and does not pass to another entry of the same name; null
            where it was written by hand for whatever has the name.
    """

    date: str
    by: str
    note: str
    sample: RerunSample | None = None
    submission_sha256: Sha256 | None = None


def badges_of(verdict: CheckResult, reruns: Mapping[str, Rerun]) -> Badges:
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
    rerun = rerun_of(verdict.folder, reruns)
    retrained = _retrained(rerun)
    return Badges(
        replayed=verdict.replayed == sum(len(run.records) for run in entry.runs),
        stability=_stability(entry),
        init=init,
        rerun=_held(rerun) and not retrained,
        retrained=retrained,
    )


def rerun_of(folder: Path, reruns: Mapping[str, Rerun]) -> Rerun | None:
    """What maintainers have repeated of an entry; None if nothing, or of other content.

    Args:
        folder: The entry's folder; it was read before.
        reruns: By folder name (`read_reruns`).
    """
    rerun = reruns.get(folder.name)
    if rerun is None or rerun.submission_sha256 in (None, digest_of(folder)):
        return rerun
    return None


def digest_of(folder: Path) -> str:
    """SHA-256 of an entry's `submission.json`."""
    return hashlib.sha256(read_plain(folder, SUBMISSION, MAX_SUBMISSION)).hexdigest()


def _held(rerun: Rerun | None) -> bool:
    """Whether something was repeated, and holds."""
    return rerun is not None and (rerun.sample is None or rerun.sample.holds)


def _retrained(rerun: Rerun | None) -> int:
    """How many updates were trained again; 0 if something else was repeated, or does not hold."""
    if rerun is None or rerun.sample is None or rerun.sample.what != "updates":
        return 0
    return rerun.sample.count if rerun.sample.holds else 0


def _stability(entry: Entry) -> Literal["logs", "foreign logs", "none"]:
    if all(map(_is_judged, entry.checkpoints)):
        return "logs"
    foreign = all(point.foreign is not None for point in entry.checkpoints)
    return "foreign logs" if foreign else "none"


def _is_judged(point: ReadCheckpoint) -> bool:
    """Whether there is a log to compute stability from; the check has seen that it is whole."""
    return point.log is not None and bool(point.log.validations)


def read_reruns(submissions: Path) -> dict[str, Rerun]:
    """What maintainers have repeated, by folder name; empty where the file is not there.

    Raises:
        UserError: The file breaks its schema.
    """
    path = submissions / RERUN
    if not path.exists():
        return {}
    try:
        content = read_plain_yaml(path.read_text("utf-8")) or {}
        return TypeAdapter(dict[str, Rerun]).validate_python(content)
    except ValidationError as error:
        raise UserError(f"{path}: {first_fault(error)}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(f"{path} cannot be read: {first_line(error)}") from error
