"""Reads panels that are shipped as files: `panels/index.json` and one JSON-lines file each."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from tasks.base import Panel, PanelDefaults, PanelEntry, PanelInfo
from tasks.errors import UserError, near

INDEX = "index.json"


def read_index(folder: Path) -> Mapping[str, PanelInfo]:
    """Read what `panels/index.json` says of each panel, in its order.

    What was not measured (`random_success`, `expert_success`, `trace_sha256`) may be left out, and
    so may what is as usual of `standard`.
    """
    index = json.loads((folder / INDEX).read_text("utf-8"))
    return {
        name: PanelInfo(
            name=name,
            description=fact["description"],
            episodes=fact["episodes"],
            max_turns=fact["max_turns"],
            sha256=fact["sha256"],
            random_success=_band(fact.get("random_success")),
            expert_success=fact.get("expert_success"),
            trace_sha256=fact.get("trace_sha256"),
            standard=PanelDefaults(**fact.get("standard", {})),
        )
        for name, fact in index.items()
    }


def _band(limits: list[float] | None) -> tuple[float, float] | None:
    return None if limits is None else (limits[0], limits[1])


def read_panel(task: str, folder: Path, name: str) -> Panel:
    """Read a panel's file and check it against the index.

    Raises:
        UserError: No such panel, or the file is not the one that the index pins.
    """
    panels = read_index(folder)
    if name not in panels:
        raise UserError(f"task {task} has no panel {name!r}{near(name, tuple(panels))}")
    path = folder / f"{name}.jsonl"
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    if digest != panels[name].sha256:
        raise UserError(
            f"panel {task}/{name} was changed: {path} has SHA-256 {digest[:12]}..., "
            f"the index pins {panels[name].sha256[:12]}...; restore the file"
        )
    return Panel(task, panels[name], read_rows(content))


def read_rows(content: bytes) -> tuple[PanelEntry, ...]:
    """The entries of a panel's file."""
    rows = [json.loads(line) for line in content.decode("utf-8").splitlines()]
    return tuple(PanelEntry(row["id"], row["category"], row["data"]) for row in rows)


def panel_bytes(entries: tuple[PanelEntry, ...]) -> bytes:
    """The one byte form of a panel's file: one JSON object per line, in order."""
    rows = [{"id": entry.id, "category": entry.category, "data": entry.data} for entry in entries]
    return "".join(json.dumps(row, sort_keys=True) + "\n" for row in rows).encode()
