"""The terminal view of a training run: progress, time, metrics."""

import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import Any, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from benchmark.console import log_to
from benchmark.stats.formatting import percent_text, rate_text

Line = Mapping[str, Any]

_BLOCKS = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"
_ASCII = "_.-=+*%#"
_STDOUT = 1
"""The descriptor of standard output."""
_WIDEST_SPARKLINE = 60
_RECENT = 10
"""Number of recent updates from which the remaining time is estimated."""


@dataclass(frozen=True, slots=True)
class _Row:
    """One line of the view.

    Attributes:
        label: Its label.
        value: Extracts the number from a log line; None if there is none.
        text: Formats the number.
        share: The sparkline spans 0 to 1 instead of minimum to maximum.
        log_scale: The sparkline shows orders of magnitude.
        usual: A number that carries no information: lines omit it, and a row with no other number
            is hidden.
    """

    label: str
    value: Callable[[Line], float | None]
    text: Callable[[float], str]
    share: bool = False
    log_scale: bool = False
    usual: float | None = None

    def told(self, line: Line) -> float | None:
        """The number of a log line, if it is informative."""
        value = self.value(line)
        return None if value == self.usual else value


def _named(name: str) -> Callable[[Line], float | None]:
    def value(line: Line) -> float | None:
        number: float | None = line.get(name)
        return number

    return value


def _tokens_per_second(line: Line) -> float | None:
    tokens, seconds = line.get("tokens/response"), line.get("seconds/total")
    return tokens / seconds if tokens is not None and seconds else None


def _short(value: float) -> str:
    return f"{value:.3g}"


_ROWS = (
    _Row("success, rollout", _named("rollout/success"), percent_text, share=True),
    _Row("return", _named("rollout/return"), lambda value: f"{value:.2f}"),
    _Row("valid format", _named("rollout/format_ok"), percent_text, share=True),
    _Row("KL, old policy", _named("kl_old/clipped_mean"), _short, log_scale=True),
    _Row("KL, init", _named("kl_init/clipped_mean"), _short, log_scale=True),
    _Row("gradient norm", _named("policy/grad_norm"), _short, log_scale=True),
    _Row("entropy", _named("policy/entropy"), _short),
    _Row("clipped, low", _named("ratio/clipped_low"), percent_text, usual=0),
    _Row("clipped, high", _named("ratio/clipped_high"), percent_text, usual=0),
    _Row("masked rows", _named("policy/masked_rows"), percent_text, share=True, usual=0),
    _Row("skipped steps", _named("policy/skipped_steps"), _short, usual=0),
    _Row("uniform groups", _named("rollout/uniform_groups"), percent_text, share=True),
    _Row("tries", _named("rollout/tries"), _short, usual=1),
    _Row("staleness, max", _named("staleness/max"), _short, usual=0),
    _Row("engine gap, k3", _named("engine/k3"), _short, log_scale=True),
    _Row("tokens/s", _tokens_per_second, lambda value: f"{value:,.0f}"),
)
_VALIDATION = _Row("success", _named("success"), percent_text, share=True)


class _LastingConsole(Console):
    """Standard error; when nobody reads it any more, it is silent, and the run goes on."""

    def __init__(self) -> None:
        super().__init__(stderr=True)

    def on_broken_pipe(self) -> None:
        """Discard what is written from now on; rich would end the program.

        Also on standard output if it goes the same way: a finished run must not fail to say so.
        """
        self.quiet = True
        nowhere, unread = os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno()
        with suppress(OSError):  # standard output may be closed
            if os.path.sameopenfile(_STDOUT, unread):
                os.dup2(nowhere, _STDOUT)
        os.dup2(nowhere, unread)
        os.close(nowhere)


