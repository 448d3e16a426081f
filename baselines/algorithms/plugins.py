"""Plug-ins: files and modules with a user's own choices, and the hash of their code."""

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import TypeAdapter, ValidationError

from baselines.algorithms.part import EXAMPLE, Choice, import_fault
from benchmark.logs.lines import MAX_PLUGINS, PluginName
from tasks.errors import UserError, os_error_as
from tasks.strict import YAML


@dataclass(frozen=True, slots=True)
class Plugin:
    """A loaded plug-in.

    Attributes:
        name: Its name in a log: the name of the file or module.
        sha256: Hash of the file with its code, in hexadecimal. For a package this is the `__init__`
            file: other files that the code imports are not covered.
        given: The argument of `--plugin`.
    """

    name: str
    sha256: str
    given: str


class _Given(SourceFileLoader):
    """Runs exactly the bytes that were hashed, never compiled code of an older file."""

    def __init__(self, name: str, path: str, content: bytes) -> None:
        super().__init__(name, path)
        self._content = content

    def get_code(self, fullname: str) -> Any:
        return self.source_to_code(self._content, self.path)


def load_plugins(names: Sequence[str]) -> Mapping[str, Plugin]:
    """Load the plug-ins of a command, by their names in the log.

    Raises:
        UserError: A plug-in cannot be loaded (`load_plugin`), two have the same name, or there are
            too many.
    """
    found: dict[str, Plugin] = {}
    for name in names:
        plugin = load_plugin(name)
        other = found.setdefault(plugin.name, plugin)
        if other.sha256 != plugin.sha256:
            raise UserError(
                f"--plugin {other.given} and {name}: a log would call both {plugin.name}; "
                "rename one of the files"
            )
    if len(found) > MAX_PLUGINS:
        raise UserError(f"--plugin: {len(found)} plug-ins, but a log names {MAX_PLUGINS} at most")
    return found


def load_plugin(name: str) -> Plugin:
    """Import a user's module, so that recipes can use its choices.

    Args:
        name: An importable module, or a file that ends in `.py`.

    Raises:
        UserError: It cannot be imported, has a choice whose name is taken, has none, or a log
            cannot hold its name.
    """
    called, file = _called(name), name.endswith(".py")
    before = _choices()
    try:
        if file:
            content = _content_of(Path(name))
            module = _run_file(Path(name), content)
        else:
            module = importlib.import_module(name)
            content = _code_of_module(module, name)
    except UserError:
        raise
    except Exception as error:
        fault = import_fault(error, str(Path(name)))
        if not file and Path(f"{name}.py").is_file():
            fault += f"; did you mean the file {name}.py?"
        raise UserError(f"--plugin {name} cannot be imported: {fault}") from error
    after = _choices()
    # A module imported earlier registered its choices then, or it re-exports those of another.
    known = any(f"{choice.__module__}.".startswith(f"{module.__name__}.") for choice in after)
    brought = any(isinstance(each, type) and each in after for each in vars(module).values())
    if after == before and not known and not brought:
        raise UserError(
            f"--plugin {name} adds no choice: it needs a subclass of Advantage, Clipping or "
            f"CustomLearner with {EXAMPLE}"
        )
    return Plugin(called, hashlib.sha256(content).hexdigest(), name)


def code_of(name: str) -> Plugin | None:
    """What `load_plugin` would load, without running any of it.

    Args:
        name: As for `load_plugin`.

    Returns:
        The plug-in; None for a module that Python does not find as a file.

    Raises:
        UserError: The file cannot be read, or its name cannot stand in a log.
    """
    called = _called(name)
    path = Path(name) if name.endswith(".py") else _module_file(name)
    if path is None:
        return None
    return Plugin(called, hashlib.sha256(_content_of(path)).hexdigest(), name)


def _module_file(name: str) -> Path | None:
    """The file of a module, found without importing the packages around it."""
    parts = name.split(".")
    places: Sequence[str] | None = None
    spec: ModuleSpec | None = None
    for end in range(1, len(parts) + 1):
        whole = ".".join(parts[:end])
        finders = [f for f in sys.meta_path if hasattr(f, "find_spec")]
        found = (finder.find_spec(whole, places) for finder in finders)
        spec = next((each for each in found if each is not None), None)
        if spec is None:
            return None
        places = spec.submodule_search_locations
    return Path(spec.origin) if spec and spec.has_location and spec.origin else None


def _called(name: str) -> str:
    """What a log calls a plug-in.

    Raises:
        UserError: There is no such file, or its name cannot stand in a log.
    """
    file = name.endswith(".py")
    if name.endswith(YAML):
        raise UserError(
            f"--plugin {name}: a plug-in is a .py file or a module; a recipe in YAML needs --recipe"
        )
    if file and not Path(name).is_file():
        raise UserError(f"--plugin {name} is not a file")
    if not file and Path(name).name != name and Path(f"{name}.py").is_file():
        raise UserError(f"--plugin: there is no module {name}; did you mean the file {name}.py?")
    called = Path(name).name if file else name
    try:
        TypeAdapter(PluginName).validate_python(called)
    except ValidationError as error:
        raise UserError(
            f"--plugin {name}: a log cannot hold the name {called}; use at most 100 letters, "
            "digits and _ . + @ -, beginning with a letter, a digit or _"
        ) from error
    return called


def _content_of(path: Path) -> bytes:
    """Read a file with code.

    Raises:
        UserError: It cannot be read.
    """
    with os_error_as(f"--plugin {path} cannot be read"):
        return path.read_bytes()


def _run_file(path: Path, content: bytes) -> ModuleType:
    """Run the content of a file as a module."""
    # Use a unique module name: the file may be called `random.py`.
    own = f"plugin of {path.resolve()}"
    spec = importlib.util.spec_from_loader(own, _Given(own, str(path), content))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _code_of_module(module: ModuleType, name: str) -> bytes:
    """The file that a module was loaded from.

    Raises:
        UserError: There is none.
    """
    path = getattr(module, "__file__", None)
    if path is None:
        raise UserError(f"--plugin {name} has no file of its own: name the module with the class")
    return _content_of(Path(path))


def _choices() -> set[type[Choice]]:
    """All choices registered so far, in all dimensions."""
    return {each for dimension in Choice.__subclasses__() for each in dimension.choices.values()}
