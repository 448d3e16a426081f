"""From records to numbers: the summary of one panel of a run, derived from its records alone."""

from dataclasses import dataclass

SUMMARY_VERSION = 1


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its 95 % interval.

    Attributes:
        value: The mean over episodes, then over repeats.
        low: Lower end of the interval.
        high: Upper end.
        episodes: Distinct episodes behind it (the clusters of the interval).
    """

    value: float
    low: float
    high: float
    episodes: int


@dataclass(frozen=True, slots=True)
class CategorySummary:
    """Success of the episodes of one category."""

    category: str
    success: Estimate


@dataclass(frozen=True, slots=True)
class PanelSummary:
    """All numbers of one panel of a run.

    Attributes:
        task: Task name.
        panel: Panel name.
        fingerprint: The panel's protocol fingerprint.
        expected: Records of a complete run: episodes times repeats.
        records: Records that are there.
        errors: Records of episodes that could not be played to their end; they count as failures.
        success: Success rate, Wilson interval (clustered by episode where there are repeats).
        score: Mean score in the task's unit, with a t interval over episodes.
        score_name: What the score measures.
        score_unit: Its unit.
        episode_return: Mean of rewards minus format penalties, with a t interval over episodes.
        format_valid: Share of turns that kept the response contract.
        action_valid: Share of turns whose action the world admitted.
        truncated: Share of responses that were cut at the token limit.
        turns: Mean turns per episode.
        prompt_tokens: Mean tokens per prompt; None where tokens are not counted.
        response_tokens: Mean tokens per response; None likewise.
        total_tokens: Prompt and response tokens of all turns; None likewise.
        category_name: What categories are ("optimal length").
        categories: Success by category, in the panel's order (numbers in numerical order).
        turn_counts: Episodes by number of turns: (turns, solved, failed), ascending.
        invalid_by_turn: Turns by turn number (from 1): (turn, turns played, not format_ok or not
            action_ok), ascending.
    """

    task: str
    panel: str
    fingerprint: str
    expected: int
    records: int
    errors: int
    success: Estimate
    score: Estimate
    score_name: str
    score_unit: str
    episode_return: Estimate
    format_valid: float
    action_valid: float
    truncated: float
    turns: float
    prompt_tokens: float | None
    response_tokens: float | None
    total_tokens: int | None
    category_name: str
    categories: tuple[CategorySummary, ...]
    turn_counts: tuple[tuple[int, int, int], ...]
    invalid_by_turn: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class RunSummary:
    """The content of `summary.json`.

    Attributes:
        schema_version: Version of this schema.
        fingerprint: The run's protocol fingerprint.
        complete: Every expected record is there.
        panels: One summary per panel, in the protocol's order.
    """

    schema_version: int
    fingerprint: str
    complete: bool
    panels: tuple[PanelSummary, ...]
