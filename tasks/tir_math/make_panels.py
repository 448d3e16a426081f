"""Builds the frozen panel and the index: `python -m tasks.tir_math.make_panels`.

The files are shipped; this is how they came about and how they can be checked. Running it again
gives the same bytes. The field's panels have no file here: reading their data computes their hash.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from tasks.base import Task
from tasks.panels import BUILTIN, INDEX, Panel, PanelInfo, panel_bytes
from tasks.registry import load_task
from tasks.tir_math.hub import field_panels
from tasks.tir_math.problems.stream import builtin_entries
from tasks.trace import measured, trace_panel

PANELS = Path(__file__).parent / "panels"
DESCRIPTION = "250 generated problems that a program solves: 25 kinds, 50 of each level"
MAX_TURNS = 5
MAX_TOKENS = 4096
"""Longest response of the standard protocol, as in the field."""
SAMPLED = {"temperature": 0.6, "top_p": 0.95, "top_k": 20, "repeats": 8}
"""Sampling of the panels with 30 problems, as in the field: one greedy play of each says little."""
FEW = 100
"""Problems below which a panel is sampled."""
_BAND = 0.02
"""Half-width of the recorded band around the random policy's measured success."""


def write_panels(folder: Path, task: Task | None) -> None:
    """Make the built-in panel and the index of all panels in a folder.

    Args:
        folder: Where to.
        task: Whose scripted players are measured; None leaves what they reach out of the index.
    """
    entries = builtin_entries()
    content = panel_bytes(entries)
    digest = hashlib.sha256(content).hexdigest()
    facts = _facts(DESCRIPTION, len(entries), digest)
    if task is not None:
        info = PanelInfo(BUILTIN, DESCRIPTION, len(entries), MAX_TURNS, digest, None, None, None)
        trace = trace_panel(task, Panel("tir_math", info, entries))
        facts |= measured(trace, _BAND)
    index = {BUILTIN: facts}
    for name, panel in field_panels().items():
        index[name] = _facts(panel.description, panel.episodes, "")
        if panel.episodes < FEW:
            index[name]["standard"] |= SAMPLED
    (folder / f"{BUILTIN}.jsonl").write_bytes(content)
    (folder / INDEX).write_text(json.dumps(index, indent=2) + "\n", "utf-8")


def _facts(description: str, episodes: int, sha256: str) -> dict[str, Any]:
    return {
        "description": description,
        "episodes": episodes,
        "max_turns": MAX_TURNS,
        "sha256": sha256,
        "standard": {"max_tokens": MAX_TOKENS},
    }


if __name__ == "__main__":
    PANELS.mkdir(exist_ok=True)
    write_panels(PANELS, load_task("tir_math"))
