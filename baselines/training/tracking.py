"""accelerate's trackers: availability, settings in their format, and what they are told."""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from accelerate.tracking import get_available_trackers

from baselines.config.run import flat_facts
from benchmark.logs.lines import Start
from tasks.errors import UserError, suggestion
from tasks.texts import first_line

log = logging.getLogger(__name__)


class Trackers:
    """The trackers of a run, none of which can end it.

    A tracker may lose its server or its process. The training log has all numbers.

    Args:
        accelerator: With its trackers initialized.
    """

    def __init__(self, accelerator: Accelerator) -> None:
        self._trackers = list(accelerator.trackers)
        self._failed: set[str] = set()

    def log(self, numbers: Mapping[str, float], update: int) -> None:
        """Give all trackers the numbers of an update."""
        for tracker in self._trackers:
            self._attempt(tracker.name, partial(tracker.log, dict(numbers), step=update))

    def finish(self) -> None:
        """End all trackers; `Accelerator.end_training` also destroys process groups."""
        for tracker in self._trackers:
            self._attempt(tracker.name, tracker.finish)

    def _attempt(self, name: str, told: Callable[[], object]) -> None:
        """Warn of the first failure of a tracker; later calls may succeed again."""
        try:
            told()
        except Exception as error:  # every tracker has errors of its own
            if name not in self._failed:
                self._failed.add(name)
                text = "the tracker %s failed (%s: %s); this does not affect the run or its log"
                log.warning(text, name, type(error).__name__, first_line(error))


def check_trackers(names: Sequence[str]) -> None:
    """Check that trackers can be used.

    Raises:
        UserError: A tracker is not installed; the message names close matches.
    """
    known = tuple(str(tracker) for tracker in get_available_trackers())
    for name in names:
        if name not in known:
            raise UserError(f"tracker {name!r} is not installed{suggestion(name, known)}")


def tracker_settings(folder: Path, run: str, update: int) -> dict[str, Any]:
    """Arguments for creating trackers, so that a resumed run stays one run there.

    Args:
        folder: The run's folder, which names the run.
        run: Unique id of the run that stays the same when it is resumed.
        update: Update after which it resumes; later ones that were logged are repeated.
    """
    return {
        "tensorboard": {"purge_step": update + 1} if update else {},
        "wandb": {"id": run, "name": folder.name, "resume": "allow"},
        "trackio": {"name": f"{folder.name}-{run}", "resume": "allow"},
    }


def tracked(line: Mapping[str, Any], several_panels: bool) -> dict[str, float]:
    """The numbers of an update or validation line; other lines are not tracked.

    Args:
        line: The line.
        several_panels: Whether to add the validation panel's name, so that each panel has a curve.
    """
    if line["kind"] not in ("update", "validation"):
        return {}
    numbers = {
        name: value
        for name, value in line.items()
        if isinstance(value, int | float) and name != "update"
    }
    if line["kind"] == "update":
        return numbers
    of = f"/{line['panel']}" if several_panels else ""
    return {f"validation/{name}{of}": value for name, value in numbers.items()}


def facts_of(start: Start) -> dict[str, Any]:
    """A run's flat settings and its plug-ins, from the first line of its log."""
    return flat_facts(start.configuration, start.init, start.seed, start.plugins)
