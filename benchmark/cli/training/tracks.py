"""`arlarena-bench tracks`: list the tracks."""

import argparse
import json
from typing import Any

from rich.table import Table

from benchmark.cli.output import table_console
from benchmark.tracks import RateGrid, Track


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from baselines.tracks.registry import load_track, read_index

    tracks = [(load_track(name), pin.cpu_minutes) for name, pin in read_index().items()]
    if arguments.json:
        print(json.dumps([_facts(*each) for each in tracks], indent=2))
        return 0
    console = table_console()
    table = Table(box=None, pad_edge=False)
    table.add_column("track", no_wrap=True)
    for column in ("init", "updates", "episodes", "learning rate"):
        table.add_column(column)
    table.add_column("CPU min.", justify="right")
    table.add_column("SHA-256")
    for track, minutes in tracks:
        facts = _facts(track, minutes)
        table.add_row(
            track.name,
            track.init.name,
            str(facts["updates"]),
            str(facts["episodes_per_update"]),
            _rule(track),
            "-" if minutes is None else f"{minutes:.0f}",
            track.sha256[:12],
        )
    console.print(table)
    console.print(
        "episodes: per update (dynamic sampling plays more); CPU min.: measured, for "
        "one run on one thread"
    )
    console.print("arlarena-bench train --track NAME --recipe RECIPE --seed 0", highlight=False)
    return 0


def _facts(track: Track, minutes: float | None) -> dict[str, Any]:
    rollout = track.settings["rollout"]
    return {
        "name": track.name,
        "description": track.description,
        "tasks": list(track.tasks),
        "init": track.init.model_dump(),
        "updates": track.settings["optimization"]["updates"],
        "episodes_per_update": rollout["groups"] * rollout["group_size"],
        "learning_rate": track.learning_rate.model_dump(mode="json"),
        "cpu_minutes": minutes,
        "sha256": track.sha256,
    }


def _rule(track: Track) -> str:
    rule = track.learning_rate
    if isinstance(rule, RateGrid):
        return f"best of {', '.join(f'{rate:g}' for rate in rule.grid)}"
    return f"{rule.fixed:g}"
