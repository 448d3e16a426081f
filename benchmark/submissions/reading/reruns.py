"""What maintainers have repeated of entries: `reruns.yaml`, beside the submissions."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, Literal

import yaml
from pydantic import Field, StringConstraints, TypeAdapter, ValidationError

from benchmark.fields import Sha256
from benchmark.submissions.format.plain_yaml import read_plain_yaml
from benchmark.submissions.format.schema import SUBMISSION
from benchmark.submissions.reading.folder import MAX_SUBMISSION, read_plain
from tasks.errors import UserError
from tasks.strict import Strict, first_fault, not_yaml

RERUN: Final = "reruns.yaml"
"""Where none of the entries can touch it; maintainers write it."""
EPISODES: Final = 32
"""Of every panel of a run at least so many are played again."""
TOGETHER: Final = 160
"""Of a panel, of all runs of an entry together, at least. Records that claim 5 points more than the
weights have are found in 8 to 9 of 10 entries with greedy decoding (computed; 32 episodes: 1 of
14). Where tokens are sampled, only success can be compared: simulated with episodes of unequal
difficulty, 15 points are found in 9 of 10 (32 episodes: 3 of 10)."""
EQUAL_PLAY: Final = 0.9
"""Of the episodes of greedy decoding so many must have the recorded answers, to the letter: of
another batch or machine a token that is nearly as likely as another is chosen now and then."""

Place = tuple[str, str, str]
"""A panel of a run: the run's folder in the submission, task, panel."""
_Count = Annotated[int, Field(ge=0)]


class PanelSample(Strict):
    """What was played again of a panel.

    Attributes:
        run: The run's folder in the submission.
        task: Task.
        panel: Panel.
        episodes: Recorded by the run.
        count: Played again.
        equal: Of these so many had the recorded answers.
        greedy: Tokens were not drawn: the weights have one answer.
    """

    run: str
    task: str
    panel: str
    episodes: _Count
    count: _Count
    equal: _Count
    greedy: bool

    @property
    def own_play(self) -> bool:
        """Whether the answers are those of the weights, which a tie of success does not say."""
        enough = self.count >= min(EPISODES, self.episodes)
        return self.greedy and enough and self.equal >= EQUAL_PLAY * self.count


class RerunSample(Strict):
    """What was repeated of an entry, and what came of it (`benchmark.submissions.rerun`).

    Attributes:
        commit: Of the code.
        nonce: What the sample was drawn from; random, so that no author can know it before.
        what: Episodes that the weights played again, or updates that were trained again.
        count: How many.
        equal: Of these so many were equal: in all answers, or in all numbers.
        holds: Whether that is what the records say, within their noise.
        panels: Of what was played again.
        published: Everybody can get the weights that played: a hub model at a commit, or a
            registered init.
    """

    commit: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
    nonce: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")] | None = None
    what: Literal["episodes", "updates"]
    count: Annotated[int, Field(ge=1)]
    equal: _Count
    holds: bool
    panels: Annotated[tuple[PanelSample, ...], Field(strict=False)] = ()
    published: bool | None = None

    @property
    def text(self) -> str:
        """One line for people."""
        done = "played" if self.what == "episodes" else "trained"
        verdict = "they hold" if self.holds else "they do not hold"
        weights = " (weights not published)" if self.published is False else ""
        return (
            f"{self.count} {self.what} {done} again at commit {self.commit[:12]}{weights}, "
            f"{self.equal} equal: {verdict}"
        )


class Rerun(Strict):
    """Something that maintainers have repeated.

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

    @property
    def what(self) -> str:
        """What was repeated: episodes, if the record does not say."""
        return "episodes" if self.sample is None else self.sample.what

    @property
    def holds(self) -> bool:
        """Whether that is what the records say; a person who says so is believed."""
        return self.sample is None or self.sample.holds


Reruns = Mapping[str, tuple[Rerun, ...]]
"""What maintainers have repeated, by the name of an entry's folder."""


def reruns_of(folder: Path, reruns: Reruns) -> tuple[Rerun, ...]:
    """What maintainers have repeated of an entry; records of other content are left out.

    Args:
        folder: The entry's folder; it was read before.
        reruns: All that there is (`read_reruns`).
    """
    records = reruns.get(folder.name, ())
    if not records:
        return ()
    digest = digest_of(folder)
    return tuple(each for each in records if each.submission_sha256 in (None, digest))


def last_of(records: Sequence[Rerun], what: str) -> Rerun | None:
    """The last rerun of a kind, which decides; None if there was none.

    Args:
        records: Of an entry, as they were written down.
        what: `episodes` or `updates`.
    """
    return next((each for each in reversed(records) if each.what == what), None)


def own_plays(folder: Path, reruns: Reruns) -> frozenset[Place]:
    """The panels of an entry's runs whose answers its weights have given maintainers again.

    Args:
        folder: The entry's folder; it was read before.
        reruns: All that there is (`read_reruns`).
    """
    # What a person wrote by hand names no episodes: it neither proves a play nor takes one back.
    signed = [each for each in reruns_of(folder, reruns) if each.submission_sha256 is not None]
    last = last_of([each for each in signed if each.sample is not None], "episodes")
    if last is None or last.sample is None or not last.holds:
        return frozenset()
    return frozenset(
        (panel.run, panel.task, panel.panel) for panel in last.sample.panels if panel.own_play
    )


def digest_of(folder: Path) -> str:
    """SHA-256 of an entry's `submission.json`."""
    return hashlib.sha256(read_plain(folder, SUBMISSION, MAX_SUBMISSION)).hexdigest()


def read_reruns(submissions: Path) -> dict[str, tuple[Rerun, ...]]:
    """What maintainers have repeated, by folder name; empty where the file is not there.

    Raises:
        UserError: The file breaks its schema.
    """
    path = submissions / RERUN
    if not path.exists():
        return {}
    try:
        content = read_plain_yaml(path.read_text("utf-8")) or {}
        records = Annotated[tuple[Rerun, ...], Field(strict=False)]
        return TypeAdapter(dict[str, records]).validate_python(content)
    except ValidationError as error:
        raise UserError(f"{path}: {first_fault(error)}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(not_yaml(path, error)) from error
