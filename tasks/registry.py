"""Finds tasks: the benchmark's own, those of installed packages, and the user's.

The benchmark's own are the folders beside this file that have a `task.py`. A package brings tasks
by entry points of the group `arlarena_bench.tasks`, whose values are classes. A user's own are
folders that `$ARLARENA_TASKS` lists, or that a command is given as `--task ./folder`.
"""

import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Iterator
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from tasks.base import Task, TaskInfo
from tasks.errors import UserError, suggestion
from tasks.texts import LONGEST_SHOWN, cut

GROUP = "arlarena_bench.tasks"
"""Entry points of packages that bring tasks."""
VARIABLE = "ARLARENA_TASKS"
"""Folders of tasks, or folders with such folders; separated as those of `$PATH`."""
FILE = "task.py"
"""What makes a folder a task: a file that says `TASK = ...`, a subclass of `Task`."""

_FOLDER = Path(__file__).parent


def own_names() -> tuple[str, ...]:
    """Names of the benchmark's own tasks, in alphabetical order, without importing any."""
    return tuple(sorted(path.parent.name for path in _FOLDER.glob(f"*/{FILE}")))


def task_names() -> tuple[str, ...]:
    """Names of all tasks, in alphabetical order, without importing any."""
    return tuple(sorted({*own_names(), *_outside()}))


def task_name(text: str) -> str:
    """The name of a task that is given by its name or by its folder.

    A folder (`./frozen_lake`, `/home/me/frozen_lake`) is added to `$ARLARENA_TASKS`, for this
    process and those it starts. What follows the folder (`./frozen_lake/builtin`) stays.

    Raises:
        UserError: The path is not a task's folder or cannot be read, or its name is another task's.
    """
    if not text.startswith((".", "/", "~")):
        return text
    path = _resolved(text)
    rest = ""
    if not (path / FILE).is_file() and (path.parent / FILE).is_file():
        path, rest = path.parent, f"/{path.name}"
    if not (path / FILE).is_file():
        raise UserError(f"{text} is not the folder of a task: it has no {FILE}")
    if path != _FOLDER / path.name and _outside().get(path.name) != path:
        if path.name in task_names():
            raise UserError(f"there is another task {path.name!r}; rename the folder {text}")
        known = os.environ.get(VARIABLE, "")
        os.environ[VARIABLE] = os.pathsep.join(filter(None, (known, str(path))))
    return path.name + rest


def task_word(name: str) -> str:
    """What names a task in a command: its name, or the folder of the user's own, from here."""
    place = None if name in own_names() else _outside().get(name)
    if not isinstance(place, Path):
        return name
    here = Path.cwd()
    return f"./{place.relative_to(here)}" if place.is_relative_to(here) else str(place)


def load_task(name: str) -> Task:
    """Import a task and make its one instance.

    Raises:
        UserError: There is no such task (near matches are named), or it is not finished.
    """
    if name in own_names():
        return _load(name, _FOLDER / name)
    outside = _outside()
    if name in outside:
        return _load(name, outside[name])
    raise UserError(
        f"unknown task {name!r}{suggestion(name, task_names())}; a custom task is found by "
        f"its folder (./{name or 'folder'}) or by ${VARIABLE}"
    )


def _outside() -> dict[str, Path | EntryPoint]:
    """Tasks that are not the benchmark's own, by name."""
    found: dict[str, Path | EntryPoint] = {}
    points = [(point.name, point) for point in _entry_points()]
    places: list[tuple[str, Path | EntryPoint]] = [*points, *_folders()]
    for name, place in places:
        if name in own_names() or found.get(name, place) != place:
            raise UserError(f"there are two tasks called {name!r}; the second one is {place}")
        found[name] = place
    return found


@cache
def _entry_points() -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=GROUP))


def _folders() -> Iterator[tuple[str, Path]]:
    for text in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        folder = _resolved(text)
        if (folder / FILE).is_file():
            yield folder.name, folder
            continue
        found = sorted(path.parent for path in folder.glob(f"*/{FILE}"))
        if not found:
            raise UserError(f"${VARIABLE}: {text} is neither a task's folder nor contains one")
        yield from ((path.name, path) for path in found if path != _FOLDER / path.name)


def _resolved(text: str) -> Path:
    """A path that the user gave, absolute; made sure that the system can look there."""
    try:
        path = Path(text).expanduser().resolve()
        (path / FILE).is_file()
    except (OSError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or error
        raise UserError(
            f"the task's folder {cut(text, LONGEST_SHOWN)} cannot be read: {why}"
        ) from error
    return path


@cache
def _load(name: str, place: Path | EntryPoint) -> Task:
    """Import and make a task, and say in one line what is missing."""
    try:
        found = place.load() if isinstance(place, EntryPoint) else _class_in(name, place)
        return _check(name, found)()
    except UserError:
        raise
    except Exception as error:  # the author's code: whatever it raises is said in one line
        raise UserError(f"task {name} cannot be loaded: {_said(error)}") from error


def _class_in(name: str, folder: Path) -> object:
    package = f"tasks.{name}" if folder.parent == _FOLDER else name
    if package == name:
        if not name.isidentifier():
            raise UserError(
                f"the folder {folder} of a task must have a name that is valid for a Python package"
            )
        if str(folder.parent) not in sys.path:
            # Last: a task's name must not hide a package. Worker processes get this path, too.
            sys.path.append(str(folder.parent))
        importlib.invalidate_caches()
        spec = importlib.util.find_spec(name)
        if spec is None or str(folder) not in (spec.submodule_search_locations or ()):
            raise UserError(f"there is another package called {name!r}; rename the folder {folder}")
    module = importlib.import_module(f"{package}.task")
    if not hasattr(module, "TASK"):
        raise UserError(f"task {name} is not finished: {folder / FILE} has no TASK = YourTask")
    return module.TASK


def _check(name: str, found: object) -> type[Task]:
    if not (isinstance(found, type) and issubclass(found, Task)):
        raise UserError(f"task {name}: TASK must be a subclass of tasks.base.Task, not {found!r}")
    unfinished = f"task {name} is not finished: {found.__name__}"
    if inspect.isabstract(found):
        raise UserError(f"{unfinished} lacks {', '.join(sorted(found.__abstractmethods__))}")
    info = getattr(found, "info", None)
    if not isinstance(info, TaskInfo):
        raise UserError(f"{unfinished} has no info = TaskInfo(...)")
    if info.name != name:
        raise UserError(f"task {name}: info.name is {info.name!r}; it must be the folder's name")
    return found


def _said(error: Exception) -> str:
    """An error in one line, with where it was raised."""
    if isinstance(error, SyntaxError):
        return f"{error.msg} ({error.filename}, line {error.lineno})"
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({last.filename}, line {last.lineno})"
