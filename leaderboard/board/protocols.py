"""What the board's file says beside its entries: protocols, their panels, what was refused."""

import re
from dataclasses import dataclass
from typing import Final

from leaderboard.board.rows import PanelKey

COMPARISONS: Final = re.compile(r"all-async-\d+|.+-specialist|.+-sweep-.+")
"""Names of tracks that are there to compare a method with itself on another one."""


@dataclass(frozen=True, slots=True)
class PanelFacts:
    """What a panel is, under one protocol.

    Attributes:
        task: Task name.
        panel: Panel name.
        title: The task's name for people.
        field: It is the panel that the field reports (of a task without such data, the built-in
            one).
        fingerprint: Of its protocol.
        protocol: That protocol, as canonical JSON: sampling, turn limit, versions, ...
        category_name: What categories are.
        score_name: What the score measures.
        score_unit: Its unit.
        episodes: Ids, sorted.
        categories: Category of each, in the same order.
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
    """One protocol: what is in one table.

    Attributes:
        name: Such as `v1`.
        panels: All panels that an entry has played under it, in the order of the table.
    """

    name: str
    panels: tuple[PanelFacts, ...]

    def panel(self, key: PanelKey) -> PanelFacts | None:
        """One panel; None if nobody has played it."""
        return next((panel for panel in self.panels if panel.key == key), None)


@dataclass(frozen=True, slots=True)
class Refused:
    """A submission that is not on the board though its folder is there.

    Attributes:
        id: Name of its folder.
        reasons: What the check has found; texts of the submission in it are on one line.
    """

    id: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StudyRun:
    """One finished run of this project's own study, which is not a submission.

    Attributes:
        track: Its track.
        recipe: Its recipe.
        seed: Of the training.
        success: Of the last weights on the track's validation panels, a share.
        collapse: The update at which it collapsed; None if it did not.
        cpu_minutes: Processor time of training and evaluation.
        halved: It did not collapse and ended at half of its best validation or below
            (`benchmark.stability.collapse.halved`); older boards do not say.
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
    """What the project's study says of one claim of a paper (`baselines.study.claims`).

    Attributes:
        claim: The claim, one sentence.
        track: Where it was judged.
        outcome: `reproduced`, `contradicted`, `not decided` or `incomplete`.
        numbers: What decides.
        post_hoc: It was written down or changed when its numbers were known.
    """

    claim: str
    track: str
    outcome: str
    numbers: str
    post_hoc: bool = False


@dataclass(frozen=True, slots=True)
class Grid:
    """What could be on the board: every recipe on every track, and what the study has run of it.

    Attributes:
        tracks: Names of the tracks.
        recipes: Names of the recipes.
        runs: Finished runs.
        verdicts: Claims of papers, judged by these runs.
        panels: Validation panels of each track, in the order of `tracks`, whose mean success is its
            score; empty if the builder does not say.
        impossible: Recipe and track of pairs that cannot be run: the recipe compares turns, and an
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
        number: Of the pull request.
        entry: Name of its folder; foreign text on one line.
        opened: Day, ISO 8601.
        state: What the check has said of its last commit: `waiting`, `running`, `passed`, `failed`,
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
        day: When the repository was asked, ISO 8601.
        waiting: The oldest first.
    """

    day: str
    waiting: tuple[Waiting, ...]


@dataclass(frozen=True, slots=True)
class BoardFacts:
    """What the file says beside its entries.

    Attributes:
        version: Of the file's schema.
        protocols: All protocols: today's standard one, today's other ones, older ones.
        refused: What is not accepted any more, by id.
        repository: https address of the repository that the board was built from; None if unknown.
        commit: Its commit, likewise.
        date: Day of that commit, ISO 8601, likewise.
        grid: What could be here; None if the builder does not say.
        queue: Submissions that wait, likewise.
    """

    version: int
    protocols: tuple[Protocol, ...]
    refused: tuple[Refused, ...]
    repository: str | None = None
    commit: str | None = None
    date: str | None = None
    grid: Grid | None = None
    queue: Queue | None = None
