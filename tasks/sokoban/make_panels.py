"""Builds the frozen panels: `python -m tasks.sokoban.make_panels`.

The files are shipped; this is how they came about and how they can be checked. Running it again
gives the same bytes.
"""

import hashlib
import json
import random
from collections.abc import Iterable
from pathlib import Path

from tasks.panels import INDEX, Panel, PanelEntry, PanelInfo, panel_bytes
from tasks.seeding import stable_seed
from tasks.sokoban.generator import TRAINING_LENGTHS, Size, generate
from tasks.sokoban.symmetry import room_key
from tasks.sokoban.task import SokobanTask
from tasks.text_task import PANELS
from tasks.trace import measured, trace_panel

ONE_BOX = "256 levels of 6x6 with one box, spread evenly over optimal lengths 3 to 14"
TWO_BOXES = "128 levels of 7x7 and 8x8 with two boxes, optimal lengths 8 to 23"
_BAND = 0.05
"""Half-width of the recorded band around the random policy's measured success."""


def _levels(
    prefix: str, plan: Iterable[tuple[Size, int]], rooms: set[str]
) -> tuple[PanelEntry, ...]:
    """One level for every (size, length) of the plan; no two in the same room."""
    entries = []
    for number, (size, length) in enumerate(plan):
        rng = random.Random(stable_seed("sokoban-panel", prefix, number))
        board = None
        while board is None or room_key(board) in rooms:
            board = generate(size, length, rng)
        rooms.add(room_key(board))
        data = {"board": list(board), "optimal_length": length}
        entries.append(PanelEntry(f"{prefix}-{number:03d}", str(length), data))
    return tuple(entries)


def write_panels(folder: Path) -> None:
    """Make all panels and their index in a folder."""
    rooms: set[str] = set()
    lengths = list(TRAINING_LENGTHS)
    one_box = [(Size(6, 6, 1), lengths[i % len(lengths)]) for i in range(256)]
    two_boxes = [(Size(7 + i % 2, 7 + i % 2, 2), 8 + i // 8) for i in range(128)]
    plans = (
        ("builtin", ONE_BOX, 15, _levels("one-box", one_box, rooms)),
        ("two_boxes", TWO_BOXES, 40, _levels("two-boxes", two_boxes, rooms)),
    )
    index = {}
    for name, description, max_turns, entries in plans:
        content = panel_bytes(entries)
        digest = hashlib.sha256(content).hexdigest()
        info = PanelInfo(name, description, len(entries), max_turns, digest, (0, 1), 1, "")
        trace = trace_panel(SokobanTask(), Panel("sokoban", info, entries))
        (folder / f"{name}.jsonl").write_bytes(content)
        index[name] = {
            "description": description,
            "episodes": len(entries),
            "max_turns": max_turns,
            "sha256": digest,
            **measured(trace, _BAND),
        }
    (folder / INDEX).write_text(json.dumps(index, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    own = SokobanTask.folder / PANELS
    own.mkdir(exist_ok=True)
    write_panels(own)
