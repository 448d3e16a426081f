"""Panels: pinned, ordered lists of episodes, and their files.

A task ships `panels/index.json`, which says what is known of each panel, and one file of JSON lines
a panel.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.errors import UserError, suggestion
from tasks.texts import digest_text

INDEX = "index.json"


@dataclass(frozen=True, slots=True)
class PanelEntry:
    """One episode of a panel.

    Attributes:
        id: Unique within its task; stands in every record.
        category: The group it is reported under (an optimal length, a task type, a level).
        data: What the task needs to set the world up; JSON values only.
    """

    id: str
    category: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PanelDefaults:
    """How the standard protocol plays a panel: greedily and once, where nothing else is said.

    Attributes:
        max_tokens: Longest response, in tokens.
        temperature: 0 is greedy decoding.
        top_p: Nucleus; 1 is off.
        top_k: Number of candidates; 0 is off.
        repeats: Plays of every episode.
    """

    max_tokens: int = 512
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    repeats: int = 1


@dataclass(frozen=True, slots=True)
class PanelInfo:
    """What is known of a panel without reading it.

    Attributes:
        name: `builtin`, or the field's own name of the data.
        description: One line for people.
        episodes: Number of entries.
        max_turns: Turns after which an episode ends.
        sha256: Hash of the panel's file.
        random_success: Band (low, high) in which the random policy's success must lie; None where
            it was not measured.
        expert_success: Success that the scripted expert reaches at least; None likewise.
        trace_sha256: Hash over everything the expert's and the random policy's episodes showed and
            paid. It changes when the world does: then the task's version must change too. None
            where it was not measured.
        standard: How the standard protocol plays it.
    """

    name: str
    description: str
    episodes: int
    max_turns: int
    sha256: str
    random_success: tuple[float, float] | None
    expert_success: float | None
    trace_sha256: str | None
    standard: PanelDefaults = PanelDefaults()


@dataclass(frozen=True, slots=True)
class Panel:
    """A pinned, ordered list of episodes; every one is played once per repeat."""

    task: str
    info: PanelInfo
    entries: tuple[PanelEntry, ...]

    @property
    def name(self) -> str:
        """The panel's name within its task."""
        return self.info.name


def read_index(folder: Path) -> Mapping[str, PanelInfo]:
    """Read what `panels/index.json` says of each panel, in its order.

    What was not measured (`random_success`, `expert_success`, `trace_sha256`) may be left out, and
    so may what is as usual of `standard`.

    Raises:
        UserError: There is no such file, or it lacks something.
    """
    return {name: _info(folder, name, fact) for name, fact in read_facts(folder).items()}


def read_facts(folder: Path) -> dict[str, dict[str, Any]]:
    """`panels/index.json` as it is written.

    Raises:
        UserError: There is no such file, or it is not JSON.
    """
    path = folder / INDEX
    try:
        facts: dict[str, dict[str, Any]] = json.loads(path.read_text("utf-8"))
    except FileNotFoundError as error:
        raise UserError(
            f"{path} is missing: write description and max_turns of each panel, then run "
            f"{pin_command(folder.parent.name)}"
        ) from error
    except ValueError as error:
        raise UserError(f"{path} is not JSON: {error}") from error
    return facts


def pin_command(task: str) -> str:
    """The command that pins the panels of a task."""
    return f"arlarena-bench validate {task} --pin"


def _info(folder: Path, name: str, fact: Mapping[str, Any]) -> PanelInfo:
    try:
        return PanelInfo(
            name=name,
            description=fact["description"],
            max_turns=fact["max_turns"],
            episodes=fact["episodes"],
            sha256=fact["sha256"],
            random_success=_band(fact.get("random_success")),
            expert_success=fact.get("expert_success"),
            trace_sha256=fact.get("trace_sha256"),
            standard=PanelDefaults(**fact.get("standard", {})),
        )
    except KeyError as error:
        raise UserError(
            f"{folder / INDEX}: panel {name} has no {error.args[0]}; run "
            f"{pin_command(folder.parent.name)}"
        ) from error


def _band(limits: list[float] | None) -> tuple[float, float] | None:
    return None if limits is None else (limits[0], limits[1])


def read_panel(task: str, folder: Path, name: str) -> Panel:
    """Read a panel's file and check it against the index.

    Raises:
        UserError: No such panel, or the file is not the one that the index pins.
    """
    panels = read_index(folder)
    if name not in panels:
        raise UserError(f"task {task} has no panel {name!r}{suggestion(name, tuple(panels))}")
    content = panel_content(folder, name)
    digest = hashlib.sha256(content).hexdigest()
    if digest != panels[name].sha256:
        raise UserError(
            f"panel {task}/{name} was changed: {folder / name}.jsonl has SHA-256 "
            f"{digest_text(digest)}, the index pins {digest_text(panels[name].sha256)}; restore "
            f"the file, or give a panel that nobody has played yet its new hash: "
            f"{pin_command(folder.parent.name)}"
        )
    return Panel(task, panels[name], read_rows(content))


def panel_content(folder: Path, name: str) -> bytes:
    """A panel's file.

    Raises:
        UserError: There is none.
    """
    path = folder / f"{name}.jsonl"
    if not path.is_file():
        raise UserError(f"{path} is missing: the entries of panel {name}, one JSON object a line")
    return path.read_bytes()


def read_rows(content: bytes) -> tuple[PanelEntry, ...]:
    """The entries of a panel's file.

    Raises:
        UserError: A line is not an entry.
    """
    return tuple(_entry(*line) for line in enumerate(content.decode("utf-8").splitlines(), 1))


def _entry(number: int, line: str) -> PanelEntry:
    try:
        row = json.loads(line)
        return PanelEntry(row["id"], row["category"], row["data"])
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"line {number} of a panel's file is not an entry with id, category and data: {error!r}"
        ) from error


def panel_bytes(entries: tuple[PanelEntry, ...]) -> bytes:
    """The one byte form of a panel's file: one JSON object per line, in order."""
    rows = [{"id": entry.id, "category": entry.category, "data": entry.data} for entry in entries]
    return "".join(json.dumps(row, sort_keys=True) + "\n" for row in rows).encode()
