"""Single episodes of an entry, read from its submission on demand.

Records do not contain observations; those come from executing the recorded responses again in the
installed task. Programs in responses are never run here: their output is shown as recorded.
"""

from collections import OrderedDict
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Final

from benchmark.evaluation.manifest import Manifest
from benchmark.evaluation.records import EpisodeRecord
from leaderboard.board.rows import BoardRow, PanelKey
from leaderboard.episodes.recorded import one_at_a_time, records_of, submission_of
from tasks.episode import View
from tasks.errors import UserError
from tasks.presentation import Tile

MAX_KEPT: Final = 2**22
"""Maximum size of all cached episodes, in characters of texts and of facts as JSON."""
MAX_KEPT_OF_ONE: Final = MAX_KEPT // 8

Asked = tuple[Path, str, str, int, PanelKey, str, int]
"""Folder of all submissions, the entry's id and hash, seed, panel, episode and repeat."""


@dataclass(frozen=True, slots=True)
class Play:
    """One episode as played by an entry.

    Attributes:
        record: Its record, without tokens.
        views: The known observations before each turn and at the end, without the prompts.
        tiles: How to draw observations, by symbol; empty for texts.
        reason: Why observations are missing or differ from the record; None if all is well.
        asked: The goal of the episode; empty if all have the same goal or the task is not
            installed.
    """

    record: EpisodeRecord
    views: tuple[View, ...]
    tiles: dict[str, Tile]
    reason: str | None
    asked: str = ""


@dataclass(slots=True)
class PlayCache:
    """An LRU cache of episodes, limited by size.

    Attributes:
        plays: The episodes, each with its size in characters.
        size: Total size in characters.
        lock: Lock for all access.
    """

    plays: OrderedDict[Asked, tuple[Play, int]] = field(default_factory=OrderedDict)
    size: int = 0
    lock: Lock = field(default_factory=Lock)

    def find(self, asked: Asked) -> Play | None:
        """Look up an episode."""
        with self.lock:
            if asked not in self.plays:
                return None
            self.plays.move_to_end(asked)
            return self.plays[asked][0]

    def add(self, asked: Asked, play: Play) -> None:
        """Add an episode, unless it is too large, and evict others if necessary."""
        size = size_of(play)
        with self.lock:
            if size > MAX_KEPT_OF_ONE or asked in self.plays:
                return
            self.plays[asked] = play, size
            self.size += size
            while self.size > MAX_KEPT:
                _, (_, gone) = self.plays.popitem(last=False)
                self.size -= gone


_CACHE: Final = PlayCache()


def size_of(play: Play) -> int:
    """Size of an episode in characters, including images."""
    seen = sum(len(view.observation) for view in play.views)
    # In base64: four characters for three bytes.
    seen += sum(4 * len(image.data) // 3 for view in play.views for image in view.images)
    return len(play.record.model_dump_json()) + seen + len(play.asked)


def without_prompts(play: Play) -> Play:
    """Remove prompts and tokens, which are many times larger than the rest."""
    views = tuple(View((), view.observation, images=view.images) for view in play.views)
    return replace(play, record=play.record.model_copy(update={"sequence": None}), views=views)


def play_of(
    submissions: Path, row: BoardRow, seed: int, key: PanelKey, episode: str, repeat: int = 0
) -> Play:
    """Load one episode of an entry.

    Args:
        submissions: Folder of all submissions.
        row: The entry.
        seed: Seed of its checkpoint.
        key: The panel.
        episode: The episode's id.
        repeat: Number of the play.

    Raises:
        UserError: It cannot be read, or the files are not those from which the board was computed.
    """
    asked = (submissions, row.id, row.submission_sha256, seed, key, episode, repeat)
    if (kept := _CACHE.find(asked)) is not None:
        return kept
    return one_at_a_time(partial(_read, asked, row))


def _read(asked: Asked, row: BoardRow) -> Play:
    if (kept := _CACHE.find(asked)) is not None:
        # Another request for the same episode came first.
        return kept
    submissions, _, _, seed, key, *_ = asked
    manifest, record = _record(submissions / row.id, row, seed, key, asked[-2:])
    play = without_prompts(_replayed(manifest, record))
    _CACHE.add(asked, play)
    return play


def _record(
    folder: Path, row: BoardRow, seed: int, key: PanelKey, wanted: tuple[str, int]
) -> tuple[Manifest, EpisodeRecord]:
    from benchmark.evaluation.run_folder import parse_manifest
    from benchmark.submissions.reading.folder import read_plain

    submission = submission_of(folder, row)
    episode, repeat = wanted
    for run in (
        run for point in submission.checkpoints if point.seed == seed for run in point.runs
    ):
        content = read_plain(folder, f"{run}/run.json")
        manifest = parse_manifest(content, f"{run}/run.json")
        if key not in {(panel.task, panel.panel) for panel in manifest.panels}:
            continue
        for record in records_of(folder, submission, run, key, episode):
            if record.repeat == repeat:
                return manifest, record
    raise UserError(f"the submission has no repeat {repeat} of episode {episode}")


def _replayed(manifest: Manifest, record: EpisodeRecord) -> Play:
    """Replay a record's responses, if its task is installed."""
    from benchmark.evaluation.replay import installed_panel, replay_records

    protocol = manifest.panel(record.task, record.panel)
    try:
        task, panel = installed_panel(protocol)
        task.require()
    except UserError as error:
        return Play(record, (), {}, f"Observations are not shown: {error}")
    entry = next((each for each in panel.entries if each.id == record.episode), None)
    if entry is None:
        return Play(record, (), {}, "Observations are not shown: the panel has no such episode.")
    (replay,) = replay_records([(record, protocol, task, entry)], env_processes=1, trust=True)
    views = [replay.start] if replay.start else []
    views += [step.view for step in replay.steps]
    reason = None
    if replay.differences:
        reason = f"The replay differs from the record: {replay.differences[0]}"
    return Play(
        record, tuple(views), dict(task.info.presentation.tiles), reason, task.describe(entry)
    )
