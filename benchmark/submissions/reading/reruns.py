"""Maintainers' reruns of entries: `reruns.yaml`, beside the submissions."""

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
"""The file of reruns, which only maintainers write and which is in no entry's folder."""
EPISODES: Final = 32
"""Minimum number of episodes to play again per panel of a run."""
TOGETHER: Final = 160
"""Minimum number per panel over all runs of an entry. With greedy decoding, records that claim 5
points more success than the weights have are detected in 8 to 9 of 10 entries (computed; with 32
episodes: 1 of 14). With sampled tokens, only success can be compared: in simulations with episodes
of unequal difficulty, 15 points are detected in 9 of 10 entries (32 episodes: 3 of 10)."""
EQUAL_PLAY: Final = 0.9
"""Minimum share of greedily decoded episodes with exactly the recorded answers. Other batches and
machines occasionally choose the other of two almost equally likely tokens."""

Place = tuple[str, str, str]
"""A panel of a run: the run's folder in the submission, task, panel."""
_Count = Annotated[int, Field(ge=0)]


class PanelSample(Strict):
    """The rerun of a sample from a panel.

    Attributes:
        run: The run's folder in the submission.
        task: Task.
        panel: Panel.
        episodes: Number of episodes recorded by the run.
        count: Number of episodes played again.
        equal: Number of these with the recorded answers.
        greedy: Whether decoding is greedy, so that the weights have only one answer.
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
        """Whether the answers are proven to come from the weights, which a tie does not prove."""
        enough = self.count >= min(EPISODES, self.episodes)
        return self.greedy and enough and self.equal >= EQUAL_PLAY * self.count


class RerunSample(Strict):
    """The repeated part of an entry, and the result (`benchmark.submissions.rerun`).

    Attributes:
        commit: Commit of the code.
        nonce: Nonce that the sample was drawn from; random, so that no author can predict it.
        what: `episodes` that the weights played again, or `updates` that were trained again.
        count: Number of episodes or updates.
        equal: Number of these that were equal, in all answers or in all numbers.
        holds: Whether the result matches the records within their noise.
        panels: Results by panel, for episodes.
        published: Whether the weights are public: a hub model at a commit, or a registered init.
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
        """A summary on one line."""
        done = "played" if self.what == "episodes" else "trained"
        verdict = "they hold" if self.holds else "they do not hold"
        weights = " (weights not published)" if self.published is False else ""
        return (
            f"{self.count} {self.what} {done} again at commit {self.commit[:12]}{weights}, "
            f"{self.equal} equal: {verdict}"
        )


class Rerun(Strict):
    """A maintainers' rerun.

    Attributes:
        date: Day, ISO 8601.
        by: Who did it.
        note: The result.
        sample: The repeated part; null if a person repeated it in another way.
        submission_sha256: SHA-256 of the entry's `submission.json`, which lists all its files by
            hash, so that the record does not pass to another entry of the same name; null if it was
            written by hand for any entry with that name.
    """

    date: str
    by: str
    note: str
    sample: RerunSample | None = None
    submission_sha256: Sha256 | None = None

    @property
    def what(self) -> str:
        """What was repeated; episodes by default."""
        return "episodes" if self.sample is None else self.sample.what

    @property
    def holds(self) -> bool:
        """Whether the result matches the records; records written by hand are trusted."""
        return self.sample is None or self.sample.holds


Reruns = Mapping[str, tuple[Rerun, ...]]
"""Maintainers' reruns, by the name of an entry's folder."""


def reruns_of(folder: Path, reruns: Reruns) -> tuple[Rerun, ...]:
    """Maintainers' reruns of an entry, except those of other content.

    Args:
        folder: The entry's folder, already read successfully.
        reruns: All reruns (`read_reruns`).
    """
    records = reruns.get(folder.name, ())
    if not records:
        return ()
    digest = digest_of(folder)
    return tuple(each for each in records if each.submission_sha256 in (None, digest))


def last_of(records: Sequence[Rerun], what: str) -> Rerun | None:
    """The last rerun of a kind, which is decisive; None if there was none.

    Args:
        records: Reruns of an entry, in the order of the file.
        what: `episodes` or `updates`.
    """
    return next((each for each in reversed(records) if each.what == what), None)


def own_plays(folder: Path, reruns: Reruns) -> frozenset[Place]:
    """The panels of an entry's runs for which a rerun with its weights gave the same answers.

    Args:
        folder: The entry's folder, already read successfully.
        reruns: All reruns (`read_reruns`).
    """
    # Records written by hand name no episodes, so they neither prove nor disprove a play.
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
    """Maintainers' reruns by folder name; empty without the file.

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
