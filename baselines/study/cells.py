"""Finished cells: the results of training runs, as small files that are committed individually.

    <results>/<track>/<recipe>-s<seed>.jsonl.zst            the training log
    <results>/<track>/<recipe>-s<seed>.episodes.jsonl.zst   the panel, played with the last weights
    <results>/<track>/<recipe>-s<seed>.json                 facts; written last, atomically
    <results>/<track>/init.*                                the same for the init, without a log

A cell with facts is finished, whichever machine made it. If its track or the protocol of its
validations has changed since, it is outdated: it is reported, and none of its numbers are used.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from baselines.study.schema import INIT, Cell
from benchmark.archive import compress, lines_of, read_compressed, unpacked
from benchmark.evaluation.manifest import Manifest
from benchmark.evaluation.run_folder import MANIFEST, RECORDS, parse_records, read_run
from benchmark.fields import Sha256
from benchmark.files import write_atomically
from benchmark.logs.lines import TrackClaim, Word
from benchmark.logs.training_log import LOG, MAX_BYTES, TrainingLog, parse_training_log
from tasks.errors import UserError, os_error_as
from tasks.strict import Strict, first_fault
from tasks.texts import digest_text

MAX_FACTS = 2**20
MAX_EPISODES = 2**30
MAX_LINE = 2**22
"""Maximum sizes in bytes: facts, records of a cell, one record."""

_Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Plays = Mapping[tuple[str, str], Mapping[str, bool]]
"""Whether each episode was solved, by task and panel, then by the episode's id."""


class CellFacts(Strict):
    """The JSON file of a cell.

    Attributes:
        schema_version: Version of this schema.
        track: The track at the time of the run.
        recipe: Name of the recipe; `init` if nothing was trained.
        seed: Training seed.
        learning_rate: Learning rate in the log; null without training.
        weights: Hash of the last model.
        cpu_seconds: CPU time by step, over all sessions: `train`, `eval`, and `tune` if this run
            made its recipe's tuning runs. Work repeated after a kill counts.
        log_bytes: Length of the training log, uncompressed; null without one.
        episodes_bytes: Length of the records, uncompressed.
        evaluation: `run.json` of the evaluation.
        versions: Versions of this program, Python and relevant libraries.
        commit: Commit of the code at the start of the run; null outside a checkout, or if unknown.
            In older files, without `later_commits`: the commit at the end of the run.
        later_commits: Other commits with which it was resumed, in order.
    """

    schema_version: Literal[1] = 1
    track: TrackClaim
    recipe: Word
    seed: Annotated[int, Field(ge=0, lt=2**63)]
    learning_rate: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None
    weights: Sha256
    cpu_seconds: dict[Word, _Seconds]
    log_bytes: Annotated[int, Field(ge=1, le=MAX_BYTES)] | None
    episodes_bytes: Annotated[int, Field(ge=1, le=MAX_EPISODES)]
    evaluation: Manifest
    versions: dict[str, str]
    commit: str | None
    later_commits: tuple[str, ...] | None = None

    @property
    def own_seconds(self) -> float:
        """CPU time in seconds without tuning, which serves all seeds of a recipe."""
        return sum(value for step, value in self.cpu_seconds.items() if step != "tune")


@dataclass(frozen=True, slots=True)
class CellFiles:
    """Paths of a cell's files.

    Attributes:
        results: Folder of all results.
        cell: The cell.
    """

    results: Path
    cell: Cell

    @property
    def facts(self) -> Path:
        """The JSON file."""
        return self._file("json")

    @property
    def log(self) -> Path:
        """The compressed training log."""
        return self._file("jsonl.zst")

    @property
    def episodes(self) -> Path:
        """The compressed records."""
        return self._file("episodes.jsonl.zst")

    def _file(self, ending: str) -> Path:
        return self.results / self.cell.track / f"{stem(self.cell)}.{ending}"


@dataclass(frozen=True, slots=True)
class Finished:
    """A cell with existing files.

    Attributes:
        place: Their paths.
        facts: Content of its JSON file.
        log: Its training log; None for an init.
    """

    place: CellFiles
    facts: CellFacts
    log: TrainingLog | None

    @property
    def cell(self) -> Cell:
        """The cell."""
        return self.place.cell


def init_cell(track: str) -> Cell:
    """The evaluation of a track's init."""
    return Cell(track, INIT, 0)


def stem(cell: Cell) -> str:
    """The file name stem of a cell."""
    return INIT if cell.recipe == INIT else cell.stem


def cells_there(results: Path, track: str) -> tuple[Cell, ...]:
    """The trained cells of a track with facts in a results folder, in order."""
    named = (
        re.fullmatch(r"(.+)-s(\d{1,19})", path.stem) for path in results.glob(f"{track}/*.json")
    )
    return tuple(sorted(Cell(track, found[1], int(found[2])) for found in named if found))


