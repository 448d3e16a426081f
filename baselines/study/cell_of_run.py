"""Turns a finished run into the files of its cell."""

from typing import Final

from baselines.study.cells import (
    CellFacts,
    CellFiles,
    Finished,
    read_cell,
    record_lines,
    write_cell,
)
from baselines.study.rates import known_rate
from baselines.study.schema import INIT, Cell
from baselines.study.workspace import StudySetting, read_state
from baselines.training.checkpoints import LAST
from benchmark.evaluation.run_folder import read_manifest
from benchmark.logs.training_log import LOG, read_training_log
from benchmark.models import folder_sha256
from benchmark.stability.run_end import early_stop
from benchmark.versions import versions
from tasks.errors import UserError

EVALUATION: Final = "eval"
"""Folder of the evaluation, inside its run's folder."""


def keep(cell: Cell, setting: StudySetting) -> Finished:
    """Write the files of a cell whose run is complete.

    Raises:
        UserError: The run is not the cell's, is incomplete, or the files cannot be written.
    """
    folder, current_track = setting.folder(cell), setting.current_tracks[cell.track]
    evaluation = folder / EVALUATION
    manifest = read_manifest(evaluation)
    weights = manifest.model.sha256
    log = read_training_log(folder / LOG) if cell.recipe != INIT else None
    rate = None
    if manifest.fingerprint != current_track.validation.fingerprint:
        raise UserError(f"{evaluation} was played under another protocol; remove {folder}")
    if log is not None:
        if log.start.track != current_track.track.claim:
            raise UserError(f"{folder} is not a run on the current track {cell.track}; remove it")
        if (log.start.recipe, log.start.seed) != (cell.recipe, cell.seed):
            raise UserError(f"{folder} is a run of {log.start.recipe} seed {log.start.seed}")
        rate = log.start.configuration["optimization"]["learning_rate"]
        if log.start.plugins != setting.custom.code(cell.recipe):
            raise UserError(f"{folder} was trained with other plug-ins; remove it")
        tuned = known_rate(cell, setting)
        if rate != tuned:
            raise UserError(
                f"{folder} was trained at {rate:g}, but the rate of {cell.recipe} on "
                f"{cell.track} is {tuned}: remove one of them"
            )
        if len(log.updates) != current_track.updates and early_stop(log) is None:
            raise UserError(
                f"{folder / LOG} has {len(log.updates)} of {current_track.updates} updates"
            )
        if weights != folder_sha256(folder / LAST):
            raise UserError(f"{evaluation} was not played by {folder / LAST}; remove {evaluation}")
    assert weights is not None
    state = read_state(folder)
    facts = CellFacts(
        track=current_track.track.claim,
        recipe=cell.recipe,
        seed=cell.seed,
        learning_rate=rate,
        weights=weights,
        cpu_seconds={step: round(value, 1) for step, value in state.cpu_seconds.items()},
        log_bytes=None if log is None else (folder / LOG).stat().st_size,
        episodes_bytes=len(record_lines(evaluation)),
        evaluation=manifest,
        versions=versions(),
        commit=state.commits[0] if state.commits else None,
        later_commits=tuple(filter(None, state.commits[1:])),
    )
    write_cell(CellFiles(setting.results, cell), facts, folder, evaluation)
    finished = read_cell(setting.results, cell)
    assert finished is not None
    return finished
