"""Small valid protocols, manifests and records for tests to modify."""

from collections.abc import Sequence
from typing import Any, Literal

from benchmark.engines.core.base import Sampling
from benchmark.evaluation.manifest import SCHEMA_VERSION as MANIFEST_VERSION
from benchmark.evaluation.manifest import Manifest, Shard
from benchmark.evaluation.protocol import PanelProtocol, run_fingerprint
from benchmark.evaluation.records import SCHEMA_VERSION, EpisodeRecord, TurnRecord, short_hash
from benchmark.models import ModelIdentity
from tasks.presentation import Presentation
from tasks.seeding import sha256_text

TASKS = {
    "sokoban": Presentation(
        title="Sokoban",
        summary="Push boxes onto targets.",
        score_name="reward",
        score_unit="points",
        category_name="optimal length",
    ),
    "webshop": Presentation(
        title="WebShop",
        summary="Buy what is asked for.",
        score_name="match",
        score_unit="%",
        category_name="department",
    ),
}
"""Task facts for summaries and comparisons that need no installed task."""


def make_protocol(
    task: str = "sokoban", panel: str = "builtin", episodes: int = 4, **changes: Any
) -> PanelProtocol:
    """The protocol of a panel that need not exist."""
    fields: dict[str, Any] = {
        "task_version": "1",
        "panel_sha256": sha256_text(f"{task}/{panel}"),
        "max_turns": 15,
        "history_turns": 2,
        "format_penalty": 0.1,
        "contract": "think-action-1",
        "prompt_sha256": sha256_text("prompt"),
        "trace_sha256": sha256_text("trace"),
        "settings": {},
        "packages": {},
        "sampling": Sampling(),
    }
    return PanelProtocol(task=task, panel=panel, episodes=episodes, **fields | changes)


def make_manifest(
    *panels: PanelProtocol, model: str = "tiny-sokoban", shard: Shard | None = None
) -> Manifest:
    """A run's manifest; without given panels it plays `make_protocol()`."""
    panels = panels or (make_protocol(),)
    return Manifest(
        schema_version=MANIFEST_VERSION,
        fingerprint=run_fingerprint(panels),
        panels=panels,
        overrides=panels[0].overrides,
        model=ModelIdentity(name=model, kind="folder", sha256=sha256_text(model)),
        engine={"kind": "transformers", "dtype": "float32"},
        versions={"arlarena-bench": "0.1.0"},
        command=("arlarena-bench", "eval", "--model", model),
        created="2026-01-01T00:00:00+00:00",
        shard=shard,
    )


def make_turn(
    response: str = "<think>right</think><action>right</action>",
    action: str | None = "right",
    format_ok: bool = True,
    action_ok: bool = True,
    reward: float = -0.1,
    finish_reason: Literal["stop", "length"] = "stop",
    prompt_tokens: int | None = 100,
    response_tokens: int | None = 10,
) -> TurnRecord:
    """One turn, with hashes of made-up texts."""
    return TurnRecord(
        prompt_hash=short_hash("prompt"),
        response=response,
        prompt_tokens=prompt_tokens,
        response_tokens=response_tokens,
        finish_reason=finish_reason,
        log_prob=None,
        action=action,
        format_ok=format_ok,
        action_ok=action_ok,
        reward=reward,
        observation_hash=short_hash("observation"),
        info={},
    )


def make_record(
    episode: str = "e0",
    success: bool = True,
    *,
    repeat: int = 0,
    task: str = "sokoban",
    panel: str = "builtin",
    category: str = "1",
    turns: int | Sequence[TurnRecord] = 1,
    score: float | None = None,
    error: str | None = None,
) -> EpisodeRecord:
    """One play, with rewards and penalties derived from its turns.

    Args:
        episode: Id of the panel entry.
        success: Whether the goal was reached; never with an error.
        repeat: Number of the play.
        task: Task name.
        panel: Panel name.
        category: The entry's category.
        turns: All turns, or the number of plain ones.
        score: The task's score; None for 1 after a success and 0 otherwise.
        error: The error that ended the play early.
    """
    played = tuple(make_turn() for _ in range(turns)) if isinstance(turns, int) else tuple(turns)
    solved = success and error is None
    invalid = sum(not (turn.format_ok and turn.action_ok) for turn in played)
    return EpisodeRecord(
        schema_version=SCHEMA_VERSION,
        task=task,
        panel=panel,
        episode=episode,
        repeat=repeat,
        category=category,
        observation_hash=short_hash(episode),
        turns=played,
        success=solved,
        score=float(solved) if score is None else score,
        reward=sum(turn.reward for turn in played),
        penalty=0.1 * invalid,
        error=error,
    )