class LiveView:
    """Shows a run: a live view on a terminal, else one plain line per update.

    Without a terminal, lines also show what happens before the first update: what runs, and which
    episodes have started. Use as a context manager; the view stays on the terminal when it ends.

    Args:
        total_updates: Updates of the whole run.
        earlier: Log lines of a resumed run.
        console: The console; standard error by default.
        title: Name of the run.
    """

    def __init__(
        self,
        total_updates: int,
        earlier: Sequence[Line] = (),
        console: Console | None = None,
        title: str = "",
    ) -> None:
        self._total = total_updates
        self._title = title
        self._console = console or _LastingConsole()
        self._updates = [line for line in earlier if line.get("kind") == "update"]
        self._validations: dict[str, list[Line]] = {}
        for line in earlier:
            if line.get("kind") == "validation":
                self._validations.setdefault(line["panel"], []).append(line)
        self._phase = "starting"
        self._updated = False
        self._live: Live | None = None
        if self._console.is_terminal:
            self._live = Live(
                console=self._console, get_renderable=self._view, refresh_per_second=4
            )

    def __enter__(self) -> Self:
        """Start the view."""
        if self._live:
            self._live.start()
            # The view redirects sys.stderr so that lines appear above it; existing handlers hold
            # the old one.
            log_to(sys.stderr)
            return self
        if self._title:
            self._print(self._title)
        if self._updates:
            self._print(f"resumed after {self._place()}")
        return self

    def __exit__(self, exc_type: object, *_: object) -> None:
        """Show the last state and stop."""
        if self._live:
            self._phase = "done" if exc_type is None else "stopped"
            self._live.stop()
            log_to(sys.stderr)

    def phase(self, name: str, done: int = 0, total: int = 0) -> None:
        """Show the current phase, and its progress if that can be counted."""
        self._phase = f"{name} {done:,} of {total:,}" if total else name
        if not self._live and not self._updated and total and not done:
            self._print(f"{name} of {total:,} episodes begins")

    def line(self, line: Line) -> None:
        """Show a line of the training log."""
        if line["kind"] == "update":
            self.update(line)
        elif line["kind"] == "validation":
            self.validation(line)

    def update(self, line: Line) -> None:
        """Show an update line of the training log."""
        self._updates.append(line)
        self._updated = True
        if not self._live:
            facts = [
                f"{row.label} {row.text(value)}"
                for row in _ROWS
                if (value := row.told(line)) is not None
            ]
            facts += [f"not finite: {name}" for name in line.get("nonfinite", ())]
            self._print(f"{self._place()}: {'; '.join(facts)}")

    def validation(self, line: Line) -> None:
        """Show a validation line of the training log."""
        self._validations.setdefault(line["panel"], []).append(line)
        if not self._live:
            self._print(
                f"validation after update {line['update']}, {line['panel']}: success "
                f"{rate_text(line['success'], line['wilson_low'], line['wilson_high'])}, "
                f"valid format {percent_text(line['format_ok'])}"
            )

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, emoji=False, soft_wrap=True)

    def _place(self) -> str:
        done = self._updates[-1]["update"] if self._updates else 0
        place = f"update {done} of {self._total}"
        left = self._seconds_left(done)
        return place if left is None or done >= self._total else f"{place}, {_clock(left)} left"

    def _seconds_left(self, done: int) -> float | None:
        """Estimated remaining time at the pace of the last updates, including validations."""
        recent = self._updates[-_RECENT - 1 :]
        if len(recent) >= 2:
            span = recent[-1]["seconds_total"] - recent[0]["seconds_total"]
            pace = span / (recent[-1]["update"] - recent[0]["update"])
        elif recent and recent[0].get("seconds/total") is not None:
            pace = recent[0]["seconds/total"]
        else:
            return None
        return float(pace * (self._total - done))

    def _view(self) -> RenderableType:
        done = self._updates[-1]["update"] if self._updates else 0
        head = Table.grid(padding=(0, 2))
        head.add_row(
            Text(self._place(), style="bold"),
            ProgressBar(total=max(self._total, 1), completed=done, width=30),
            Text(self._phase, style="cyan"),
        )
        parts: list[RenderableType] = [Text(self._title, style="dim")] if self._title else []
        parts += [head, self._numbers()]
        if self._updates and (names := self._updates[-1].get("nonfinite")):
            parts.append(Text(f"not finite: {', '.join(names)}", style="bold red"))
        return Group(*parts)

    def _numbers(self) -> Table:
        width = max(8, min(_WIDEST_SPARKLINE, self._console.width - 48))
        table = Table.grid(padding=(0, 2))
        table.add_column(style="dim", no_wrap=True)
        table.add_column(no_wrap=True)
        table.add_column(justify="right", no_wrap=True)
        table.add_column(style="dim", no_wrap=True)
        # Lines may be added while this thread draws: each list is copied once.
        for panel, lines in list(self._validations.items()):
            self._add_row(table, f"success, {panel}", _VALIDATION, list(lines), width)
        updates = list(self._updates)
        for row in _ROWS:
            self._add_row(table, row.label, row, updates, width)
        return table

    def _add_row(
        self, table: Table, label: str, row: _Row, lines: Sequence[Line], width: int
    ) -> None:
        values = [row.value(line) for line in lines]
        known = [value for value in values if value is not None]
        if all(value == row.usual for value in known):
            return
        ascii_only = self._console.options.ascii_only
        last = "-" if values[-1] is None else row.text(values[-1])
        table.add_row(
            label,
            Text(sparkline(values, width, row.share, row.log_scale, ascii_only), style="cyan"),
            Text(last, style="bold"),
            f"{row.text(min(known))} to {row.text(max(known))}",
        )


def sparkline(
    values: Sequence[float | None],
    width: int,
    share: bool = False,
    log_scale: bool = False,
    ascii_only: bool = False,
) -> str:
    """Draw a curve as a line of blocks with eight heights.

    Args:
        values: The curve; None is a blank.
        width: Maximum characters; a longer curve is averaged over segments of equal length.
        share: Scale from 0 to 1 instead of the curve's minimum to maximum.
        log_scale: Use a logarithmic scale; values that are not above 0 get the lowest block.
        ascii_only: Use only ASCII characters.
    """
    heights = [_height(value, log_scale) for value in values]
    if len(heights) > width:
        edges = [len(heights) * cut // width for cut in range(width + 1)]
        heights = [_mean(heights[a:b]) for a, b in pairwise(edges)]
    known = [height for height in heights if height is not None and math.isfinite(height)]
    if share:
        low, high = 0.0, 1.0
    else:
        low, high = min(known, default=0.0), max(known, default=0.0)
    blocks = _ASCII if ascii_only else _BLOCKS
    marks = []
    for height in heights:
        if height is None:
            marks.append(" ")
            continue
        part = (height - low) / (high - low) if high > low else 0.5
        marks.append(blocks[min(max(round(max(part, 0.0) * 7), 0), 7)])
    return "".join(marks)


def _height(value: float | None, log_scale: bool) -> float | None:
    if value is None or not log_scale:
        return value
    return math.log10(value) if value > 0 else -math.inf


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
