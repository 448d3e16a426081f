"""`arlarena-bench replay`: re-execute a run's records without a model."""

import argparse
import time
from pathlib import Path

from benchmark.replay import replay_run
from benchmark.run_folder import read_run

_SHOWN = 10
"""Differing records that are spelt out; the others are counted."""


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    manifest, records = read_run(Path(arguments.run))
    began = time.monotonic()
    differing = 0
    for replay in replay_run(manifest, records, arguments.env_processes):
        if not replay.differences:
            continue
        differing += 1
        if differing <= _SHOWN:
            print("/".join(map(str, replay.record.key)))
            for difference in replay.differences:
                print(f"  {difference}")
    if differing > _SHOWN:
        print(f"... and {differing - _SHOWN} more")
    seconds = time.monotonic() - began
    turns = sum(len(record.turns) for record in records)
    verdict = f"{differing} differ" if differing else "all hold"
    print(f"{len(records)} records, {turns} turns replayed in {seconds:.1f} s: {verdict}")
    return 1 if differing else 0
