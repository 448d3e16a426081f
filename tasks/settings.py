"""Options `TASK.NAME=VALUE`: what a user chooses of a task's settings."""

from collections.abc import Iterable, Mapping

from tasks.base import Task
from tasks.errors import UserError
from tasks.registry import load_task

Settings = Mapping[str, Mapping[str, str]]
"""Values by the names of task and setting."""


def parse_settings(options: Iterable[str]) -> Settings:
    """Read options `TASK.NAME=VALUE`.

    Raises:
        UserError: An option is not of this form, was given before, or its task has no such setting
            or value.
    """
    chosen: dict[str, dict[str, str]] = {}
    for option in options:
        place, equals, value = option.partition("=")
        task, dot, name = place.partition(".")
        if not (equals and dot and name and value):
            raise UserError(f"--set must be TASK.NAME=VALUE, not {option!r}")
        if name in chosen.get(task, {}):
            raise UserError(f"--set names {place} twice")
        load_task(task).configured({name: value})
        chosen.setdefault(task, {})[name] = value
    return chosen


def chosen_task(name: str, options: Iterable[str]) -> Task:
    """A task as options `TASK.NAME=VALUE` want it.

    Raises:
        UserError: There is no such task, or an option is wrong or another task's.
    """
    settings = parse_settings(options)
    task = load_task(name)
    for other in sorted(set(settings) - {name}):
        raise UserError(f"--set: there is a setting of {other}, and the task is {name}")
    return task.configured(settings.get(name, {}))
