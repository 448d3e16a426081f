"""Facts about one entry of the board: the types shared by its file and the app.

`arrow.py` derives the Parquet file's schema from these classes: a field is a column, a tuple a
list, None a null. Two rules hold for all numbers:

- None means unknown: not measured, or missing in a log. It is never 0.
- Infinity is a number: an overflow was measured. NaN occurs only in curves, where a measured value
  was not a number.

Success rates and all other shares are in [0, 1]. Every text is untrusted: `submit check` has
checked its length and hidden characters, but code that shows it must escape it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from leaderboard.board.training_rows import SeedCurves, Spark, Stability

PanelKey = tuple[str, str]
"""(task, panel)."""
OPEN: Final = "open"
"""Track name of runs without a track (`benchmark.track_schema.OPEN`, which imports tasks)."""


@dataclass(frozen=True, slots=True)
class Model:
    """Identity of weights (`benchmark.evaluation.manifest.ModelIdentity`).

    Attributes:
        name: An init's name, a folder's name, a hub id or a policy.
        kind: `init`, `folder`, `hub` or `policy`.
        revision: Commit of a hub model; None otherwise.
        sha256: Hash of the files; None for a policy, and for hub models without one.
    """

    name: str
    kind: str
    revision: str | None
    sha256: str | None


@dataclass(frozen=True, slots=True)
class BoardCheckpoint:
    """One evaluated set of weights.

    Attributes:
        seed: Its training seed; 0 without training.
        model: Its identity.
        engines: The engines that played it: kind, data type, device; each once.
        commands: Commands that repeat its training, if there is a log, and its evaluation
            (`benchmark.commands_of_entry`); older boards have the recorded ones.
        log_sha256: Hash of the compressed training log; None without one.
        agrees: Text on which of the log's validations its success agrees with
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
    """The recipe's choice in each of the four dimensions, from the training log's start line.

    None means unknown: there is no log, or its configuration has another format. Nothing is guessed
    from names.

    Attributes:
        advantage: Such as `grpo`.
        clipping: Such as `ppo` or `cispo + sequence mask`.
        aggregation: Such as `token-mean`.
        sampling: `plain`, or its additions, such as `dynamic`.
        setting: Description of the setting: episodes, updates, epochs and the KL penalty.
        hashes: SHA-256 of each choice with all its constants, in this order, and of everything else
            that can affect the policy, except the learning rate: the task, the whole setting. Of
            choices that are not shipped, the code of plug-ins is a part.
            Recipes that differ in only one of the first four can be compared. Empty if one of them
            is unknown.
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
    """Expected success of one more training run (`benchmark.stats.dependable`)."""

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
    """An entry's numbers on one panel; `PanelFacts` describes the panel.

    Attributes:
        task: Task name.
        panel: Panel name.
        fingerprint: Fingerprint of the panel's protocol.
        success: Mean success over checkpoints and repeats.
        low: Lower end of its 95% interval over the panel's episodes alone; the displayed interval
            also accounts for the seeds (`leaderboard.table.columns.success_of`).
        high: Upper end.
        episodes: Number of distinct episodes: all of the panel.
        plays: Plays per episode: checkpoints times repeats.
        seeds: Success of each checkpoint, by seed.
        categories: Success by category, in the order of the run's summary.
        score: Mean score in the unit of `PanelFacts`; not comparable between tasks.
        format_valid: Share of responses in the required format, mean over checkpoints.
        action_valid: Share of responses whose action the environment accepted, likewise.
        turns: Mean number of turns per episode, likewise.
        errors: Plays that ended in an error; they count as failures.
        dependable: Dependable success; None with a single seed, or if it is unknown for a seed
            whether its training collapsed.
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
    """Verified properties (`benchmark.submissions.badges.Badges`).

    Attributes:
        replayed: Every episode was replayed successfully.
        stability: `logs`, `foreign logs` or `none`.
        init: `fixed`, `open`, or None if nothing was trained.
        rerun: Maintainers have repeated the evaluation, and it holds.
        rerun_note: Result of repeating the evaluation or training, with day and name; None without.
        retrained: Number of updates that maintainers have repeated with the same numbers.
        contradicted: Maintainers have repeated the evaluation, and it does not hold.
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
    """Training data declared by the authors.

    Attributes:
        statement: Their statement.
        training_streams: Tasks whose training streams were used.
        other: Whether other data for one of the tasks was used.
    """

    statement: str
    training_streams: tuple[str, ...]
    other: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardRow:
    """One accepted entry, without its curves and individual episodes (`board.Board`).

    Attributes:
        protocol: Name of the protocol under which it was checked.
        id: Name of its folder, `<yyyymmdd>_<name>`; unique within a protocol.
        name: Its display name.
        date: Day, ISO 8601.
        authors: Names or handles.
        contact: Contact for questions.
        kind: `policy`, `init` or `trained`.
        recipe: Name of the method.
        track: Name of the track of its training runs; `open` if they have none, or if it is
            unknown.
        description: Description of the entry.
        code: https address; None if not given.
        paper: Likewise.
        base_model: The original pretrained weights; None for a policy.
        parameters: Number of weights; None for a policy.
        init: The initial weights of training; None for a policy or an init.
        training_data: Declared training data; None for a policy.
        choices: The recipe's four choices.
        badges: Its badges.
        checkpoints: Checkpoints by seed.
        panels: Numbers by panel, in the order of play.
        stability: Stability of its training runs; None without training logs.
        foreign: The same from another trainer's logs, never compared with it; None without them.
        plugins: Names of the plug-ins in its training logs.
        submission_sha256: Hash of its `submission.json`, which names all of its files.
        sparks: The success curves of its training runs, by seed; empty without logs.
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
        """The recipe's name on the page; only a track compares it with a shipped recipe."""
        declared = self.kind == "trained" and self.track == OPEN
        return f"{self.recipe}, as declared" if declared else self.recipe

    @property
    def one_seed(self) -> bool:
        """Whether it is a single training run, whose intervals do not cover other seeds."""
        return self.kind == "trained" and len(self.checkpoints) == 1

    def panel(self, key: PanelKey) -> PanelNumbers | None:
        """The numbers of one panel; None if it was not played."""
        return next((panel for panel in self.panels if panel.key == key), None)

    def stability_column(self, name: str) -> float | None:
        """One of `Stability.columns`; None if it is unknown."""
        return _column(self.stability, name)

    def foreign_column(self, name: str) -> float | None:
        """The same for `foreign`."""
        return _column(self.foreign, name)


def surest_first(rows: Iterable[BoardRow]) -> list[BoardRow]:
    """Sort entries by how well they represent their method: most seeds first, then oldest.

    Otherwise a later entry with fewer seeds could replace an earlier one.
    """
    return sorted(rows, key=lambda row: (-len(row.checkpoints), row.id))


def _column(stability: Stability | None, name: str) -> float | None:
    columns = stability.columns if stability else ()
    return next((column.value for column in columns if column.name == name), None)


@dataclass(frozen=True, slots=True)
class Outcomes:
    """An entry's outcomes on every episode of a panel.

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
    """A full row of the Parquet file.

    Attributes:
        curves: Curves of every training run with a log, by seed.
        outcomes: Outcomes on every panel, in the order of `panels`.
    """

    curves: tuple[SeedCurves, ...]
    outcomes: tuple[Outcomes, ...]
