"""`arlarena-bench new-task`: create a task's folder."""

import argparse
from pathlib import Path

from benchmark.cli.say import say
from benchmark.task_template.write import new_task


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    parent = Path(arguments.folder)
    new_task(arguments.name, parent)
    shown = parent / arguments.name
    given = str(shown) if shown.is_absolute() else f"./{shown}"
    say(f"{shown} is a small task that passes; make it yours:")
    for file, what in (
        ("task.py", "world, expert, training entries"),
        ("prompt.md", "the prompt that the model gets"),
        ("make_panels.py", "writes the panel: the episodes that are evaluated"),
        ("README.md", "the rules, for people"),
    ):
        say(f"  {file:<15} {what}")
    for command, what in (
        (f"arlarena-bench play {given}", "play it yourself"),
        (f"arlarena-bench validate {given} --pin", "after a change: write hashes and bands, check"),
        (f"arlarena-bench eval --engine expert --task {given}", "evaluate"),
    ):
        say(f"{command}\n    {what}")
    return 0
