"""Makes the folder of a new task: a small one that passes, to be replaced piece by piece."""

import importlib
import importlib.util
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from benchmark.task_checks.pin import pin
from tasks.base import Task
from tasks.errors import UserError
from tasks.registry import load_task, task_name, task_names

_FILES = Path(__file__).parent / "files"
_SUFFIX = ".j2"
_NAME = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)


def new_task(name: str, parent: Path) -> Task:
    """Make the folder `parent/name`, its panel and its pins.

    Raises:
        UserError: The name cannot be one, is taken, or the folder cannot be written.
    """
    if not _NAME.fullmatch(name):
        raise UserError(f"a task's name has lowercase letters, digits and _ only, not {name!r}")
    if name in task_names():
        raise UserError(f"there is a task {name!r} already; choose another name")
    folder = parent / name
    if folder.exists():
        raise UserError(f"{folder} already exists; choose another name or --folder")
    own = parent.resolve() == Path(importlib.import_module("tasks").__path__[0]).resolve()
    if not own and importlib.util.find_spec(name) is not None:
        raise UserError(f"there is a Python package {name!r} already; choose another name")
    values = {
        "name": name,
        "package": f"tasks.{name}" if own else name,
        "title": name.replace("_", " ").capitalize(),
        "prefix": "".join(part.capitalize() for part in name.split("_")),
    }
    try:
        _fill(folder, values)
        task = load_task(name if own else task_name(str(folder.resolve())))
        package = type(task).__module__.rpartition(".")[0]
        importlib.import_module(f"{package}.make_panels").write(folder)
        for _ in pin(task):
            pass
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return task


def _fill(folder: Path, values: Mapping[str, str]) -> None:
    """Write the files of a task's folder."""
    # Its own marks: a prompt has those of Jinja. No autoescape: these are not web pages.
    environment = Environment(
        variable_start_string="[[ ",
        variable_end_string=" ]]",
        keep_trailing_newline=True,
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701
    )
    try:
        for source in sorted(_FILES.rglob(f"*{_SUFFIX}")):
            path = folder / source.relative_to(_FILES).with_suffix("")
            path.parent.mkdir(parents=True, exist_ok=True)
            text = environment.from_string(source.read_text("utf-8")).render(values)
            path.write_text(text, "utf-8")
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error}") from error
