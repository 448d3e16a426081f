"""Replays the episodes for the report's episode browser, and packs them into one string.

Records contain hashes of observations, not the observations: those come from replaying the records
in the installed task. Everything is one JSON document, compressed and in base64, which the page
unpacks.
"""

import base64
import json
import zlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from benchmark.evaluation.manifest import Manifest
from benchmark.evaluation.protocol import PanelProtocol
from benchmark.evaluation.records import EpisodeRecord, TurnRecord
from benchmark.evaluation.replay import Claim, Replay, installed_panel, replay_records
from benchmark.evaluation.summary import PanelSummary, RunSummary
from tasks.base import Task
from tasks.episode import View
from tasks.errors import UserError
from tasks.panels import PanelEntry
from tasks.response import CONTRACT
from tasks.texts import without_middle

MAX_PACKED = 8 * 2**20
"""Maximum size of the episodes in the file, in bytes after compression."""
MAX_UNPACKED = 96 * 2**20
"""Maximum size of the episodes in the reader's memory, in characters of JSON."""
MAX_TEXT = 20_000
"""Maximum length of a response or observation, in characters; longer ones lose their middle."""
MAX_DIFFERENCES = 20
_TAIL = 4_000
_TYPICAL_RATE = 4


@dataclass(frozen=True, slots=True)
class Missing:
    """A panel whose episodes cannot be replayed here, and why."""

    task: str
    panel: str
    reason: str


@dataclass(frozen=True, slots=True)
class Episodes:
    """The packed episodes, and facts about them that the page mentions.

    Attributes:
        packed: Base64 of the zlib-compressed JSON document that report.js reads.
        left_out: Episodes that did not fit.
        left_out: Episodes that found no room.
        replayed: Episodes that were replayed.
        differing: Episodes whose replay differs from their record.
        missing: Panels whose episodes cannot be replayed.
        as_recorded: Tasks whose outputs are shown as recorded, because their programs did not run
            again.
    """

    packed: str
    shown: int
    left_out: int
    replayed: int
    differing: int
    missing: tuple[Missing, ...]
    as_recorded: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _World:
    """A panel as installed here, or the reason why it is not."""

    number: int
    protocol: PanelProtocol
    task: Task | None
    entries: Mapping[str, PanelEntry]
    reason: str | None


class _Packer:
    """Compresses JSON texts into one list, one at a time, until the limit is reached.

    Args:
        head: Text before the first item.
        tail: Text after the last item.
        max_packed: Maximum size in bytes, before base64.

    Attributes:
        items: Number of items that fit.
    """

    def __init__(self, head: str, tail: str, max_packed: int) -> None:
        self.items = 0
        self._tail = tail
        self._max_packed = max_packed
        self._compressor = zlib.compressobj(9)
        self._pieces = [self._compressor.compress(head.encode())]
        self._used, self._held, self._unpacked = 0, 0, len(head)

    def add(self, item: str) -> bool:
        """Add an item; return False if it does not fit."""
        self._held += len(item)
        # Estimate the size of the compressor's buffered input from a typical compression rate.
        full = self._used + self._held // _TYPICAL_RATE > self._max_packed
        if full or self._unpacked + len(item) > MAX_UNPACKED:
            return False
        piece = self._compressor.compress(f"{',' if self.items else ''}{item}".encode())
        if piece:
            self._used, self._held = self._used + len(piece), 0
        self._pieces.append(piece)
        self._unpacked += len(item)
        self.items += 1
        return True

    def packed(self) -> str:
        """The complete document as base64."""
        end = [self._compressor.compress(self._tail.encode()), self._compressor.flush()]
        return base64.b64encode(b"".join(self._pieces + end)).decode("ascii")


def pack_episodes(
    manifest: Manifest,
    records: Sequence[EpisodeRecord],
    summary: RunSummary,
    max_packed: int = MAX_PACKED,
    env_processes: int | None = None,
) -> Episodes:
    """Replay the records and pack what the browser shows.

    If not all episodes fit, keep the first ones of each panel, equally many.

    Args:
        manifest: The run.
        records: Its records.
        summary: Their summary; it names categories and units.
        max_packed: Maximum size of the packed episodes, in bytes before base64.
        env_processes: See `replay_run`.

    Raises:
        UserError: A record belongs to a panel that is not part of the run.
    """
    worlds = _worlds(manifest)
    panels = [_panel(worlds[panel.task, panel.panel], panel) for panel in summary.panels]
    for record in records:
        manifest.panel(record.task, record.panel)
    packer = _Packer(f'{{"panels":{json.dumps(panels)},"episodes":[', "]}", max_packed)
    replayed, differing = 0, 0
    with closing(_replays(records, worlds, env_processes)) as replays:
        for place, record, replay in replays:
            world = worlds[record.task, record.panel]
            episode, differs = _episode(place, record, world, replay)
            if not packer.add(json.dumps(episode, separators=(",", ":"), allow_nan=False)):
                break
            replayed += world.task is not None
            differing += differs
    return Episodes(
        packed=packer.packed(),
        shown=packer.items,
        left_out=len(records) - packer.items,
        replayed=replayed,
        differing=differing,
        missing=tuple(
            Missing(world.protocol.task, world.protocol.panel, world.reason)
            for world in worlds.values()
            if world.reason is not None
        ),
        as_recorded=tuple(
            sorted(
                {
                    w.task.info.presentation.title
                    for w in worlds.values()
                    if w.task and w.task.info.slow_replay
                }
            )
        ),
    )


