"""What maintainers have repeated of entries: `reruns.yaml`, beside the submissions."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

import yaml
from pydantic import Field, StringConstraints, TypeAdapter, ValidationError

from benchmark.fields import Sha256
from benchmark.submissions.format.plain_yaml import read_plain_yaml
from benchmark.submissions.format.schema import SUBMISSION
from benchmark.submissions.reading.folder import MAX_SUBMISSION, read_plain
from tasks.errors import UserError
from tasks.strict import Strict, first_fault
from tasks.texts import first_line

RERUN: Final = "reruns.yaml"
"""Where none of the entries can touch it; maintainers write it."""
EQUAL_PLAY: Final = 0.9
"""Of the episodes of greedy decoding so many must have the recorded answers, to the letter: of
another batch or machine a token that is nearly as likely as another is chosen now and then."""


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
    def same_play(self) -> bool:
        """Whether the weights gave the recorded answers, which a tie of success does not say."""
        return self.what == "episodes" and self.holds and self.equal >= EQUAL_PLAY * self.count

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


def is_own_play(folder: Path, reruns: Mapping[str, Rerun]) -> bool:
    """Whether the weights of an entry have given maintainers the answers that it recorded.

    Args:
        folder: The entry's folder; it was read before.
        reruns: By folder name (`read_reruns`).
    """
    rerun = rerun_of(folder, reruns)
    return rerun is not None and rerun.sample is not None and rerun.sample.same_play


def digest_of(folder: Path) -> str:
    """SHA-256 of an entry's `submission.json`."""
    return hashlib.sha256(read_plain(folder, SUBMISSION, MAX_SUBMISSION)).hexdigest()


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
