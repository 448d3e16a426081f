"""Options that name a task: data folders (`TASK=PATH`) and settings (`TASK.NAME=VALUE`)."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from tasks.base import Task
from tasks.errors import UserError
from tasks.registry import load_task

Settings = Mapping[str, Mapping[str, str]]
"""Values by the names of task and setting."""


def use_data(options: Iterable[str]) -> None:
    """Set environment variables from options `TASK=PATH`, for this process and those it starts.

    Raises:
        UserError: An option is not of this form, its task is unknown, has no downloaded data or
            was named before, or its path is not a folder.
    """
    chosen: dict[str, str] = {}
    for option in options:
        name, separator, path = option.partition("=")
        if not separator or not path:
            raise UserError(f"--data must be TASK=PATH, not {option!r}")
        variable = load_task(name).info.data_variable
        if variable is None:
            raise UserError(f"--data {name}: the task has no downloaded data; remove it")
        if variable in chosen:
            raise UserError(f"--data is given twice for {name}")
        try:
            folder = Path(path).expanduser()
            is_folder = folder.is_dir()
        except (OSError, RuntimeError) as error:
            raise UserError(f"--data {name}: {path[:300]} cannot be read: {error}") from error
        if not is_folder:
            raise UserError(f"--data {name}: {folder} is not a folder")
        # Absolute: what runs later may have another working folder.
        chosen[variable] = str(folder.absolute())
    os.environ.update(chosen)


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
            raise UserError(f"--set is given twice for {place}")
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
        raise UserError(f"--set has a setting for {other}, but the task is {name}")
    return task.configured(settings.get(name, {}))
