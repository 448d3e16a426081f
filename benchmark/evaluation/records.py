"""Records: one JSON line per episode.

Records come back from outside (submissions, other machines), so the schema is strict: no extra
fields, no coercion, no NaN, sizes bounded.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal

from pydantic import (
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_core import to_json

from benchmark.evaluation.protocol import PanelProtocol
from benchmark.evaluation.rollout import Trajectory, Turn
from benchmark.evaluation.sequences import token_sequence
from benchmark.fields import (
    MAX_INFO,
    MAX_INFO_DEPTH,
    MAX_INFO_VALUES,
    MAX_TOKENS,
    MAX_TURNS,
    Count,
    Hash,
    Name,
    Number,
    Range,
    Text,
    TokenId,
)
from tasks.base import Task
from tasks.chat.messages import plain_messages
from tasks.episode import Outcome, Step, View
from tasks.seeding import canonical_json, sha256_text
from tasks.strict import Strict, first_fault

SCHEMA_VERSION: Final = 2
MAX_IMAGES: Final = 64
"""Of one observation."""
Images = Annotated[
    tuple[Hash, ...],
    Field(max_length=MAX_IMAGES, strict=False, exclude_if=lambda images: not images),
]
"""Records of texts are as they were before there were images."""


class TurnRecord(Strict):
    """One prompt and one response.

    Attributes:
        prompt_hash: Hash of the messages that were shown (`messages_hash`).
        response: The model's raw response.
        prompt_tokens: Length of the prompt, where the engine counts tokens.
        response_tokens: Length of the response, likewise.
        finish_reason: `length` if the response was cut.
        log_prob: Sum of the response's token log-probabilities, where the engine gives them.
        action: The action that was executed; null if none was.
        format_ok: The response kept the contract.
        action_ok: The world admitted the action.
        reward: The world's reward.
        observation_hash: Hash of the observation after the turn.
        info: Further facts that the task gives.
        images: Hashes of the pixels of what was seen after the turn; of texts there are none.
    """

    prompt_hash: Hash
    response: Text
    prompt_tokens: Count | None
    response_tokens: Count | None
    finish_reason: Literal["stop", "length"]
    log_prob: Number | None
    action: Text | None
    format_ok: bool
    action_ok: bool
    reward: Number
    observation_hash: Hash
    info: dict[str, Any]
    images: Images = ()

    @field_validator("info")
    @classmethod
    def _plain_json(cls, info: dict[str, Any]) -> dict[str, Any]:
        if not info:
            # Of most turns; to render all of them takes as long as the other fields do.
            return info
        _check_size(info)
        try:
            length = len(canonical_json(info))
            to_json(info)  # as records are written: not every text can be
        except TypeError as error:
            raise ValueError(f"not JSON: {error}") from error
        if length > MAX_INFO:
            raise ValueError(f"longer than {MAX_INFO} characters")
        return info


def _check_size(info: dict[str, Any]) -> None:
    """Raise `ValueError` for facts of too many values or of too many levels."""
    count = 0
    rest: list[tuple[int, Any]] = [(1, info)]
    while rest:
        depth, one = rest.pop()
        count += 1
        if count > MAX_INFO_VALUES:
            raise ValueError(f"more than {MAX_INFO_VALUES} values")
        if not isinstance(one, dict | list | tuple):
            continue
        if depth > MAX_INFO_DEPTH:
            raise ValueError(f"more than {MAX_INFO_DEPTH} levels")
        inner = one.values() if isinstance(one, dict) else one
        rest.extend((depth + 1, value) for value in inner)


class SequenceRecord(Strict):
    """The tokens of a whole episode (`benchmark.evaluation.sequences.TokenSequence`).

    Attributes:
        token_ids: All token ids, from the first prompt on.
        written: Half-open ranges of the positions whose tokens the model drew, ascending; all
            others are the prompt and what the world answered.
    """

    token_ids: Annotated[tuple[TokenId, ...], Field(max_length=MAX_TOKENS, strict=False)]
    written: Annotated[tuple[Range, ...], Field(max_length=MAX_TURNS, strict=False)]

    @field_validator("written")
    @classmethod
    def _ascending(
        cls, written: tuple[tuple[int, int], ...], info: ValidationInfo
    ) -> tuple[tuple[int, int], ...]:
        end = 0
        for start, stop in written:
            if not end <= start < stop <= len(info.data.get("token_ids", ())):
                raise ValueError("ranges must be ascending and not empty, and end with the tokens")
            end = stop
        return written

    @property
    def response_mask(self) -> list[int]:
        """1 for every sampled token, 0 for the others."""
        mask = [0] * len(self.token_ids)
        for start, stop in self.written:
            mask[start:stop] = [1] * (stop - start)
        return mask


class EpisodeRecord(Strict):
    """One play of one panel entry.

    Attributes:
        schema_version: Version of this schema.
        task: Task name.
        panel: Panel name.
        episode: Id of the panel's entry.
        repeat: Number of the play, from 0.
        category: The entry's category.
        observation_hash: Hash of the first observation; null if the world could not be set up.
        turns: All turns, in order.
        success: The goal was reached. False for an episode that ended in an error.
        score: The task's score; the worst one after an error.
        reward: Sum of the turns' rewards; the worst one after an error.
        penalty: Sum of the format penalties, not negative; after an error as if every turn that
            was not played had been invalid. The return is `reward - penalty`.
        error: Why the episode could not be played to its end; null if it was.
        sequence: All tokens, in tasks whose unit is the trajectory and where the engine gave them;
            null otherwise, or if a prompt did not go on from the one before.
        images: Hashes of the first observation's images.
    """

    schema_version: Literal[2]
    task: Name
    panel: Name
    episode: Name
    repeat: Count
    category: Name
    observation_hash: Hash | None
    turns: Annotated[tuple[TurnRecord, ...], Field(max_length=MAX_TURNS, strict=False)]
    success: bool
    score: Number
    reward: Number
    penalty: Annotated[float, Field(allow_inf_nan=False, ge=0, le=1e9)]
    error: Text | None
    sequence: SequenceRecord | None = None
    images: Images = ()

    @property
    def key(self) -> tuple[str, str, str, int]:
        """(task, panel, episode, repeat): unique within a run."""
        return self.task, self.panel, self.episode, self.repeat

    @property
    def solved(self) -> bool:
        """Whether it counts as a success: an error is a failure, whatever else the record says."""
        return self.success and self.error is None

    @property
    def episode_return(self) -> float:
        """What training maximizes: rewards minus format penalties."""
        return self.reward - self.penalty


def observation_hash(view: View) -> str:
    """Hash of a view's bare observation, as text."""
    return short_hash(view.observation)


