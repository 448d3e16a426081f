"""What is known of one entry of the board: the types that its file and the app share.

`arrow.py` makes the Parquet file's schema of these classes: a field is a column, a tuple a
list, None a null. Two rules hold for all numbers:

- None is unknown: it was not measured, or a log does not say. It is never 0.
- Infinite is a number: what overflowed was measured. NaN stands in curves alone, where something
  was measured and came out as no number.

Success rates and all other shares are in [0, 1]. Every text comes from outside, checked for length
and hidden characters by `submit check` but not escaped: whoever shows it must.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from leaderboard.board.training_rows import SeedCurves, Spark, Stability

PanelKey = tuple[str, str]
"""(task, panel)."""
OPEN: Final = "open"
"""Stands for a track where there is none (`benchmark.track_schema.OPEN`, which imports tasks)."""


@dataclass(frozen=True, slots=True)
class Model:
    """Which weights are meant (`benchmark.evaluation.manifest.ModelIdentity`).

    Attributes:
        name: An init's name, a folder's name, a hub id or a policy.
        kind: `init`, `folder`, `hub` or `policy`.
        revision: Commit of a hub model; None otherwise.
        sha256: Hash over the files; None for a policy, and for hub models that gave none.
    """

    name: str
    kind: str
    revision: str | None
    sha256: str | None


@dataclass(frozen=True, slots=True)
class BoardCheckpoint:
    """One set of weights that was evaluated.

    Attributes:
        seed: Of its training; 0 where there was none.
        model: Its identity.
        engines: What played it: kind, data type, device; each once.
        commands: The lines that train it again, where there is a log, and play its panels again
            (`benchmark.commands_of_entry`); boards made before that have the recorded ones.
        log_sha256: Hash of the compressed training log; None without one.
        agrees: With which of the log's validations its success agrees, in words
            (`benchmark.submissions.report_rows.agreement_text`); None without a log.
    """

    seed: int
    model: Model
    engines: tuple[str, ...]
    commands: tuple[str, ...]
    log_sha256: str | None
    agrees: str | None


@dataclass(frozen=True, slots=True)
class RecipeChoices:
    """The recipe's choice in each of the four dimensions, as the training log's start line says.

    None is unknown: there is no log, or its configuration has another form. Nothing is guessed
    from names.

    Attributes:
        advantage: Such as `grpo`.
        clipping: Such as `ppo` or `cispo + sequence mask`.
        aggregation: Such as `token-mean`.
        sampling: `plain`, or what is beyond it, such as `dynamic`.
        setting: What was given to the choices: episodes, updates, epochs and the KL penalty, in
            words.
        hashes: SHA-256 of each choice with all its constants, in this order, and of everything
            else that can move the policy but the learning rate: the task, the whole setting.
            Recipes that differ in one of the first four alone can be compared with each other.
            Empty if one of them is unknown.
    """

    advantage: str | None
    clipping: str | None
    aggregation: str | None
    sampling: str | None
    setting: str | None
    hashes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SeedSuccess:
    """Success of one checkpoint on a panel, with its interval over episodes."""

    seed: int
    success: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class DependableSuccess:
    """Success to expect of one more training run (`benchmark.stats.dependable`)."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class CategorySuccess:
    """Success on the episodes of one category, over all checkpoints, with its interval."""

    category: str
    success: float
    low: float
    high: float
    episodes: int


@dataclass(frozen=True, slots=True)
class PanelNumbers:
    """An entry on one panel. What the panel is stands in `PanelFacts`.

    Attributes:
        task: Task name.
        panel: Panel name.
        fingerprint: Of the panel's protocol.
        success: Mean over checkpoints and repeats.
        low: Lower end of its 95% interval over the panel's episodes alone; what is shown knows of
            the seeds, too (`leaderboard.table.columns.success_of`).
        high: Upper end.
        episodes: Distinct episodes: all of the panel.
        plays: Plays of each: checkpoints times repeats.
        seeds: Each checkpoint by itself, by seed.
        categories: By category, in the order of the run's summary.
        score: Mean score in the unit of `PanelFacts`; not comparable between tasks.
        format_valid: Share of responses that keep the contract, mean over checkpoints.
        action_valid: Share of responses whose action the world admitted, likewise.
        turns: Mean number of turns of an episode, likewise.
        errors: Plays that ended in an error; they count as failures.
        dependable: None with a single seed, and where it is not known of every seed whether its
            training collapsed.
    """

    task: str
    panel: str
    fingerprint: str
    success: float
    low: float
    high: float
    episodes: int
    plays: int
    seeds: tuple[SeedSuccess, ...]
    categories: tuple[CategorySuccess, ...]
    score: float
    format_valid: float
    action_valid: float
    turns: float
    errors: int
    dependable: DependableSuccess | None = None

    @property
    def key(self) -> PanelKey:
        """(task, panel)."""
        return self.task, self.panel


