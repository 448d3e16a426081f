"""Finished cells with invented numbers, at the places where a study looks for them."""

import json
from collections.abc import Collection, Sequence
from pathlib import Path

from baselines.study.cells import (
    INIT,
    CellFacts,
    CellFiles,
    Finished,
    read_cell,
    record_lines,
    write_cell,
)
from baselines.study.current_tracks import CurrentTrack
from baselines.study.schema import Cell
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
    played: int = 8,
    cpu: float = 60.0,
    rate: float = 5e-4,
) -> Finished:
    """A cell whose last weights solve the episodes with these numbers.

    Args:
        results: Folder of the results.
        cell: Which one.
        current_track: Its track.
        solved: Numbers of the episodes that the last weights solve.
        curve: Episodes solved at the validations, which are spaced evenly.
        played: Training episodes of every update.
        cpu: Seconds of the training; the evaluation takes none.
        rate: Learning rate in the log.
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
    panel = current_track.validation.panels[0].panel
    records = [
        make_record(entry.id, success=number in solved, category=entry.category)
        for number, entry in enumerate(panel.entries)
    ]
    lines = [record.model_dump_json() + "\n" for record in records]
    (evaluation / RECORDS).write_text("".join(lines))
    trained = cell.recipe != INIT
    if trained:
        _write_log(run, cell, current_track, curve, played, rate)
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
) -> None:
    configuration = {"optimization": {"learning_rate": rate, "updates": current_track.updates}}
    claim = current_track.track.claim.model_dump()
    start = start_line(cell.recipe, cell.seed, configuration=configuration, track=claim)
    episodes = current_track.validation.panels[0].protocol.episodes
    lines = [start, validation_line(0, curve[0], episodes)]
    every = current_track.updates // (len(curve) - 1)
    for update in range(1, current_track.updates + 1):
        lines.append(update_line(update, {"rollout/episodes": played}))
        if update % every == 0:
            lines.append(validation_line(update, curve[update // every], episodes))
    write_log(run, lines)


def rewrite(path: Path, **changes: object) -> None:
    """Change fields of a JSON file."""
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