def messages_hash(view: View) -> str:
    """Hash of the canonical JSON of a view's messages; images stand in it as hashes."""
    return short_hash(canonical_json(plain_messages(view.messages)))


def image_hashes(view: View) -> tuple[str, ...]:
    """The beginnings of the hashes of a view's images, as records have them."""
    return tuple(image.sha256[:16] for image in view.images)


def short_hash(text: str) -> str:
    """The first 16 hexadecimal digits of a text's SHA-256."""
    return sha256_text(text)[:16]


def record_of(trajectory: Trajectory) -> EpisodeRecord:
    """Turn a played trajectory into its record.

    A trajectory that no record can hold (a reward that is not a number, a response beyond all
    bounds) becomes the record of a failed episode, without its turns.
    """
    try:
        return _record(trajectory)
    except ValidationError as error:
        cause = f"this episode cannot be recorded: {first_fault(error)}"
        return _record(replace(trajectory, turns=(), outcome=None, error=cause))


def _record(trajectory: Trajectory) -> EpisodeRecord:
    job = trajectory.job
    turns = tuple(_turn_record(turn) for turn in trajectory.turns)
    totals = totals_of(job.protocol, job.task, turns, trajectory.outcome)
    return EpisodeRecord(
        schema_version=SCHEMA_VERSION,
        task=job.protocol.task,
        panel=job.protocol.panel,
        episode=job.entry.id,
        repeat=job.repeat,
        category=job.entry.category,
        observation_hash=observation_hash(trajectory.start) if trajectory.start else None,
        turns=turns,
        success=totals.success,
        score=totals.score,
        reward=totals.reward,
        penalty=totals.penalty,
        error=trajectory.error,
        sequence=_sequence(trajectory),
        images=image_hashes(trajectory.start) if trajectory.start else (),
    )


def _sequence(trajectory: Trajectory) -> SequenceRecord | None:
    if trajectory.job.task.info.unit == "turn":
        return None
    joined = token_sequence([turn.generation for turn in trajectory.turns])
    if joined is None:
        return None
    return SequenceRecord(token_ids=joined.token_ids, written=joined.written)


@dataclass(frozen=True, slots=True)
class EpisodeTotals:
    """What follows for an episode from its turns and its outcome."""

    success: bool
    score: float
    reward: float
    penalty: float


def totals_of(
    protocol: PanelProtocol, task: Task, turns: Sequence[TurnRecord], outcome: Outcome | None
) -> EpisodeTotals:
    """Add an episode up.

    Args:
        protocol: What it was played under.
        task: Its task.
        turns: All turns.
        outcome: How it ended; None after an error, which counts as the worst failure.
    """
    if outcome is None:
        worst = task.worst(protocol.max_turns)
        penalty = penalty_of(protocol, turns, unplayed=protocol.max_turns - len(turns))
        return EpisodeTotals(False, worst.score, worst.reward, penalty)
    reward = math.fsum(turn.reward for turn in turns)
    return EpisodeTotals(outcome.success, outcome.score, reward, penalty_of(protocol, turns))


def penalty_of(
    protocol: PanelProtocol,
    turns: Iterable[Step | TurnRecord],
    unplayed: int = 0,
    charged: Literal["invalid", "format"] = "invalid",
) -> float:
    """What invalid turns cost together: evaluation, replay and training take it from here.

    Args:
        protocol: Has the cost of one.
        turns: The turns, as played or as recorded.
        unplayed: Further turns that count as invalid.
        charged: Which turns cost it: all that are not valid, or those that break the format alone.
    """
    costly = sum(not (t.format_ok and (t.action_ok or charged == "format")) for t in turns)
    return protocol.format_penalty * (costly + unplayed)


def _turn_record(turn: Turn) -> TurnRecord:
    generation, step = turn.generation, turn.step
    facts: Any = step.info  # a custom task may give anything: the schema refuses it
    return TurnRecord(
        prompt_hash=messages_hash(turn.view),
        response=generation.text,
        prompt_tokens=generation.prompt_tokens,
        response_tokens=generation.response_tokens,
        finish_reason=generation.finish_reason,
        log_prob=generation.log_prob,
        action=step.action,
        format_ok=step.format_ok,
        action_ok=step.action_ok,
        reward=step.reward,
        observation_hash=observation_hash(step.view),
        info=dict(facts) if isinstance(facts, Mapping) else facts,
        images=image_hashes(step.view),
    )
