"""`arlarena-bench tasks`: list tasks, panels and inits."""

import argparse
import json
from dataclasses import asdict
from typing import Any

from benchmark.cli.from_baselines import registered_inits
from benchmark.cli.output import table_console
from benchmark.cli.say import say
from benchmark.cli.tables import PlainTable
from tasks.base import Task
from tasks.errors import UserError
from tasks.registry import load_task, task_names
from tasks.texts import cut


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    tasks, unfinished = _tasks()
    if arguments.json:
        say(json.dumps(_facts(tasks), indent=2, sort_keys=True))
        return 0
    console = table_console()
    panels = PlainTable(title="Panels", title_justify="left", box=None, pad_edge=False)
    rows = [
        (
            name,
            panel,
            str(info.episodes),
            str(info.max_turns),
            _where(task, panel),
            info.description,
        )
        for name, task in tasks.items()
        for panel, info in task.panels().items()
    ]
    # One line per panel, even in a narrow window: only the descriptions are truncated.
    heads = ("task", "panel", "episodes", "turns", "data")
    widths = [max(len(each[at]) for each in (heads, *rows)) for at in range(len(heads))]
    left = max(console.width - sum(widths) - len("  ") * len(heads), len(heads[-1]))
    for column in (*heads, "what"):
        panels.add_column(column, no_wrap=True)
    for row in rows:
        panels.add_row(*row[:-1], cut(row[-1], left))
    console.print(panels)
    settings = PlainTable(
        title="\nSettings (--set TASK.NAME=VALUE)", title_justify="left", box=None, pad_edge=False
    )
    for column in ("setting", "standard", "others", "what"):
        settings.add_column(column)
    for name, task in tasks.items():
        for setting, facts in task.info.settings.items():
            others = ", ".join(choice for choice in facts.choices if choice != facts.default)
            settings.add_row(f"{name}.{setting}", facts.default, others, facts.description)
    if settings.row_count:
        console.print(settings)
    inits = PlainTable(title="\nInits", title_justify="left", box=None, pad_edge=False)
    for column in ("init", "tasks", "role", "where"):
        inits.add_column(column)
    for name, init in registered_inits().items():
        inits.add_row(
            name, ", ".join(init.tasks), init.role, "shipped" if init.folder else str(init.hub)
        )
    console.print(inits)
    for fault in unfinished:
        say(f"\nnot listed: {fault}")
    return 0


def _where(task: Task, panel: str) -> str:
    return "here" if task.available(panel) else "missing"


def _facts(tasks: dict[str, Task]) -> dict[str, Any]:
    """Collect the listing as plain values."""
    return {
        "tasks": {
            name: {
                "version": task.info.version,
                "panels": {
                    panel: {
                        "description": info.description,
                        "episodes": info.episodes,
                        "max_turns": info.max_turns,
                        "sha256": info.sha256,
                        "here": task.available(panel),
                        "standard": asdict(info.standard),
                    }
                    for panel, info in task.panels().items()
                },
                "settings": {name: asdict(one) for name, one in task.info.settings.items()},
            }
            for name, task in tasks.items()
        },
        "inits": {
            name: {"tasks": list(init.tasks), "role": init.role, "sha256": init.sha256}
            for name, init in registered_inits().items()
        },
    }


def _tasks() -> tuple[dict[str, Task], list[str]]:
    """All tasks, and error messages for those that cannot be loaded."""
    tasks, unfinished = {}, []
    for name in task_names():
        try:
            task = load_task(name)
            task.panels()
        except UserError as error:
            unfinished.append(str(error))
        else:
            tasks[name] = task
    return tasks, unfinished
