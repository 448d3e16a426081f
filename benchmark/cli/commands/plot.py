"""`arlarena-bench plot`: curves of training runs, with bands over seeds."""

import argparse
import contextlib
from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import Final

from benchmark.cli.entry_logs import logs_of
from benchmark.cli.say import say
from benchmark.files import write_atomically
from benchmark.logs.curves import run_curves_of
from benchmark.logs.equal_progress import SUCCESS, EqualRows, equal_rows
from benchmark.logs.foreign.detect import find
from benchmark.logs.groups import Curve, curves_of, plotted
from benchmark.logs.training_log import (
    LOG,
    NO_VALIDATION,
    TrainingLog,
    find_log,
    read_training_log,
)
from benchmark.plots.training import DEFAULT_METRICS, ImageFormat, figure_bytes
from benchmark.stability.unequal_settings import unequal_settings
from tasks.errors import UserError, os_error_as
from tasks.texts import counted, printable

_FORMATS: Final[dict[str, ImageFormat]] = {
    ".svg": "svg",
    ".png": "png",
    ".pdf": "pdf",
    ".html": "svg",
}
_DEFAULT_NAME = "training_curves.svg"


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    out = Path(arguments.out or _DEFAULT_NAME)
    if out.suffix not in _FORMATS:
        raise UserError(f"--out {out}: the name must end in one of {', '.join(_FORMATS)}")
    logs = _read(arguments.logs)
    for log in logs:
        if log.torn:
            say(f"{printable(str(log.path))}: the last line is incomplete and was skipped")
        if not log.panels:
            say(f"{printable(str(log.path))}: {NO_VALIDATION}")
    curves = curves_of(logs, arguments.by)
    names = arguments.metrics.split(",") if arguments.metrics else DEFAULT_METRICS
    plots = plotted([name.strip() for name in names], logs)
    content = figure_bytes(curves, plots, arguments.x, _FORMATS[out.suffix])
    equal = _compared(curves)
    unequal = unequal_settings([log.start for log in logs]) if equal else None
    if out.suffix == ".html":
        from benchmark.plots.training_page import training_page

        content = training_page(curves, content, equal, unequal).encode()
    with os_error_as(f"{out} cannot be written"):
        write_atomically(out, content)
    say(f"curves of {counted(len(logs), 'run')}: {out.absolute()}")
    if equal:
        say("\n" + equal.text("success after"))
    if unequal:
        say("\n" + unequal.text)
    return 0


def _read(names: Sequence[str]) -> list[TrainingLog]:
    """Read the given logs.

    Raises:
        UserError: A log cannot be read; for another trainer's log, the message names the right
            command.
    """
    try:
        return [read_training_log(path, allow_torn=True) for path in _found(names)]
    except UserError:
        for path in logs_of(names):
            with contextlib.suppress(UserError):
                if (kind := find(path).format) != "arlarena-bench":
                    break
        else:
            raise
    raise UserError(
        f"{path} is a log of {kind}, and plot draws those of `arlarena-bench train`; "
        f"arlarena-bench stability {quote(str(path))} --out curves.html draws this one"
    )


def _compared(curves: Sequence[Curve]) -> EqualRows | None:
    """Compare curves at equal updates and episodes; None if their tasks or panels differ."""
    logs = [log for curve in curves for log in curve.runs]
    if not all(log.panels for log in logs):
        return None
    judged = {
        tuple(log.of_panel(panel)[0].fingerprint for panel in panels)
        for log in logs
        for panels in [log.panels if log.several_tasks else log.panels[:1]]
    }
    if len(judged) > 1:
        return None
    runs = {curve.label: [run_curves_of(log) for log in curve.runs] for curve in curves}
    names = [
        SUCCESS if len(log.panels) == 1 or log.several_tasks else f"{SUCCESS}@{log.panels[0]}"
        for log in logs
    ]
    return equal_rows(runs, names)


def _found(names: Sequence[str]) -> list[Path]:
    """Find the given logs; skip folders without one, with a note.

    Raises:
        UserError: A file does not exist, or there is no log at all.
    """
    paths = logs_of(names)
    without = [path for path in paths if path.is_dir() and not (path / LOG).exists()]
    if len(without) == len(paths) > 1:
        raise UserError(f"none of the {len(paths)} folders has a {LOG}; choose one that does")
    passed = without if len(paths) > 1 else []
    found = [find_log(path) for path in paths if path not in passed]
    for path in passed:
        say(f"{printable(str(path))}: has no {LOG} and was skipped")
    return found
