"""Progress of a run as a bar on a terminal or lines in a log: success, tokens/s, time left."""

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import (
    Progress as Bar,
)

from benchmark.cli.say import say
from benchmark.console import log_to
from benchmark.engines.core.metered import MeteredEngine
from benchmark.evaluation.notes import FIRST_LOOK
from benchmark.evaluation.records import EpisodeRecord
from benchmark.stats.formatting import percent_text

INTERVAL_S = 10.0
"""Seconds between two lines if the output is not a terminal."""


class Progress:
    """Shows a bar on a terminal, or occasional lines if the output is a file.

    Args:
        total: Episodes of the whole run.
        done: Records that already exist.
        look: Returns notes on the first records that come in (`notes_of`).
    """

    def __init__(
        self,
        total: int,
        done: Iterable[EpisodeRecord],
        look: Callable[[Sequence[EpisodeRecord]], Iterable[str]] = lambda records: (),
    ) -> None:
        records = list(done)
        self._total = total
        self._done = len(records)
        self._played = 0
        self._solved = sum(record.solved for record in records)
        self._errors = sum(record.error is not None for record in records)
        console = Console(stderr=True)
        self._bar: Bar | None = None
        if console.is_terminal:
            self._bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TaskProgressColumn(),
                TimeRemainingColumn(),
                console=console,
                transient=True,
            )
        self._line = (
            self._bar.add_task("", total=total, completed=self._done) if self._bar else None
        )
        self._began = self._shown = time.monotonic()
        self._look = look
        self._first: list[EpisodeRecord] = []

    def __enter__(self) -> Self:
        """Start the display."""
        if self._bar:
            self._bar.start()
            # The bar redirects sys.stderr so that lines appear above it; existing handlers hold the
            # old stream.
            log_to(sys.stderr)
        return self

    def __exit__(self, *_: object) -> None:
        """Clear the bar."""
        if self._bar:
            self._bar.stop()
            log_to(sys.stderr)

    def update(self, record: EpisodeRecord, meter: MeteredEngine) -> None:
        """Count one more episode."""
        self._done += 1
        self._played += 1
        self._solved += record.solved
        self._errors += record.error is not None
        now = time.monotonic()
        text = f"success {percent_text(self._solved / self._done)}"
        tokens = meter.usage().response_tokens
        if tokens:
            text += f", {tokens / max(now - self._began, 1e-9):,.0f} tokens/s"
        if self._errors:
            text += f", {self._errors} errors"
        if self._bar and self._line is not None:
            self._bar.update(self._line, completed=self._done, description=text)
        elif now - self._shown >= INTERVAL_S or self._done == self._total:
            self._shown = now
            left = (now - self._began) / self._played * (self._total - self._done)
            text += f", {left:,.0f} s left" if self._done < self._total else ""
            say(f"{self._done} of {self._total} episodes: {text}", file=sys.stderr, flush=True)
        if self._played <= FIRST_LOOK < self._total:
            self._first.append(record)
            if self._played == FIRST_LOOK:
                for note in self._look(self._first):
                    say(f"note, after {FIRST_LOOK} episodes: {note}", file=sys.stderr, flush=True)
