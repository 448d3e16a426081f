"""`arlarena-bench plot`: curves of training runs, with seeds as bands."""

import argparse
from pathlib import Path
from typing import Final

from benchmark.files import write_atomically
from benchmark.training_curves import curves_of, plotted
from benchmark.training_log import find_log, read_training_log
from benchmark.training_plot import DEFAULT_METRICS, ImageFormat, figure_bytes
from tasks.errors import UserError

_FORMATS: Final[dict[str, ImageFormat]] = {
    ".svg": "svg",
    ".png": "png",
    ".pdf": "pdf",
    ".html": "svg",
}
_DEFAULT_NAME = "training_curves.svg"


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    paths = [find_log(Path(log)) for log in arguments.logs]
    out = Path(arguments.out) if arguments.out else paths[0].parent / _DEFAULT_NAME
    if out.suffix not in _FORMATS:
        raise UserError(f"--out {out}: end the name in one of {', '.join(_FORMATS)}")
    logs = [read_training_log(path, allow_torn=True) for path in paths]
    for log in logs:
        if log.torn:
            print(f"{log.path}: the last line has no end and was passed over")
    curves = curves_of(logs, arguments.by)
    names = arguments.metrics.split(",") if arguments.metrics else DEFAULT_METRICS
    plots = plotted([name.strip() for name in names], logs)
    content = figure_bytes(curves, plots, arguments.x, _FORMATS[out.suffix])
    if out.suffix == ".html":
        from benchmark.training_page import training_page

        content = training_page(curves, content).encode()
    try:
        write_atomically(out, content)
    except OSError as error:
        raise UserError(f"{out} cannot be written: {error.strerror or error}") from error
    print(f"curves of {_count(len(logs), 'run')}: {out}")
    return 0


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
