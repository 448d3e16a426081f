"""What the commands have in common: writing a run's summary and report, and printing numbers."""

from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmark.evaluation import Session
from benchmark.files import write_atomically
from benchmark.metrics import Estimate, RunSummary, summarise, summary_json
from benchmark.report import report_html
from benchmark.run_folder import REPORT, SUMMARY, read_run, read_sessions
from tasks.errors import UserError


def write_outputs(folder: Path, report: Path | None = None) -> RunSummary:
    """Derive `summary.json` and `report.html` from a run's records.

    Args:
        folder: The run.
        report: Where to write the report; None for the folder.

    Raises:
        UserError: The run cannot be read, or the files cannot be written.
    """
    manifest, records = read_run(folder)
    summary = summarise(manifest, records)
    html = report_html(manifest, records, summary, read_sessions(folder))
    try:
        write_atomically(folder / SUMMARY, summary_json(summary).encode())
        write_atomically(report or folder / REPORT, html.encode())
    except OSError as error:
        raise UserError(
            f"{error.filename or folder} cannot be written: {error.strerror}"
        ) from error
    return summary


def print_summary(summary: RunSummary, folder: Path, session: Session | None = None) -> None:
    """Print a run's numbers as a table, and where everything is."""
    table = Table(box=None, pad_edge=False)
    for column in ("panel", "success [95 %]", "score", "return", "valid format", "valid action"):
        table.add_column(column)
    table.add_column("turns", justify="right")
    table.add_column("episodes", justify="right")
    for panel in summary.panels:
        table.add_row(
            f"{panel.task}/{panel.panel}",
            _percent(panel.success),
            f"{panel.score.value:.2f} {panel.score_unit}",
            f"{panel.episode_return.value:.2f}",
            f"{panel.format_valid:.1%}",
            f"{panel.action_valid:.1%}",
            f"{panel.turns:.1f}",
            f"{panel.records}/{panel.expected}",
        )
    console = Console()
    console.print(table)
    for panel in summary.panels:
        if panel.errors:
            console.print(
                f"{panel.task}/{panel.panel}: {panel.errors} episodes ended in an error and count "
                "as failures; --retry-errors plays them again"
            )
    if session:
        speed = session.tokens_per_second
        tokens = f", {speed:,.0f} tokens/s" if speed is not None else ""
        console.print(
            f"{session.episodes} episodes in {session.wall_s:.1f} s{tokens}, "
            f"engine idle {session.idle_share:.1%}"
        )
    if not summary.complete:
        console.print("The run is not complete.")
    console.print(f"report: {folder / REPORT}", soft_wrap=True)


def _percent(estimate: Estimate) -> str:
    return f"{estimate.value:.1%} [{estimate.low:.1%}, {estimate.high:.1%}]"
