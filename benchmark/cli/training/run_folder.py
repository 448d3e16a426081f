"""The folder of a training run: it holds one run, and one process at a time works on it."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmark.cli.training.processes import is_main
from benchmark.files import lock_folder, refuse_other_files
from benchmark.logs.training_log import LOG, read_training_log
from benchmark.track_schema import OPEN, TrackClaim
from tasks.errors import UserError, os_error_as
from tasks.texts import digest_text

if TYPE_CHECKING:
    from baselines.config.run import TrainingRun


CONFIG: Final = "config.yaml"
"""The resolved configuration, the first file of a run."""
CONFIG_HEAD: Final = "# command: "
"""How it begins."""


def refuse_others(folder: Path) -> None:
    """Refuse to start a run in a folder that is something else.

    Args:
        folder: Folder of the run. It is accepted if a run has started in it, whatever else it
            contains.

    Raises:
        UserError: It is something else, or has a configuration that no run has written.
    """
    from baselines.tracks.tuning import TUNING
    from baselines.training.checkpoints import BEST, LAST, STATE_OF_LAST
    from baselines.training.samples import SAMPLES

    path = folder / CONFIG
    # A run that was stopped while its engine was loading leaves nothing but this file.
    with os_error_as(f"{path} cannot be read"):
        foreign = path.exists() and not (
            path.is_file() and path.read_bytes().startswith(CONFIG_HEAD.encode())
        )
    own = (LOG, f"{LOG}.old", STATE_OF_LAST, TUNING)
    written = (*((CONFIG,) if foreign else ()), LAST, BEST, SAMPLES)
    refuse_other_files(folder, "training run", own, written)


def check_folder(training: "TrainingRun", sharded: bool, settled: bool) -> None:
    """Check, before anything is started, that a run can start or resume in its folder.

    Args:
        training: The run.
        sharded: Whether FSDP shards it.
        settled: Whether its configuration is final, with no learning rate left to tune.

    Raises:
        UserError: The folder is in use, cannot be written, or holds another run; or its checkpoint
            was written with FSDP and this run has none, or vice versa.
    """
    from baselines.training.checkpoints import check_format

    if not training.folder.exists():
        return
    with os_error_as(f"{training.folder} cannot be written"), locked(training.folder):
        if settled:
            earlier_lines(training)
        check_format(training.folder, sharded)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock the folder against other runs, in the main process.

    Raises:
        UserError: Another process is using it.
    """
    if not is_main():
        yield
        return
    try:
        lock = lock_folder(folder)
    except BlockingIOError:
        raise UserError(f"{folder} is in use by another process; wait for it") from None
    try:
        yield
    finally:
        os.close(lock)


def earlier_lines(training: "TrainingRun") -> list[dict[str, Any]]:
    """The updates and validations of a log that a resumed run keeps.

    Raises:
        UserError: The folder holds another run.
    """
    from baselines.training.checkpoints import find_last

    state = find_last(training.folder, training.sha256, training.facts)
    path = training.folder / LOG
    if state is None or not path.exists():
        return []
    claimed = read_training_log(path, allow_torn=True).start.track
    if claimed != training.track:
        there, wanted = (_named(claim) for claim in (claimed, training.track))
        raise UserError(f"{path} belongs to {there}, but this is {wanted}: choose another --out")
    planned = training.config.optimization.updates
    if state.update > planned:
        raise UserError(
            f"{path} has {state.update} updates, more than the {planned} requested: "
            "choose another --out, or at least as many updates"
        )
    whole = path.read_text("utf-8").rpartition("\n")[0].splitlines()[1:]
    lines: list[dict[str, Any]] = [json.loads(line) for line in whole]
    last = {"update": state.update, "validation": state.validated}
    return [line for line in lines if line["update"] <= last.get(line["kind"], -1)]


def _named(claim: TrackClaim | None) -> str:
    if claim is None:
        return f"an {OPEN} run (on no track)"
    return f"a run on track {claim.name} ({digest_text(claim.sha256)})"
