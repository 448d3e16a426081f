"""The files read from the installed package `alfworld`.

The package's domain, text grammar, goals and tables of what lies where are the world's rules, so
their version is pinned. They are read as files: importing any module of `alfworld` would run its
`__init__`, which creates the folder `$ALFWORLD_DATA`, and a folder made by us must never pass for
the user's data. Nothing is read before it is asked for.
"""

import hashlib
import importlib.metadata
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

from tasks.errors import UserError
from tasks.texts import digest_text

VERSIONS: Mapping[str, str] = {"alfworld": "0.4.2"}
"""The version whose behavior the task stands for."""

INSTALL = "run `make install`, or `pip install --no-deps alfworld==0.4.2`"

_DOMAIN, _GRAMMAR = "data/alfred.pddl", "data/alfred.twl2"
_CONSTANTS, _GOALS = "gen/constants.py", "gen/goal_library.py"
FILES: Mapping[str, str] = {
    _DOMAIN: "f1473041ed01da514de1f87adfd7ef0804862361f83ccf63c75e43633b0eb280",
    _GRAMMAR: "c5b22f0f73309a7fd7c8e5b71de42ad4803b60766ab4a51cc2feb34162be036b",
    _CONSTANTS: "2bd365f5bbca9bfa53b590421af36a0c58a1e074d0582cbc5f174078f16b7377",
    _GOALS: "132b9407facbde7f7fc0f31e913f4678cc95a19bfb5f282cb827197da7f02dbc",
}
"""SHA-256 of each file that is read."""


@dataclass(frozen=True, slots=True)
class Constants:
    """The package's tables of rooms and things. All names are type names such as `ButterKnife`.

    Attributes:
        contains: For each receptacle type, the object types that can lie in it.
        openable: Receptacle types that open and close.
        movable_receptacles: Object types that hold other objects (bowls, boxes).
        actions: For each of `Heatable`, `Coolable`, `Cleanable`, `Toggleable` and `Sliceable`, the
            object types that it can be done to.
        rooms: For each task type, the room kinds where it is asked.
    """

    contains: Mapping[str, frozenset[str]]
    openable: frozenset[str]
    movable_receptacles: frozenset[str]
    actions: Mapping[str, frozenset[str]]
    rooms: Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class GoalSource:
    """A goal as the package's library writes it, with places for the types.

    Attributes:
        pddl: The goal; `#` stands for the hyphen of a typed variable.
        texts: The task's wordings.
    """

    pddl: str
    texts: tuple[str, ...]


@cache
def check_versions() -> Mapping[str, str]:
    """Make sure that the package is there, in the pinned version.

    Returns:
        The version by package.

    Raises:
        UserError: It is missing or has another version.
    """
    for name, wanted in VERSIONS.items():
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            raise UserError(
                f"task alfworld needs {name} {wanted}, which is not installed; {INSTALL}"
            ) from None
        if found != wanted:
            raise UserError(
                f"task alfworld needs {name} {wanted}, but {found} is installed; {INSTALL}"
            )
    return VERSIONS


@cache
def domain() -> str:
    """The PDDL domain that all games share."""
    return _read(_DOMAIN)


@cache
def grammar() -> str:
    """The text grammar that all games share; `UNKNOWN GOAL` stands for the task's text."""
    return _read(_GRAMMAR)


@cache
def constants() -> Constants:
    """The package's tables, as immutable values."""
    module = _module(_CONSTANTS)
    return Constants(
        contains={name: frozenset(types) for name, types in module.VAL_RECEPTACLE_OBJECTS.items()},
        openable=frozenset(module.OPENABLE_CLASS_LIST),
        movable_receptacles=frozenset(module.MOVABLE_RECEPTACLES),
        actions={name: frozenset(types) for name, types in module.VAL_ACTION_OBJECTS.items()},
        rooms={name: frozenset(kinds) for name, kinds in module.GOALS_VALID.items()},
    )


@cache
def goal_sources() -> Mapping[str, GoalSource]:
    """The package's goals by task type, those that are not used here included."""
    library = _module(_GOALS).gdict
    return {
        name: GoalSource(goal["pddl"], tuple(goal["templates"])) for name, goal in library.items()
    }


def _folder() -> Path:
    check_versions()
    spec = importlib.util.find_spec("alfworld")
    if spec is None or not spec.submodule_search_locations:
        raise UserError(f"the installed package alfworld has no files; {INSTALL}")
    return Path(spec.submodule_search_locations[0])


def _read(relative: str) -> str:
    """The text of one of the pinned files."""
    path = _folder() / relative
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {path} ({error.strerror}); {INSTALL}") from error
    digest = hashlib.sha256(content).hexdigest()
    if digest != FILES[relative]:
        raise UserError(
            f"{path} was changed: it has SHA-256 {digest_text(digest)}, alfworld "
            f"{VERSIONS['alfworld']} has {digest_text(FILES[relative])}; {INSTALL}"
        )
    return content.decode("utf-8")


def _module(relative: str) -> ModuleType:
    """One of the pinned files that are plain Python, executed by itself: it imports no package."""
    module = ModuleType(f"_alfworld_{Path(relative).stem}")
    exec(compile(_read(relative), relative, "exec"), module.__dict__)  # noqa: S102 - pinned by hash
    return module
