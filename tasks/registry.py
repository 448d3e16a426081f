"""Finds tasks: every folder beside this file that has a `task.py` with a `TASK` class."""

import importlib
from functools import cache
from pathlib import Path

from tasks.base import Task
from tasks.errors import UserError, near

_FOLDER = Path(__file__).parent


def task_names() -> tuple[str, ...]:
    """Names of all tasks, in alphabetical order, without importing any."""
    return tuple(sorted(path.parent.name for path in _FOLDER.glob("*/task.py")))


@cache
def load_task(name: str) -> Task:
    """Import a task and make its one instance.

    Raises:
        UserError: There is no such task; near matches are named.
    """
    if name not in task_names():
        raise UserError(f"unknown task {name!r}{near(name, task_names())}")
    task: Task = importlib.import_module(f"tasks.{name}.task").TASK()
    return task
