"""The numbers of a run, and `summary.json`, which holds them."""

import json
from dataclasses import asdict, dataclass, replace
from typing import Any

from benchmark.evaluation.manifest import ENGINE_FACTS, Manifest
from benchmark.stats.formatting import rate_text

SUMMARY_VERSION = 1

PanelKey = tuple[str, str]
"""(task, panel)."""


@dataclass(frozen=True, slots=True)
class MeanInterval:
    """A mean with its 95% interval.

    Without any episode the value is 0, which only `episodes` = 0 reveals; the interval of a success
    rate is then [0, 1]. The t interval of a single episode has zero width: its spread is unknown.

    Attributes:
        value: The mean over episodes, then over repeats.
        low: Lower end of the interval.
        high: Upper end.
        episodes: Number of distinct episodes (the clusters of the interval).
    """

    value: float
    low: float
    high: float
    episodes: int

    @property
    def percent(self) -> str:
        """A rate with its interval, such as `54.3% [48.2, 60.3]`."""
        return rate_text(self.value, self.low, self.high)


@dataclass(frozen=True, slots=True)
class PassAt:
    """How many episodes are solved at least once in k plays.

    Attributes:
        k: Number of plays.
        success: The unbiased estimate, with Wilson's interval over episodes.
    """

    k: int
    success: MeanInterval


@dataclass(frozen=True, slots=True)
class CategorySummary:
    """Success of the episodes of one category.

    Attributes:
        category: Its name.
        success: As in `PanelSummary`.
        pass_at: As in `PanelSummary`.
    """

    category: str
    success: MeanInterval
    pass_at: tuple[PassAt, ...] = ()

    def solved_in(self, k: int) -> float | None:
        """The value of pass@k; None if it is not known."""
        return next((passed.success.value for passed in self.pass_at if passed.k == k), None)


@dataclass(frozen=True, slots=True)
class PanelSummary:
    """All numbers of one panel of a run.

    Attributes:
        task: Task name.
        panel: Panel name.
        fingerprint: The panel's protocol fingerprint.
        expected: Records of a complete run: episodes times repeats, or a shard's part of them.
        records: Available records.
        errors: Records of episodes that could not be completed; they count as failures.
        success: Success rate, Wilson interval (clustered by episode if there are repeats).
        pass_at: Episodes solved at least once in k plays, for k = 2, 4, 8, ... and the number of
            plays that every episode has; empty if that is 1.
        score: Mean score in the task's unit, with a t interval over episodes; 0 after an error.
        score_name: What the score measures.
        score_unit: Its unit.
        episode_return: Mean of rewards minus format penalties, with a t interval over episodes.
        format_valid: Share of turns in the required format; 0 if there are no turns.
        action_valid: Share of turns whose action the environment accepted; likewise.
        truncated: Share of responses truncated at the token limit; likewise.
        turns: Mean turns per play.
        prompt_tokens: Mean tokens per prompt, over counted prompts; None if none was counted.
        response_tokens: Mean tokens per response; likewise.
        total_tokens: Prompt and response tokens of all turns; None unless all were counted.
        category_name: What the categories stand for ("optimal length").
        categories: Success by category, in numerical order if all categories are numbers, else in
            alphabetical order.
        turn_counts: Plays by number of turns: (turns, solved, failed), ascending.
        invalid_by_turn: Turns by turn number (from 1): (turn, turns played, not format_ok or not
            action_ok), ascending.
    """

    task: str
    panel: str
    fingerprint: str
    expected: int
    records: int
    errors: int
    success: MeanInterval
    pass_at: tuple[PassAt, ...]
    score: MeanInterval
    score_name: str
    score_unit: str
    episode_return: MeanInterval
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
        complete: Every expected record exists (for a shard: its part).
        panels: One summary per panel, in the protocol's order.
        model: The model's identity, as in `run.json`; None in a summary of numbers alone.
        engine: The engine's facts that can change a result; None likewise.
        part: Which part of its panels the run covers; None for whole panels, and likewise.
    """

    schema_version: int
    fingerprint: str
    complete: bool
    panels: tuple[PanelSummary, ...]
    model: dict[str, str | None] | None = None
    engine: dict[str, Any] | None = None
    part: str | None = None


def named(summary: RunSummary, manifest: Manifest) -> RunSummary:
    """A summary with the identities of its model and engine."""
    facts = {fact: manifest.engine[fact] for fact in ENGINE_FACTS if fact in manifest.engine}
    return replace(summary, model=manifest.model.model_dump(), engine=facts, part=manifest.part)


def summary_json(summary: RunSummary) -> str:
    """The content of `summary.json`: sorted keys, floats in their shortest exact form."""
    content = asdict(summary)
    for name in ("model", "engine", "part"):
        if content[name] is None:
            del content[name]
    return json.dumps(content, sort_keys=True, indent=2, allow_nan=False) + "\n"