@dataclass(frozen=True, slots=True)
class BoardBadges:
    """What is proven (`benchmark.submissions.badges.Badges`).

    Attributes:
        replayed: Every episode was executed again and holds.
        stability: `logs`, `foreign logs` or `none`.
        init: `fixed`, `open`, or None where nothing was trained.
        rerun: Maintainers have played it again, and it holds.
        rerun_note: What came of that, or of a training, with day and name; None without.
        retrained: Updates that maintainers have trained again, with the same numbers.
        contradicted: Maintainers have played it again, and it does not hold.
    """

    replayed: bool
    stability: str
    init: str | None
    rerun: bool
    rerun_note: str | None
    retrained: int = 0
    contradicted: bool = False


@dataclass(frozen=True, slots=True)
class DeclaredData:
    """What the authors declare to have trained on.

    Attributes:
        statement: In their words.
        training_streams: Tasks whose training streams were used.
        other: Other data for one of the tasks was used.
    """

    statement: str
    training_streams: tuple[str, ...]
    other: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardRow:
    """One accepted entry, but for its curves and its single episodes (`board.Board`).

    Attributes:
        protocol: Name of the protocol that it was checked under.
        id: Name of its folder, `<yyyymmdd>_<name>`; unique within a protocol.
        name: What the board shows.
        date: Day, ISO 8601.
        authors: Names or handles.
        contact: Where questions go.
        kind: `policy`, `init` or `trained`.
        recipe: Name of the method.
        track: Name of the track that its training runs are on; `open` where they are on none, or
            nothing is known of them.
        description: What is done.
        code: https address; None if not given.
        paper: Likewise.
        base_model: What the weights were before anything; None for a policy.
        parameters: Number of weights; None for a policy.
        init: What training started from; None for a policy or an init.
        training_data: None for a policy.
        choices: The recipe's four choices.
        badges: What is proven.
        checkpoints: By seed.
        panels: In the order of play.
        stability: None without training logs.
        foreign: The same from logs of another trainer, never compared with it; None without.
        plugins: What its training logs call the plug-ins of its runs.
        submission_sha256: Hash of its `submission.json`, which names all of its files.
        sparks: The success curves of its training runs, by seed; none without logs.
    """

    protocol: str
    id: str
    name: str
    date: str
    authors: tuple[str, ...]
    contact: str
    kind: str
    recipe: str
    track: str = OPEN
    description: str
    code: str | None
    paper: str | None
    base_model: str | None
    parameters: int | None
    init: Model | None
    training_data: DeclaredData | None
    choices: RecipeChoices
    badges: BoardBadges
    checkpoints: tuple[BoardCheckpoint, ...]
    panels: tuple[PanelNumbers, ...]
    stability: Stability | None
    submission_sha256: str
    sparks: tuple[Spark, ...] = ()
    foreign: Stability | None = None
    plugins: tuple[str, ...] = ()

    @property
    def method(self) -> str:
        """The recipe as the page names it: off tracks, nothing compares it with a shipped one."""
        declared = self.kind == "trained" and self.track == OPEN
        return f"{self.recipe}, as declared" if declared else self.recipe

    @property
    def one_seed(self) -> bool:
        """Whether it is a single training run, whose intervals say nothing of another seed."""
        return self.kind == "trained" and len(self.checkpoints) == 1

    def panel(self, key: PanelKey) -> PanelNumbers | None:
        """The numbers of one panel; None if it was not played."""
        return next((panel for panel in self.panels if panel.key == key), None)

    def stability_column(self, name: str) -> float | None:
        """One of `Stability.columns`; None if it is unknown."""
        return _column(self.stability, name)

    def foreign_column(self, name: str) -> float | None:
        """The same of `foreign`."""
        return _column(self.foreign, name)


def surest_first(rows: Iterable[BoardRow]) -> list[BoardRow]:
    """Entries by how well they stand for their method where only one can: most seeds, then oldest.

    Otherwise a later entry with fewer seeds would take the place of an earlier one.
    """
    return sorted(rows, key=lambda row: (-len(row.checkpoints), row.id))


def _column(stability: Stability | None, name: str) -> float | None:
    columns = stability.columns if stability else ()
    return next((column.value for column in columns if column.name == name), None)


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Every episode of a panel, as an entry has played it.

    Attributes:
        task: Task name.
        panel: Panel name.
        solved: Solved plays of each episode, in the order of `PanelFacts.episodes`; each was
            played `PanelNumbers.plays` times.
    """

    task: str
    panel: str
    solved: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FullRow(BoardRow):
    """A whole line of the Parquet file.

    Attributes:
        curves: Of every training with a log, by seed.
        outcomes: Of every panel, in the order of `panels`.
    """

    curves: tuple[SeedCurves, ...]
    outcomes: tuple[Outcomes, ...]
