"""`arlarena-bench validate`: prove a task without a model."""

import argparse
import time

from benchmark.task_checks.validate import validate
from tasks.options import chosen_task


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    task = chosen_task(arguments.task, arguments.set)
    failed = 0
    for panel in arguments.panel or ():
        task.panel(panel)
    for panel in arguments.panel or tuple(task.panels()):
        if arguments.panel is None and not task.available(panel):
            print(f"{task.info.name}/{panel}: its data is not here or not whole, not checked")
            continue
        began = time.monotonic()
        print(f"{task.info.name}/{panel}")
        checks = validate(task, panel, arguments.training_entries, arguments.env_processes)
        for check in checks:
            failed += not check.ok
            print(f"  {'ok  ' if check.ok else 'FAIL'} {check.name}: {check.detail}")
        print(f"  {time.monotonic() - began:.1f} s")
    print(f"{failed} checks failed" if failed else "all checks hold")
    return 1 if failed else 0
