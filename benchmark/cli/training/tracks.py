"""`arlarena-bench tracks`: list the tracks, or show one in full."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

from benchmark.cli.output import table_console
from benchmark.cli.say import say
from benchmark.cli.tables import PlainTable
from benchmark.flat import flat
from benchmark.track_schema import RateGrid, Track
from tasks.errors import UserError
from tasks.seeding import canonical_json
from tasks.texts import digest_text, plural


def run(arguments: argparse.Namespace) -> int:
    """Run the command.

    Returns:
        1 if a track cannot be used; the others are listed all the same.
    """
    from baselines.tracks.registry import load_track, read_index

    if arguments.track is not None:
        track = load_track(arguments.track)
        _show(track, read_index()[track.name].cpu_minutes, arguments.json)
        return 0
    tracks, faults = [], []
    for name, pin in read_index().items():
        try:
            tracks.append((load_track(name), pin.cpu_minutes))
        except UserError as error:
            faults.append(str(error))
    if arguments.json:
        say(json.dumps([_facts(*each) for each in tracks], indent=2))
    else:
        _list(tracks)
    for fault in faults:
        say(f"arlarena-bench tracks: {fault}", file=sys.stderr)
    return 1 if faults else 0


def _list(tracks: Sequence[tuple[Track, float | None]]) -> None:
    console = table_console()
    table = PlainTable(box=None, pad_edge=False)
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


def _show(track: Track, minutes: float | None, as_json: bool) -> None:
    """Print everything that a track pins, and the finished runs of the repository's study."""
    trained = _trained(track)
    if as_json:
        facts = _facts(track, minutes)
        facts |= {"settings": track.settings, "recipes": track.recipes, "results": trained}
        say(json.dumps(facts, indent=2))
        return
    init = track.init.name
    if track.init.sha256 is not None:
        init += f" (SHA-256 {digest_text(track.init.sha256)})"
    cost = "not measured"
    if minutes is not None:
        cost = f"{minutes:.0f} CPU minutes for one run on one thread"
    results = ", ".join(
        f"{recipe} ({plural(len(seeds), 'seed')} {', '.join(map(str, seeds))})"
        for recipe, seeds in trained.items()
    )
    rows = [
        ("description", track.description),
        *([("varies", track.base)] if track.base else []),
        ("SHA-256", track.sha256),
        ("init", init),
        ("tasks", ", ".join(map(_with_settings(track), track.tasks))),
        ("learning rate", _rule_in_full(track)),
        ("cost", cost),
        ("results", results or "none in baselines/results"),
        *((name, _value(value)) for name, value in flat(track.settings).items()),
        *((f"{recipe} sets", _value(constants)) for recipe, constants in track.recipes.items()),
    ]
    width = max(len(name) for name, _ in rows)
    say(track.name)
    for name, value in rows:
        say(f"  {name:<{width}}  {value}")


def _with_settings(track: Track) -> Callable[[str], str]:
    """Format a task of a track with its settings, if any."""

    def text(task: str) -> str:
        chosen = [f"{name}={value}" for name, value in track.task_settings.get(task, {}).items()]
        return f"{task} ({', '.join(chosen)})" if chosen else task

    return text


def _trained(track: Track) -> dict[str, list[int]]:
    """Seeds that have results in this repository, by recipe."""
    from baselines.study.cells import cells_there
    from baselines.study.schema import INIT
    from baselines.tracks.registry import RESULTS

    seeds: dict[str, list[int]] = {}
    for cell in cells_there(RESULTS, track.name):
        if cell.recipe != INIT:
            seeds.setdefault(cell.recipe, []).append(cell.seed)
    return seeds


def _value(value: object) -> str:
    return value if isinstance(value, str) else canonical_json(value)


def _facts(track: Track, minutes: float | None) -> dict[str, Any]:
    rollout = track.settings["rollout"]
    return {
        "name": track.name,
        "description": track.description,
        "tasks": list(track.tasks),
        "task_settings": track.task_settings,
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


def _rule_in_full(track: Track) -> str:
    rule = track.learning_rate
    if not isinstance(rule, RateGrid):
        return _rule(track)
    return (
        f"{_rule(track)}, by the rollouts of the last {rule.last} of {rule.updates} updates "
        f"with seed {rule.seed}"
    )
