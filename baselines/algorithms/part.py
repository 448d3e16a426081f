"""The choices of a dimension: each a class with its constants and formula.

A choice is a subclass with a `name`, in a file of its own in the dimension's folder; nothing lists
the names a second time. A recipe says `clipping: {name: cispo, clip_high: 0.3}`.
"""

import importlib
import pkgutil
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import entry_points
from typing import Annotated, Any, ClassVar, Final, Literal, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PydanticUserError
from pydantic_core import PydanticCustomError

from tasks.errors import UserError
from tasks.texts import first_line

ENTRY_POINTS: Final = "arlarena_bench.algorithms"
"""Group under which installed packages name modules with choices of their own."""

OUT_OF_MEMORY: Final = "out of memory", "can't allocate memory"
"""What errors say by which memory ran out: the allocators of CPUs and of vLLM's sleep have none of
their own."""
EXAMPLE: Final = 'name: Literal["NAME"] = "NAME"'
"""How a choice gets its name."""
_UNTYPED: Final = ("model-field-overridden", "model-field-missing-annotation")
"""Pydantic's codes of a constant without a type."""

Finite = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
Decay = Annotated[float, Field(ge=0, lt=1)]
MOST: Final = 10**9
"""Largest count, as in training logs."""
Count = Annotated[int, Field(gt=0, le=MOST)]
CountOrZero = Annotated[int, Field(ge=0, le=MOST)]


class Part(BaseModel):
    """A part of the configuration: nothing unknown, nothing changes."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Choice(Part):
    """A dimension; its subclasses with a name are what can be chosen.

    Attributes:
        choices: The classes, by name.
    """

    choices: ClassVar[dict[str, type["Choice"]]]
    name: str

    @classmethod
    def __pydantic_init_subclass__(cls, **_options: Any) -> None:
        """Enter a choice into its dimension; a class without a name of its own is none yet.

        Raises:
            ValueError: Another class has the name, or a method is missing.
        """
        if Choice in cls.__bases__:
            cls.choices = {}
        annotation = cls.model_fields["name"].annotation
        if get_origin(annotation) is not Literal:
            return
        (name,) = get_args(annotation)
        if missing := " and ".join(f"{each}()" for each in sorted(cls.__abstractmethods__)):
            raise ValueError(f"{cls.__qualname__} lacks {missing}")
        other = cls.choices.get(name, cls)
        if (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ValueError(f"{cls.__qualname__}: {name!r} is {other.__qualname__} already")
        # Of a file that is loaded once more, the new code counts.
        cls.choices[name] = cls


def _chosen(dimension: type[Choice], value: Any) -> Any:
    """The class that settings name, checked by its own schema."""
    if isinstance(value, dimension):
        return value
    if not isinstance(value, dict):
        raise PydanticCustomError("choice_type", "give its name and constants: {name: NAME, ...}")
    if "name" not in value:
        raise PydanticCustomError("union_tag_not_found", "its name is missing")
    found = dimension.choices.get(str(value["name"]))
    if found is None:
        tag = str(value["name"])
        raise PydanticCustomError("union_tag_invalid", "there is no {tag}", {"tag": tag})
    return found.model_validate(value)


def by_name(dimension: type[Choice], optional: bool = False) -> BeforeValidator:
    """Let a setting of a dimension's type be the choice that its `name` says, or None if it may."""
    return BeforeValidator(
        lambda value: None if optional and value is None else _chosen(dimension, value)
    )


def load_choices(package: str, path: list[str]) -> None:
    """Import every file of a dimension's folder, so that its choices are known."""
    for module in pkgutil.iter_modules(path):
        importlib.import_module(f"{package}.{module.name}")


@cache
def load_entry_points() -> None:
    """Import the modules that installed packages name, so that recipes can name their choices.

    Raises:
        UserError: One cannot be imported, or has a choice whose name is taken.
    """
    for point in entry_points(group=ENTRY_POINTS):
        try:
            importlib.import_module(point.module)
        except Exception as error:
            package = point.dist.name if point.dist else "an installed package"
            raise UserError(
                f"{package}: its entry point {point.name} = {point.value} ({ENTRY_POINTS}) cannot "
                f"be imported: {import_fault(error)}"
            ) from error


def import_fault(error: Exception, file: str = "") -> str:
    """What went wrong in the import of somebody's code: a line with the message and the place.

    Args:
        error: Whatever the import or their code has raised.
        file: With their code, as it was loaded; of other code the last place is given.
    """
    if isinstance(error, ImportError | SyntaxError):
        return str(error)
    text = first_line(error)
    if isinstance(error, PydanticUserError) and error.code in _UNTYPED:
        text = f"{text.partition('. ')[0]}: write it with its type, {EXAMPLE} or share: float = 0.5"
    elif not isinstance(error, ValueError):
        text = f"{type(error).__name__}: {text}"
    return f"{text} ({_place(error, file)})"


@contextmanager
def own_code(choice: Choice, what: str) -> Iterator[None]:
    """Say in one line what the code of a user's choice raises; errors of shipped code pass.

    Args:
        choice: Whose code runs.
        what: What it is, for the message.

    Raises:
        UserError: The code has raised anything but a `UserError` and a lack of memory.
    """
    try:
        yield
    except (UserError, MemoryError):
        raise
    except Exception as error:
        module = type(choice).__module__
        shipped = module.partition(".")[0] == __name__.partition(".")[0]
        if shipped or any(text in str(error) for text in OUT_OF_MEMORY):
            raise
        place = _place(error, getattr(sys.modules.get(module), "__file__", None) or "")
        said = f": {first_line(error)}" if str(error) else ""
        raise UserError(
            f"{what} ({type(choice).__qualname__}) raises {type(error).__name__}{said} ({place})"
        ) from error


def _place(error: Exception, file: str) -> str:
    """The last line of a file that an error came through; without it, where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    place = next((each for each in reversed(frames) if each.filename == file), frames[-1])
    return f"{place.filename}, line {place.lineno}"
