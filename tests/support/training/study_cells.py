"""Finished cells with invented numbers, in the folders where a study expects them."""

import json
from collections.abc import Collection, Sequence
from pathlib import Path

from baselines.study.cells import (
    CellFacts,
    CellFiles,
    Finished,
    read_cell,
    record_lines,
    write_cell,
)
from baselines.study.current_tracks import CurrentTrack
from baselines.study.schema import INIT, Cell
from benchmark.engines.core.devices import DEVICE_NAME
from benchmark.evaluation.protocol import run_fingerprint
from benchmark.evaluation.run_folder import MANIFEST, RECORDS
from benchmark.logs.training_log import LOG
from tasks.seeding import sha256_text
from tests.support.runs.factories import make_manifest, make_record
from tests.support.training.logs import start_line, update_line, validation_line, write_log


def finish(
    results: Path,
    cell: Cell,
    current_track: CurrentTrack,
    solved: Collection[int],
    curve: Sequence[int] = (4, 4, 4),
    *,
    other: Collection[int] = (),
    played: int = 8,
    cpu: float = 60.0,
    rate: float = 5e-4,
    seconds: float = 5.0,
    device: str | None = None,
) -> Finished:
    """Write a cell whose last weights solve the given episodes.

    Args:
        results: Folder of the results.
        cell: The cell.
        current_track: Its track.
        solved: Numbers of the episodes that the last weights solve on the first panel.
        curve: Episodes solved at the evenly spaced validations on the first panel; one less on each
            further panel.
        other: As `solved`, on all other panels.
        played: Training episodes of every update.
        cpu: CPU seconds of the training; the evaluation takes none.
        rate: Learning rate in the log.
        seconds: Duration of every update.
        device: Name of the device in the log; None for an older log without it.
    """
    run = results.parent / "made" / cell.track / cell.stem
    evaluation = run / "eval"
    evaluation.mkdir(parents=True)
    protocols = tuple(planned.protocol for planned in current_track.validation.panels)
    manifest = make_manifest(*protocols)
    assert (
        manifest.fingerprint == run_fingerprint(protocols) == current_track.validation.fingerprint
    )
    (evaluation / MANIFEST).write_text(manifest.model_dump_json())
    records = [
        make_record(
            entry.id,
            success=number in (other if place else solved),
            category=entry.category,
            task=planned.protocol.task,
        )
        for place, planned in enumerate(current_track.validation.panels)
        for number, entry in enumerate(planned.panel.entries)
    ]
    lines = [record.model_dump_json() + "\n" for record in records]
    (evaluation / RECORDS).write_text("".join(lines))
    trained = cell.recipe != INIT
    if trained:
        _write_log(run, cell, current_track, curve, played, rate, seconds, device)
    facts = CellFacts(
        track=current_track.track.claim,
        recipe=cell.recipe,
        seed=cell.seed,
        learning_rate=rate if trained else None,
        weights=sha256_text(f"{cell.text}"),
        cpu_seconds={"train": cpu} if trained else {"eval": cpu},
        log_bytes=(run / LOG).stat().st_size if trained else None,
        episodes_bytes=len(record_lines(evaluation)),
        evaluation=manifest,
        versions={"python": "3.11.7"},
        commit=None,
    )
    write_cell(CellFiles(results, cell), facts, run, evaluation)
    found = read_cell(results, cell)
    assert found is not None
    return found


def _write_log(
    run: Path,
    cell: Cell,
    current_track: CurrentTrack,
    curve: Sequence[int],
    played: int,
    rate: float,
    seconds: float,
    device: str | None,
) -> None:
    configuration = {"optimization": {"learning_rate": rate, "updates": current_track.updates}}
    claim = current_track.track.claim.model_dump()
    start = start_line(cell.recipe, cell.seed, configuration=configuration, track=claim)
    if device is not None:
        start["engine"] |= {DEVICE_NAME: device}
    start["task"] = "+".join(current_track.track.tasks)
    protocols = [planned.protocol for planned in current_track.validation.panels]
    every = current_track.updates // (len(curve) - 1)
    lines = [start]
    for update in range(current_track.updates + 1):
        if update > 0:
            spent = {"rollout/episodes": played, "seconds/total": seconds}
            lines.append(update_line(update, spent))
        if update % every == 0:
            for place, protocol in enumerate(protocols):
                one = len(protocols) == 1
                panel = protocol.panel if one else f"{protocol.task}.{protocol.panel}"
                solved = max(0, curve[update // every] - place)
                lines.append(validation_line(update, solved, protocol.episodes, panel=panel))
    write_log(run, lines)


def rewrite(path: Path, **changes: object) -> None:
    """Change fields of a JSON file."""
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
