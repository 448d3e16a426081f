"""Panels: pinned, ordered lists of episodes, and their files.

A task ships `panels/index.json`, which says what is known of each panel, and one file of JSON lines
a panel.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tasks.errors import UserError, suggestion
from tasks.texts import digest_text

if TYPE_CHECKING:
    from pydantic import ConfigDict, TypeAdapter

INDEX = "index.json"
BUILTIN = "builtin"
"""Name of the panel that every task has, and has on every machine."""
_STRICT: Final["ConfigDict"] = {"extra": "forbid", "strict": True}


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


LEAST_TEMPERATURE: Final = 0.01
"""Of sampling. vLLM takes lower ones for this one, and other engines do not."""


def is_temperature(value: float) -> bool:
    """Whether all engines sample alike at a temperature: 0, greedy decoding, or a warm one."""
    return value == 0 or LEAST_TEMPERATURE <= value < math.inf


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

    __pydantic_config__: ClassVar["ConfigDict"] = _STRICT

    max_tokens: int = 512
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    repeats: int = 1

    def __post_init__(self) -> None:
        if self.max_tokens < 1 or self.repeats < 1 or self.top_k < 0:
            raise ValueError("max_tokens and repeats are at least 1, top_k at least 0")
        if not (is_temperature(self.temperature) and 0 < self.top_p <= 1):
            raise ValueError(
                f"temperature is 0 or at least {LEAST_TEMPERATURE}, top_p above 0 and at most 1"
            )


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
class _Facts:
    """What `panels/index.json` says of a panel; see `PanelInfo`.

    The two that pinning adds, `episodes` and `sha256`, are missing in an index that was just
    written.
    """

    __pydantic_config__: ClassVar["ConfigDict"] = _STRICT

    description: str
    max_turns: int
    episodes: int | None = None
    sha256: str | None = None
    random_success: tuple[float, float] | None = None
    expert_success: float | None = None
    trace_sha256: str | None = None
    catalogue_sha256: str | None = None
    standard: PanelDefaults = PanelDefaults()

    def __post_init__(self) -> None:
        if self.max_turns < 1:
            raise ValueError("max_turns is at least 1")


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
        UserError: There is no such file, something in it is wrong, or a panel is not pinned.
    """
    return {name: _info(folder, name, facts) for name, facts in _read(folder)[1].items()}


def read_facts(folder: Path) -> dict[str, dict[str, Any]]:
    """`panels/index.json` as it is written.

    Raises:
        UserError: There is no such file, or something in it is wrong.
    """
    written: dict[str, dict[str, Any]] = json.loads(_read(folder)[0])
    return written


@cache
def _schema() -> "TypeAdapter[dict[str, _Facts]]":
    # Here, because workers that play episodes read no index: they start without pydantic.
    from pydantic import TypeAdapter

    return TypeAdapter(dict[str, _Facts])


def _read(folder: Path) -> tuple[bytes, dict[str, _Facts]]:
    """The index, as it is written and checked."""
    from pydantic import ValidationError

    from tasks.strict import first_fault

    path = folder / INDEX
    try:
        content = path.read_bytes()
        facts = _schema().validate_json(content)
    except FileNotFoundError as error:
        raise UserError(
            f"{path} is missing: write description and max_turns of each panel, then run "
            f"{pin_command(folder.parent.name)}"
        ) from error
    except ValidationError as error:
        raise UserError(f"{path}: {first_fault(error)}") from error
    if BUILTIN not in facts:
        raise UserError(f"{path}: there is no panel {BUILTIN}, which every task needs")
    return content, facts


def pin_command(task: str) -> str:
    """The command that pins the panels of a task."""
    return f"arlarena-bench validate {task} --pin"


def _info(folder: Path, name: str, facts: _Facts) -> PanelInfo:
    if facts.episodes is None or facts.sha256 is None:
        raise UserError(
            f"{folder / INDEX}: panel {name} is not pinned; run {pin_command(folder.parent.name)}"
        )
    return PanelInfo(
        name=name,
        description=facts.description,
        max_turns=facts.max_turns,
        episodes=facts.episodes,
        sha256=facts.sha256,
        random_success=facts.random_success,
        expert_success=facts.expert_success,
        trace_sha256=facts.trace_sha256,
        standard=facts.standard,
    )


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
            f"panel {task}/{name} was changed: {panel_path(folder, name)} has SHA-256 "
            f"{digest_text(digest)}, but the index pins {digest_text(panels[name].sha256)}; "
            f"restore the file, or give a panel that nobody has played yet its new hash: "
            f"{pin_command(folder.parent.name)}"
        )
    return Panel(task, panels[name], read_rows(content, panel_path(folder, name)))


def unmeasured_panel(task: str, folder: Path, name: str, description: str, max_turns: int) -> Panel:
    """A panel as its file has it, whatever the index says: how its facts are made.

    Raises:
        UserError: The file is missing, or a line is not an entry.
    """
    content = panel_content(folder, name)
    entries = read_rows(content, panel_path(folder, name))
    digest = hashlib.sha256(content).hexdigest()
    info = PanelInfo(name, description, len(entries), max_turns, digest, None, None, None)
    return Panel(task, info, entries)


def panel_path(folder: Path, name: str) -> Path:
    """Where a panel's entries are."""
    return folder / f"{name}.jsonl"


def panel_content(folder: Path, name: str) -> bytes:
    """A panel's file.

    Raises:
        UserError: There is none.
    """
    path = panel_path(folder, name)
    if not path.is_file():
        raise UserError(f"{path} is missing: the entries of panel {name}, one JSON object per line")
    return path.read_bytes()


def read_rows(content: bytes, path: Path) -> tuple[PanelEntry, ...]:
    """The entries of a panel's file.

    Args:
        content: The file's.
        path: Named in messages.

    Raises:
        UserError: A line is not an entry, or there is none.
    """
    # Only line feeds end a row: `splitlines` knows eight more ends, which JSON allows in a text.
    lines = content.removesuffix(b"\n").split(b"\n") if content else []
    if not lines:
        raise UserError(f"{path} has no entries")
    return tuple(_entry(path, *line) for line in enumerate(lines, 1))


def _entry(path: Path, number: int, line: bytes) -> PanelEntry:
    try:
        row = json.loads(line)
        return PanelEntry(row["id"], row["category"], row["data"])
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{path}, line {number} is not an entry with id, category and data: {error!r}"
        ) from error


def panel_bytes(entries: tuple[PanelEntry, ...]) -> bytes:
    """The one byte form of a panel's file: one JSON object per line, in order."""
    rows = [{"id": entry.id, "category": entry.category, "data": entry.data} for entry in entries]
    return "".join(json.dumps(row, sort_keys=True) + "\n" for row in rows).encode()
