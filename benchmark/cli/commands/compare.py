"""`arlarena-bench compare`: paired comparison of two runs, or a table of several."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmark.cli.output import table_console
from benchmark.cli.say import say
from benchmark.cli.tables import PlainTable
from benchmark.evaluation.compare import RunComparison, compare, comparison_text
from benchmark.evaluation.manifest import Manifest
from benchmark.evaluation.records import EpisodeRecord
from benchmark.evaluation.run_folder import read_run
from benchmark.evaluation.run_table import RunTable
from benchmark.evaluation.summary import PanelSummary
from benchmark.stats.formatting import p_text, points_text
from tasks.errors import UserError

Read = tuple[Manifest, list[EpisodeRecord]]


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    names: list[str] = [name.rstrip("/") for name in arguments.runs]
    if len(names) < 2:
        raise UserError("compare takes two runs or more; `report` shows one")
    places = [Path(name).resolve() for name in names]
    for name, place in zip(names, places, strict=True):
        if places.count(place) > 1:
            raise UserError(f"{name} is given twice; compare different runs")
    runs = {name: read_run(Path(name)) for name in names}
    across: bool = arguments.across_protocols
    if arguments.json:
        say(json.dumps(_facts(runs, across), indent=2, sort_keys=True, allow_nan=False))
    elif len(names) == 2:
        one, other = runs.values()
        say(comparison_text(compare(one, other, across_protocols=across), *names))
    else:
        _print_table(runs, across)
    return 0


def _facts(runs: dict[str, Read], across: bool) -> dict[str, Any]:
    """Collect all results as plain values."""
    table = RunTable.of([(name, *read) for name, read in runs.items()], across)
    first, *others = runs
    differences = [
        {"a": first, "b": other, **asdict(panel)}
        for other in others
        if (found := _compared(runs[first], runs[other], across))
        for panel in found.panels
    ]
    return {"runs": table.facts(), "differences": differences}


def _compared(one: Read, other: Read, across: bool) -> RunComparison | None:
    """Compare two runs if they have an episode in common."""
    played, there = ({(r.task, r.panel, r.episode) for r in run[1]} for run in (one, other))
    if played.isdisjoint(there):
        return None
    return compare(one, other, across_protocols=across)


def _print_table(runs: dict[str, Read], across: bool) -> None:
    """Print success of every run on every panel, and the differences from the first run."""
    found = RunTable.of([(name, *read) for name, read in runs.items()], across)
    table = PlainTable(box=None, pad_edge=False)
    for column in ("run", "model", *("/".join(key) for key in found.columns)):
        table.add_column(column)
    for row in found.rows:
        cells = [_cell(row.panels.get(key)) for key in found.columns]
        part = f" ({row.manifest.part})" if row.manifest.part else ""
        table.add_row(row.name, f"{row.manifest.model.name}{part}", *cells)
    console = table_console()
    console.print(table)
    first, *others = runs
    say(f"\nDifferences from {first}, in points, paired over episodes, with 95% intervals:")
    for other in others:
        comparison = _compared(runs[first], runs[other], across)
        if comparison is None:
            say(f"{other}: no common episode")
            continue
        for panel in comparison.panels:
            protocol = ", another protocol" if panel.differing else ""
            say(
                f"{other}: {panel.task}/{panel.panel} {points_text(panel.success.difference)}, "
                f"{p_text(panel.success.p_value)}, {panel.episodes} episodes{protocol}"
            )


def _cell(panel: PanelSummary | None) -> str:
    if panel is None or not panel.records:
        return "-"
    missing = panel.expected - panel.records
    return f"{panel.success.percent}{f' ({missing} plays missing)' if missing else ''}"
