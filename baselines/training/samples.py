"""Rollout samples: texts of a few rows, next to the log."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from baselines.rollouts.rows import Row
from benchmark.engines.core.chat import Chat
from benchmark.files import write_atomically
from tasks.texts import without_middle

SAMPLES: Final = "samples"
ROWS: Final = 16
"""Rows per sampled update: the first turns of the first episodes."""
LONGEST: Final = 8_000
"""Maximum characters of a prompt or response; the middle of a longer one is omitted."""


def write_samples(folder: Path, update: int, rows: Sequence[Row], chat: Chat) -> Path:
    """Write the texts of an update's first rows, at most about 250 kB, as JSON lines.

    Args:
        folder: The run's folder.
        update: Number of the update that learned from them.
        rows: All rows, in order.
        chat: The policy's tokenizer.

    Returns:
        The file; one left by a stopped session is replaced.

    Raises:
        OSError: It cannot be written.
    """
    path = folder / SAMPLES / f"update-{update:06d}.jsonl"
    path.parent.mkdir(exist_ok=True)
    lines = [json.dumps(_sample(row, chat), ensure_ascii=False) for row in rows[:ROWS]]
    write_atomically(path, "".join(f"{line}\n" for line in lines).encode())
    return path


def _sample(row: Row, chat: Chat) -> dict[str, Any]:
    """A row as text, including special tokens."""
    return {
        "task": row.task,
        "group": row.group,
        "member": row.member,
        "turn": row.turn,
        "prompt": _text(row.prompt_ids.tolist(), chat),
        "response": _text(row.response_ids.tolist(), chat),
        "reward": row.reward,
        "penalty": row.penalty,
        "success": row.success,
    }


def _text(ids: Sequence[int], chat: Chat) -> str:
    return without_middle(chat.prompt_text(ids), LONGEST, LONGEST // 2, "[{} characters]")
