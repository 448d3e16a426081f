"""Writes a task's `panels/index.json`: hashes, traces and bands of its panels."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmark.files import write_atomically
from benchmark.hosts.choose import parallel_map
from tasks.base import Task
from tasks.errors import UserError
from tasks.panels import INDEX, read_facts, unmeasured_panel
from tasks.text_task import PANELS, TextTask
from tasks.texts import value_text
from tasks.trace import combine, measured, plays_of, trace_episode

HALF_WIDTH = 0.05
"""Half-width of a new band around the random policy's success, if the old one excludes it."""
_TRACE = "trace_sha256"


def pin(task: Task, env_processes: int | None = None) -> Iterator[str]:
    """Measure the panels whose files are in the task's folder, and write the index.

    A panel that was pinned without a trace (a training panel, say) gets none. A panel whose data is
    not installed keeps its old measurements.

    Args:
        task: The task.
        env_processes: See `validate`.

    Yields:
        One line per change.

    Raises:
        UserError: The task has no panels of its own, or a file or its description is missing.
    """
    if not isinstance(task, TextTask):
        raise UserError(f"{task.info.name} makes its index itself (`make_panels.py` in its folder)")
    folder = task.folder / PANELS
    old = read_facts(folder)
    new = {name: _facts(task, folder, name, facts, env_processes) for name, facts in old.items()}
    for name, facts in new.items():
        yield from _changes(f"{task.info.name}/{name}", old[name], facts)
    if new != old:
        write_atomically(folder / INDEX, f"{json.dumps(new, indent=2)}\n".encode())


def _facts(
    task: TextTask[Any], folder: Path, name: str, old: Mapping[str, Any], processes: int | None
) -> dict[str, Any]:
    """A panel's new index entry, in the order of the old facts."""
    if old.get("sha256") == "":
        return dict(old)  # its entries come with downloaded data, and so does its hash
    panel = unmeasured_panel(task.info.name, folder, name, old["description"], old["max_turns"])
    facts = {**old, "episodes": panel.info.episodes, "sha256": panel.info.sha256}
    unmeasured = "sha256" in old and _TRACE not in old
    if unmeasured or ("sha256" in old and not task.available(name)):
        return facts
    plays = ((task, play) for play in plays_of(panel))
    trace = combine(panel, parallel_map(trace_episode, plays, processes))
    facts |= measured(trace, HALF_WIDTH)
    low, high = old.get("random_success", (1.0, 0.0))
    if low <= trace.random_success <= high:
        facts["random_success"] = [low, high]
    return facts


def _changes(panel: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for key, value in new.items():
        if value != old.get(key):
            before = f"{value_text(old[key])} -> " if key in old else ""
            yield f"{panel}: {key} {before}{value_text(value)}"
    if _TRACE in old and new[_TRACE] != old[_TRACE]:
        yield (
            f"{panel} now plays differently: raise `version` in TaskInfo, unless nobody has "
            "played it yet"
        )
    if old.get("sha256", new["sha256"]) != new["sha256"]:
        yield f"{panel} has other episodes: give it a new name, unless nobody has played it yet"