def _replays(
    records: Sequence[EpisodeRecord],
    worlds: Mapping[tuple[str, str], _World],
    env_processes: int | None,
) -> Generator[tuple[int, EpisodeRecord, Replay | None]]:
    """Yield the records in the order of `_in_turn`, with their index and their replay, if any."""

    def claim(record: EpisodeRecord) -> Claim | None:
        world = worlds[record.task, record.panel]
        if world.task is None or record.episode not in world.entries:
            return None
        return record, world.protocol, world.task, world.entries[record.episode]

    claims = (known for _, record in _in_turn(records) if (known := claim(record)) is not None)
    with closing(replay_records(claims, env_processes, trust=True)) as replays:
        for place, record in _in_turn(records):
            yield place, record, None if claim(record) is None else next(replays)


def _worlds(manifest: Manifest) -> dict[tuple[str, str], _World]:
    worlds = {}
    for index, protocol in enumerate(manifest.panels):
        try:
            task, panel = installed_panel(protocol)
            entries = {entry.id: entry for entry in panel.entries}
            world = _World(index, protocol, task, entries, None)
        except UserError as error:
            world = _World(index, protocol, None, {}, str(error))
        worlds[protocol.task, protocol.panel] = world
    return worlds


def _in_turn(records: Sequence[EpisodeRecord]) -> Iterator[tuple[int, EpisodeRecord]]:
    """Yield the records with their index, alternating between panels."""
    seen: dict[tuple[str, str], int] = {}
    order = []
    for place, record in enumerate(records):
        panel = record.task, record.panel
        order.append((seen.setdefault(panel, 0), place))
        seen[panel] += 1
    for _, place in sorted(order):
        yield place, records[place]


def _panel(world: _World, summary: PanelSummary) -> dict[str, Any]:
    protocol = world.protocol
    return {
        "task": protocol.task,
        "panel": protocol.panel,
        "maxTurns": protocol.max_turns,
        "penalty": protocol.format_penalty,
        "repeats": protocol.repeats,
        "thoughts": protocol.contract == CONTRACT,
        "replayed": world.task is not None,
        "category": summary.category_name,
        "unit": summary.score_unit,
        "tiles": {
            symbol: [tile.kind, tile.fill, tile.glyph]
            for symbol, tile in (world.task.info.presentation.tiles if world.task else {}).items()
        },
    }


def _episode(
    place: int, record: EpisodeRecord, world: _World, replay: Replay | None
) -> tuple[list[Any], bool]:
    """Convert one episode to report.js's format; also return whether its replay differs."""
    views, differences = _seen(world, replay)
    seen: list[str | None] = [_shorten(view.observation) for view in views]
    seen += [None] * (len(record.turns) + 1 - len(seen))
    listed = _listed(views)
    listed += [None] * (len(record.turns) - len(listed))
    shown = differences[:MAX_DIFFERENCES]
    if len(differences) > len(shown):
        shown.append(f"and {len(differences) - len(shown)} more")
    episode = [
        place,
        world.number,
        record.episode,
        record.repeat,
        record.category,
        int(record.success),
        record.score,
        record.reward,
        record.penalty,
        None if record.error is None else _shorten(record.error),
        [_shorten(difference) for difference in shown],
        _asked(record, world),
        seen[0],
        [
            _turn(turn, after, admissible)
            for turn, after, admissible in zip(record.turns, seen[1:], listed, strict=False)
        ],
    ]
    if any(view.images for view in views):
        episode.append([[image.data_url for image in view.images] for view in views])
    return episode, bool(differences)


def _asked(record: EpisodeRecord, world: _World) -> str:
    """The episode's goal; empty if it is not installed or all episodes have the same goal."""
    if world.task is None or record.episode not in world.entries:
        return ""
    return _shorten(world.task.describe(world.entries[record.episode]))


def _seen(world: _World, replay: Replay | None) -> tuple[list[View], list[str]]:
    """The known views of an episode, and its differences."""
    if replay is None:
        return [], ["the panel has no such episode"] if world.task else []
    views = [replay.start] if replay.start else []
    views += [step.view for step in replay.steps]
    return views, [str(difference) for difference in replay.differences]


def _listed(views: Sequence[View]) -> list[str | None]:
    """The actions that each view listed; empty if they are the same at every turn."""
    if len({view.admissible for view in views if view.messages}) < 2:
        return []
    return [_shorten("\n".join(view.admissible)) for view in views]


def _turn(turn: TurnRecord, after: str | None, admissible: str | None) -> list[Any]:
    return [
        _shorten(turn.response),
        None if turn.action is None else _shorten(turn.action),
        turn.format_ok + 2 * turn.action_ok + 4 * (turn.finish_reason == "length"),
        turn.reward,
        turn.prompt_tokens,
        turn.response_tokens,
        None if turn.log_prob is None else round(turn.log_prob, 4),
        after,
        _info(turn.info),
        admissible,
    ]


def _info(info: Mapping[str, Any]) -> str | None:
    if not info:
        return None
    return _shorten(json.dumps(info, indent=1, sort_keys=True, ensure_ascii=False))


def _shorten(text: str) -> str:
    return without_middle(text, MAX_TEXT, _TAIL, "[... {:,} characters omitted ...]")
