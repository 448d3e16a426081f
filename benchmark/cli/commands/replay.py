"""`arlarena-bench replay`: re-execute a run's records without a model."""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

from benchmark.cli.say import say
from benchmark.evaluation.manifest import Manifest
from benchmark.evaluation.records import EpisodeRecord
from benchmark.evaluation.replay import replay_run
from benchmark.evaluation.run_folder import SUMMARY, read_run
from benchmark.evaluation.summarize import summarize
from benchmark.evaluation.summary import named, summary_json
from tasks.errors import UserError
from tasks.options import Settings, parse_settings
from tasks.registry import load_task
from tasks.texts import printable

_SHOWN = 10
"""Number of differing records to show in full; the others are only counted."""


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    folder = Path(arguments.run)
    manifest, records = read_run(folder)
    began = time.monotonic()
    differing = 0
    doubts: list[str] = []
    settings = parse_settings(arguments.set)
    _check_needed(settings, manifest)
    for replay in replay_run(manifest, records, arguments.env_processes, settings):
        name = "/".join(map(str, replay.record.key))
        doubts += [f"{name}, turn {turn}: {doubt}" for turn, doubt in replay.doubts]
        if not replay.differences:
            continue
        differing += 1
        if differing <= _SHOWN:
            say(printable(name))
            for difference in replay.differences:
                say(f"  {printable(str(difference))}")
    if differing > _SHOWN:
        say(f"... and {differing - _SHOWN} more")
    if doubts:
        say(f"{len(doubts)} turns are inconclusive:")
        for doubt in doubts[:_SHOWN]:
            say(f"  {printable(doubt)}")
        if len(doubts) > _SHOWN:
            say(f"  ... and {len(doubts) - _SHOWN} more")
    seconds = time.monotonic() - began
    turns = sum(len(record.turns) for record in records)
    verdict = f"{differing} differ" if differing else "all match" if records else "no records"
    if doubts:
        verdict += f", {len(doubts)} turns inconclusive"
    say(f"{len(records)} records, {turns} turns replayed in {seconds:.1f} s: {verdict}")
    claimed = list(_claims(folder, manifest, records))
    for claim in claimed:
        say(printable(claim))
    return 1 if differing or claimed else 0


def _check_needed(settings: Settings, manifest: Manifest) -> None:
    """Refuse a setting that no replay needs and that would have no effect.

    Raises:
        UserError: The run was played without it, or it is not a dangerous setting.
    """
    for task, values in settings.items():
        played = [panel.settings for panel in manifest.panels if panel.task == task]
        for name, value in values.items():
            known = load_task(task).info.settings.get(name)
            dangerous = known is not None and value in known.dangerous
            if not dangerous or all(panel.get(name) != value for panel in played):
                raise UserError(
                    f"--set {task}.{name}={value} has no effect: a replay uses the settings of its "
                    "run, and --set can only allow a dangerous one of these"
                )


def _claims(folder: Path, manifest: Manifest, records: list[EpisodeRecord]) -> Iterator[str]:
    """Yield the folder's claims that its records do not support."""
    summary = summarize(manifest, records)
    for panel in summary.panels:
        if panel.records < panel.expected:
            missing = panel.expected - panel.records
            yield (
                f"not complete: {panel.task}/{panel.panel} has {panel.records} of "
                f"{panel.expected} plays, {missing} are missing"
            )
    path = folder / SUMMARY
    # Summaries by older versions do not name the model.
    holds = (summary_json(named(summary, manifest)), summary_json(summary))
    if path.is_file() and path.read_text("utf-8") not in holds:
        yield f"{path} does not match the records: rebuild it with `arlarena-bench report`"
