"""`arlarena-bench validate`: test a task without a model."""

import argparse
import time

from benchmark.cli.say import say
from benchmark.task_checks.pin import pin
from benchmark.task_checks.validate import validate
from tasks.base import Task
from tasks.errors import UserError
from tasks.options import chosen_task


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    task = chosen_task(arguments.task, arguments.set)
    if arguments.pin:
        _pin(task, arguments)
    failed = 0
    for panel in arguments.panel or ():
        task.panel(panel)
    for panel in arguments.panel or tuple(task.panels()):
        if arguments.panel is None and not task.available(panel):
            say(f"{task.info.name}/{panel}: data missing or incomplete, not checked")
            continue
        began = time.monotonic()
        say(f"{task.info.name}/{panel}")
        checks = validate(task, panel, arguments.training_entries, arguments.env_processes)
        for check in checks:
            failed += not check.ok
            say(f"  {'ok  ' if check.ok else 'FAIL'} {check.name}: {check.detail}")
        say(f"  {time.monotonic() - began:.1f} s")
    say(f"{failed} checks failed" if failed else "all checks passed")
    return 1 if failed else 0


def _pin(task: Task, arguments: argparse.Namespace) -> None:
    if arguments.set:
        raise UserError("--pin measures a task as it is by default; remove --set")
    changes = list(pin(task, arguments.env_processes))
    for line in changes or ("nothing to pin: the index says what was measured",):
        say(line)
