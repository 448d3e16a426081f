"""The choices of a dimension, each a class with its constants and formula.

A choice is a subclass with a `name`, in its own file in the dimension's folder; there is no second
list of the names. A recipe selects it with `clipping: {name: cispo, clip_high: 0.3}`.
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

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PydanticUserError,
    ValidationInfo,
)
from pydantic_core import PydanticCustomError

from tasks.errors import UserError
from tasks.texts import first_line

ENTRY_POINTS: Final = "arlarena_bench.algorithms"
"""Entry point group in which installed packages list modules with their own choices."""

NOTHING_INSTALLED: Final = {"installed": False}
"""Context of a validation that imports nothing: for settings from someone else."""

OUT_OF_MEMORY: Final = "out of memory", "can't allocate memory"
"""Texts of out-of-memory errors: the CPU allocator and vLLM's sleep mode have no error class."""
EXAMPLE: Final = 'name: Literal["NAME"] = "NAME"'
"""How a choice declares its name."""
_UNTYPED: Final = ("model-field-overridden", "model-field-missing-annotation")
"""Pydantic's error codes for a constant without a type."""

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
    """A part of the configuration: immutable, without unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Choice(Part):
    """A dimension; its subclasses with a name are the choices.

    Attributes:
        choices: The classes, by name.
    """

    choices: ClassVar[dict[str, type["Choice"]]]
    name: str

    @classmethod
    def __pydantic_init_subclass__(cls, **_options: Any) -> None:
        """Register a choice in its dimension; a class without its own name is not a choice.

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
        # If a file is loaded again, the new code replaces the old.
        cls.choices[name] = cls


def _chosen(dimension: type[Choice], value: Any, context: Any) -> Any:
    """The choice that the settings name, validated by its own schema."""
    if isinstance(value, dimension):
        return value
    if not isinstance(value, dict):
        raise PydanticCustomError("choice_type", "give its name and constants: {name: NAME, ...}")
    if "name" not in value:
        raise PydanticCustomError("union_tag_not_found", "its name is missing")
    tag = str(value["name"])
    if tag not in dimension.choices and context != NOTHING_INSTALLED:
        load_entry_points()
    found = dimension.choices.get(tag)
    if found is None:
        raise PydanticCustomError("union_tag_invalid", "there is no {tag}", {"tag": tag})
    return found.model_validate(value)


def by_name(dimension: type[Choice], optional: bool = False) -> BeforeValidator:
    """Parse a setting into the dimension's choice given by its `name`, or None if `optional`.

    A name that is not known yet is looked for in installed packages, unless the context of the
    validation is `NOTHING_INSTALLED`.
    """

    def parse(value: Any, info: ValidationInfo) -> Any:
        return None if optional and value is None else _chosen(dimension, value, info.context)

    return BeforeValidator(parse)


def load_choices(package: str, path: list[str]) -> None:
    """Import every file of a dimension's folder, which registers its choices."""
    for module in pkgutil.iter_modules(path):
        importlib.import_module(f"{package}.{module.name}")


@cache
def load_entry_points() -> None:
    """Import the modules listed by installed packages, so that recipes can use their choices.

    Raises:
        UserError: A module cannot be imported, or has a choice whose name is taken.
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
    """Describe an error in third-party code in one line, with its message and location.

    Args:
        error: The exception that the import or the code raised.
        file: The file with the code, as it was loaded; without it, the last location is given.
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
    """Turn an exception from a user's choice into a one-line error; errors of shipped code pass.

    Args:
        choice: The choice whose code runs.
        what: How the message calls it.

    Raises:
        UserError: The code raised anything but a `UserError` or an out-of-memory error.
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
    """The last line of `file` in the traceback; if it is not there, where the error was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    place = next((each for each in reversed(frames) if each.filename == file), frames[-1])
    return f"{place.filename}, line {place.lineno}"
