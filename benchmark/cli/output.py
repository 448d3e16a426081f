"""Shared by commands: writes a run's summary and report, and prints numbers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Final

from rich.console import Console

from benchmark.cli.say import say
from benchmark.evaluation.evaluate import Session
from benchmark.evaluation.notes import notes_of
from benchmark.evaluation.protocol import protocol_text
from benchmark.evaluation.replay import installed_panel
from benchmark.evaluation.run_folder import (
    PACKED,
    REPORT,
    SUMMARY,
    read_manifest,
    read_run,
    read_sessions,
)
from benchmark.evaluation.summarize import summarize
from benchmark.evaluation.summary import PanelSummary, RunSummary, named, summary_json
from benchmark.files import write_atomically
from benchmark.stats.formatting import percent_text, with_unit
from tasks.errors import UserError, os_error_as
from tasks.texts import counted

_FILE_WIDTH: Final = 200


def table_console() -> Console:
    """A console for tables; wide in a file, so that names are not truncated to 80 columns."""
    console = Console()
    return console if console.is_terminal else Console(width=_FILE_WIDTH)


@dataclass(frozen=True, slots=True)
class Outputs:
    """The results derived from a run's records.

    Attributes:
        summary: All metrics.
        notes: Likely problems, one line each.
    """

    summary: RunSummary
    notes: list[str]


def write_outputs(
    folder: Path, report: Path | None = None, env_processes: int | None = None
) -> Outputs:
    """Derive `summary.json` and `report.html` from a run's records.

    Args:
        folder: The run.
        report: Write only the report, to this file; None to write both to the folder.
        env_processes: See `replay_run`.

    Raises:
        UserError: The run cannot be read, or the files cannot be written.
    """
    # Imported here, because it imports matplotlib, which an early error does not need.
    from benchmark.report import report_html

    manifest, records = read_run(folder)
    if report is None and (folder / PACKED).exists():
        raise UserError(f"{folder} is a run of an entry: name its report with --html FILE")
    summary = summarize(manifest, records)
    html = report_html(manifest, records, summary, read_sessions(folder), env_processes)
    outputs = {folder / SUMMARY: summary_json(named(summary, manifest)), folder / REPORT: html}
    for path, content in ({report: html} if report else outputs).items():
        with os_error_as(f"{path} cannot be written"):
            write_atomically(path, content.encode())
    return Outputs(summary, notes_of(manifest, records))


def print_what_is_not_shown(folder: Path) -> None:
    """Print for which panels a run's report has no observations, and why."""
    for protocol in read_manifest(folder).panels:
        try:
            installed_panel(protocol)
        except UserError as error:
            say(f"the report shows no observations of {protocol.task}/{protocol.panel}: {error}")


def print_summary(
    outputs: Outputs, folder: Path, session: Session | None = None, report: Path | None = None
) -> None:
    """Print a run's numbers, one block per panel, and where its files are."""
    manifest = read_manifest(folder)
    if manifest.limit:
        say(f"\n{manifest.part}: a quick look, not the panel's result")
    elif manifest.shard:
        say(
            f"\n{manifest.part}: these numbers cover a part of the panel; join the parts with merge"
        )
    if manifest.overrides:
        usual = manifest.panels[0].usual
        protocol = protocol_text(manifest.panels)
        changed = ", ".join(
            f"{name} = {value}" + (f" ({protocol}: {usual[name]})" if name in usual else "")
            for name, value in manifest.overrides.items()
        )
        say(f"\nnot the {protocol} protocol: {changed}")
    panels = outputs.summary.panels
    for panel in panels:
        say(f"\n{panel.task}/{panel.panel}")
        for name, value in _facts(panel):
            say(f"  {name:<16} {value}")
    if len(panels) > 1:
        _print_table(panels)
    say()
    for note in outputs.notes:
        say(f"note: {note}")
    if session:
        say(_speed(session))
    say(f"report: {report or folder / REPORT}")


def _print_table(panels: Sequence[PanelSummary]) -> None:
    """Print one line per panel."""
    say()
    width = max(len(f"{panel.task}/{panel.panel}") for panel in panels)
    for panel in panels:
        rate = panel.success.percent if panel.records else "-"
        valid = percent_text(panel.format_valid) if panel.records else "-"
        place = f"{panel.task}/{panel.panel}"
        say(f"{place:<{width}}  success {rate:<22} valid format {valid}")
    tasks = {panel.task for panel in panels}
    if len(tasks) == len(panels) and all(panel.records for panel in panels):
        mean = percent_text(fmean(panel.success.value for panel in panels))
        say(f"{f'mean of {len(tasks)} tasks':<{width}}  success {mean}")


def _facts(panel: PanelSummary) -> Iterator[tuple[str, str]]:
    if not panel.records:
        yield "episodes", f"0 of {panel.expected}: nothing was played yet"
        return
    yield "success", f"{panel.success.percent}, 95% interval"
    for passed in panel.pass_at:
        yield (
            f"pass@{passed.k}",
            f"{passed.success.percent}, solved in at least one of {passed.k} repeats",
        )
    yield panel.score_name, with_unit(f"{panel.score.value:.2f}", panel.score_unit)
    yield "return", f"{panel.episode_return.value:.2f}, with format penalties"
    yield "valid format", f"{percent_text(panel.format_valid)} of turns"
    yield "valid action", f"{percent_text(panel.action_valid)} of turns"
    yield "turns", f"{panel.turns:.1f} per episode"
    if panel.response_tokens is not None:
        truncated = f"{percent_text(panel.truncated)} of responses truncated"
        yield "tokens", f"{panel.response_tokens:.1f} per response, {truncated}"
    complete = "" if panel.records == panel.expected else f" of {panel.expected}: not complete"
    yield "episodes", f"{panel.records}{complete}"
    if panel.errors:
        yield "errors", f"{panel.errors}, counted as failures; play them again with --retry-errors"


def _speed(session: Session) -> str:
    text = f"{counted(session.episodes, 'episode')} in {session.wall_s:.1f} s"
    speed = session.tokens_per_second
    if speed is None:
        return text
    return (
        f"{text}, {speed:,.0f} tokens/s, engine idle {percent_text(session.idle_share)} of the time"
    )