def read_cell(results: Path, cell: Cell) -> Finished | None:
    """Read a finished cell; None if it has no facts.

    Raises:
        UserError: A file is missing, damaged, or does not belong to this cell.
    """
    place = CellFiles(results, cell)
    if not place.facts.exists():
        return None
    facts = _read_facts(place)
    if (facts.track.name, facts.recipe, facts.seed) != (cell.track, cell.recipe, cell.seed):
        raise UserError(
            f"{place.facts} belongs to {facts.track.name} {facts.recipe} seed "
            f"{facts.seed}, which does not match its name; restore the file"
        )
    log = None
    if facts.log_bytes is not None:
        content = read_compressed(place.log, facts.log_bytes)
        log = parse_training_log(content, place.log)
        if (log.start.recipe, log.start.seed) != (cell.recipe, cell.seed):
            raise UserError(
                f"{place.log} belongs to {log.start.recipe} seed {log.start.seed}, "
                "which does not match its name; restore the file"
            )
    elif cell.recipe != INIT:
        raise UserError(f"{place.facts} states no log; remove it to run the cell again")
    return Finished(place, facts, log)


def read_plays(finished: Finished) -> Plays:
    """The episodes that the last weights solved.

    Raises:
        UserError: The records are missing, damaged, or not exactly one play of each episode.
    """
    place, facts = finished.place, finished.facts
    with os_error_as(f"{place.episodes} cannot be read"):
        stamp = place.episodes.stat().st_mtime_ns
    found = _solved(place.episodes, facts.episodes_bytes, stamp)
    for protocol in facts.evaluation.panels:
        played = len(found.get((protocol.task, protocol.panel), {}))
        if played != protocol.episodes:
            raise UserError(
                f"{place.episodes} has {played} episodes of {protocol.task}/{protocol.panel}, "
                f"which has {protocol.episodes}; restore the file"
            )
    return found


@lru_cache(maxsize=1024)
def _solved(episodes: Path, size: int, stamp: int) -> Plays:
    """Whether each episode in a file of records was solved, cached for pages and boards.

    Args:
        episodes: The file.
        size: Bytes of its content.
        stamp: Its modification time, so that a replaced file is read again.
    """
    del stamp
    found: dict[tuple[str, str], dict[str, bool]] = {}
    for record in parse_records(lines_of(unpacked(episodes, size), MAX_LINE), str(episodes)):
        panel = found.setdefault((record.task, record.panel), {})
        if record.episode in panel:
            raise UserError(f"{episodes}: {record.episode} appears twice; restore the file")
        panel[record.episode] = record.solved
    return found


def outdated(facts: CellFacts, track_sha256: str, fingerprint: str) -> str | None:
    """Why a cell's numbers may not be used; None if it is up to date.

    Args:
        facts: Facts of the cell.
        track_sha256: Current hash of its track.
        fingerprint: Current protocol fingerprint of the track's validations.
    """
    if facts.track.sha256 != track_sha256:
        return f"the track was {digest_text(facts.track.sha256)} and is {digest_text(track_sha256)}"
    was = facts.evaluation.fingerprint
    if was != fingerprint:
        return f"the protocol was {digest_text(was)} and is {digest_text(fingerprint)}"
    return None


def write_cell(place: CellFiles, facts: CellFacts, run: Path, evaluation: Path) -> None:
    """Store a cell: log and records first, then the facts, each atomically.

    Args:
        place: Paths of its files.
        facts: Its facts, with the sizes of both files.
        run: Folder of the training run; without a log for an init.
        evaluation: Run folder of the evaluation.

    Raises:
        UserError: A file cannot be written.
    """
    with os_error_as(f"{place.facts.parent} cannot be written"):
        place.facts.parent.mkdir(parents=True, exist_ok=True)
        if facts.log_bytes is not None:
            write_atomically(place.log, compress((run / LOG).read_bytes()))
        write_atomically(place.episodes, compress(record_lines(evaluation)))
        content = facts.model_dump_json(indent=1) + "\n"
        write_atomically(place.facts, content.encode())


def unpack(finished: Finished, folder: Path) -> tuple[Path, Path]:
    """Restore the run folders from which a training run's cell was made.

    Args:
        finished: The cell.
        folder: The output folder; existing files are overwritten.

    Returns:
        The run folder of the evaluation, and the training log.

    Raises:
        UserError: The cell is damaged, or a file cannot be written.
    """
    place, facts = finished.place, finished.facts
    assert facts.log_bytes is not None
    run, log = folder / "eval", folder / LOG
    manifest = facts.evaluation.model_dump_json(indent=2) + "\n"
    contents = {
        run / MANIFEST: manifest.encode(),
        run / RECORDS: read_compressed(place.episodes, facts.episodes_bytes),
        log: read_compressed(place.log, facts.log_bytes),
    }
    with os_error_as(f"{folder} cannot be written"):
        run.mkdir(parents=True, exist_ok=True)
        for path, content in contents.items():
            write_atomically(path, content)
    return run, log


def record_lines(evaluation: Path) -> bytes:
    """The records of a run folder as lines, as a submission stores them."""
    _, records = read_run(evaluation)
    return b"".join(record.model_dump_json().encode() + b"\n" for record in records)


def _read_facts(place: CellFiles) -> CellFacts:
    with os_error_as(f"{place.facts} cannot be read"), place.facts.open("rb") as file:
        content = file.read(MAX_FACTS + 1)
    if len(content) > MAX_FACTS:
        raise UserError(f"{place.facts} is longer than {MAX_FACTS} bytes")
    try:
        facts = CellFacts.model_validate_json(content)
    except ValidationError as error:
        raise UserError(f"{place.facts}: {first_fault(error)}") from error
    facts.evaluation.check()
    return facts
