"""Badges: what is proven of a submission, computed, and what maintainers have done beyond it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import yaml
from pydantic import TypeAdapter, ValidationError

from benchmark.submissions.check import CheckResult
from benchmark.submissions.reading.entry import ReadCheckpoint
from tasks.errors import UserError
from tasks.strict import Strict, first_fault

RERUN: Final = "reruns.yaml"
"""Beside the submissions, where none of them can touch it; maintainers write it."""


@dataclass(frozen=True, slots=True)
class Badges:
    """What can be said of a submission.

    Attributes:
        replayed: Every episode was executed again and holds; who chose the actions is not proven.
        stability: `logs`: raw training logs were sent, and stability is computed from their
            validations; `none`: there are none. A log says what its author says.
        init: `fixed`: it is a registered init with a pinned hash, or was trained from one, as its
            authors declare; `open`: from something else; null for a policy.
        rerun: Maintainers have played the checkpoints again and got the same within the interval.
    """

    replayed: bool
    stability: Literal["logs", "none"]
    init: Literal["fixed", "open"] | None
    rerun: bool


class Rerun(Strict):
    """One line of maintainers' reruns.

    Attributes:
        date: Day, ISO 8601.
        by: Who.
        note: What came out.
    """

    date: str
    by: str
    note: str


def badges_of(verdict: CheckResult, reruns: dict[str, Rerun]) -> Badges:
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
    return Badges(
        replayed=verdict.replayed == sum(len(run.records) for run in entry.runs),
        stability="logs" if all(map(_is_judged, entry.checkpoints)) else "none",
        init=init,
        rerun=verdict.folder.name in reruns,
    )


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
        content = yaml.safe_load(path.read_text("utf-8")) or {}
        return TypeAdapter(dict[str, Rerun]).validate_python(content)
    except ValidationError as error:
        raise UserError(f"{path}: {first_fault(error)}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {str(error).splitlines()[0]}") from error
