"""Facts in the board's file besides its entries: protocols, panels, refused submissions."""

import re
from dataclasses import dataclass
from typing import Final

from leaderboard.board.rows import PanelKey

COMPARISONS: Final = re.compile(r"all-async-\d+|.+-specialist|.+-sweep-.+")
"""Names of tracks that exist to compare a method with itself on another track."""


@dataclass(frozen=True, slots=True)
class PanelFacts:
    """Facts about a panel under one protocol.

    Attributes:
        task: Task name.
        panel: Panel name.
        title: The task's display name.
        field: Whether the field reports on this panel (for a task without such data, whether it is
            the built-in one).
        fingerprint: Fingerprint of its protocol.
        protocol: Its protocol as canonical JSON: sampling, turn limit, versions, ...
        category_name: What the categories stand for.
        score_name: What the score measures.
        score_unit: Unit of the score.
        episodes: Episode ids, sorted.
        categories: Category of each episode, in the same order.
    """

    task: str
    panel: str
    title: str
    field: bool
    fingerprint: str
    protocol: str
    category_name: str
    score_name: str
    score_unit: str
    episodes: tuple[str, ...]
    categories: tuple[str, ...]

    @property
    def key(self) -> PanelKey:
        """(task, panel)."""
        return self.task, self.panel


@dataclass(frozen=True, slots=True)
class Protocol:
    """One protocol, which has one table.

    Attributes:
        name: Its name, such as `v1`.
        panels: All panels that an entry has played under it, in the order of the table.
    """

    name: str
    panels: tuple[PanelFacts, ...]

    def panel(self, key: PanelKey) -> PanelFacts | None:
        """One panel; None if no entry has played it."""
        return next((panel for panel in self.panels if panel.key == key), None)


@dataclass(frozen=True, slots=True)
class Refused:
    """A submission that is not on the board although its folder exists.

    Attributes:
        id: Name of its folder.
        reasons: Findings of the check; texts from the submission in them are on one line.
    """

    id: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StudyRun:
    """One finished run of this project's own study, which is not a submission.

    Attributes:
        track: Its track.
        recipe: Its recipe.
        seed: Training seed.
        success: Success rate of the last weights on the track's validation panels.
        collapse: The update at which it collapsed; None if it did not.
        cpu_minutes: CPU time of training and evaluation.
        halved: It did not collapse but ended at half of its best validation or below
            (`benchmark.stability.collapse.halved`); missing in older boards.
    """

    track: str
    recipe: str
    seed: int
    success: float
    collapse: int | None
    cpu_minutes: float
    halved: bool = False


@dataclass(frozen=True, slots=True)
class StudyVerdict:
    """The verdict of the project's study on one claim of a paper (`baselines.study.claims`).

    Attributes:
        claim: The claim in one sentence.
        track: The track on which it was judged.
        outcome: `reproduced`, `contradicted`, `not decided` or `incomplete`.
        numbers: The deciding numbers.
        post_hoc: It was written or changed when its numbers were known.
    """

    claim: str
    track: str
    outcome: str
    numbers: str
    post_hoc: bool = False


@dataclass(frozen=True, slots=True)
class Grid:
    """What could be on the board: every recipe on every track, with the study's runs.

    Attributes:
        tracks: Names of the tracks.
        recipes: Names of the recipes.
        runs: Finished runs.
        verdicts: Verdicts on claims of papers, based on these runs.
        panels: Validation panels of each track, in the order of `tracks`, whose mean success is its
            score; empty if not provided.
        impossible: Pairs of recipe and track that cannot be run: the recipe compares turns, but an
            episode of the track is one sequence.
    """

    tracks: tuple[str, ...]
    recipes: tuple[str, ...]
    runs: tuple[StudyRun, ...]
    verdicts: tuple[StudyVerdict, ...] = ()
    panels: tuple[tuple[PanelKey, ...], ...] = ()
    impossible: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Waiting:
    """An open pull request that submits an entry.

    Attributes:
        number: Number of the pull request.
        entry: Name of its folder; untrusted text on one line.
        opened: Day, ISO 8601.
        state: State of the check of its last commit: `waiting`, `running`, `passed`, `failed`,
            `rerun`.
    """

    number: int
    entry: str
    opened: str
    state: str


@dataclass(frozen=True, slots=True)
class Queue:
    """Submissions that wait for a decision.

    Attributes:
        day: Day of the query, ISO 8601.
        waiting: Pull requests, the oldest first.
    """

    day: str
    waiting: tuple[Waiting, ...]


@dataclass(frozen=True, slots=True)
class BoardFacts:
    """Facts in the file besides its entries.

    Attributes:
        version: Version of the file's schema.
        protocols: All protocols: the current standard one, other current ones, older ones.
        refused: Submissions that are not accepted, by id.
        repository: https address of the repository that the board was built from; None if unknown.
        commit: Its commit, likewise.
        date: Day of that commit, ISO 8601, likewise.
        grid: What could be on the board; None if not provided.
        queue: Waiting submissions, likewise.
    """

    version: int
    protocols: tuple[Protocol, ...]
    refused: tuple[Refused, ...]
    repository: str | None = None
    commit: str | None = None
    date: str | None = None
    grid: Grid | None = None
    queue: Queue | None = None
