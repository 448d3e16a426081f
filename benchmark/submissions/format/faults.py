"""Explains invalid fields of a submission without pydantic's jargon."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from benchmark.logs.lines import WORD_PATTERN
from benchmark.submissions.format.schema import TITLE
from tasks.errors import suggestion

WORDS: Final[Mapping[str, str]] = {
    "missing": "is missing",
    "string_type": "must be a text",
    "tuple_type": "must be a list",
    "dict_type": "must be lines of the form `NAME: ...`",
    "bool_type": "must be true or false",
    "int_type": "must be an integer",
    "int_from_float": "must be an integer",
    "model_type": "must have fields",
    "string_too_short": "is too short",
    "too_short": "must not be empty",
    "string_too_long": "has more than {max_length} characters",
    "too_long": "has more than {max_length} entries",
    "literal_error": "must be {expected}",
}
"""Messages for users, by pydantic's error type."""
_SHAPES: Final = frozenset(
    ("missing", "string_type", "tuple_type", "dict_type", "bool_type", "int_type", "model_type")
)
PATTERNS: Final[Mapping[str, str]] = {
    TITLE: "may only contain letters from A to Z, digits, ._+()/- and single spaces, and "
    "must begin with a letter or digit",
    WORD_PATTERN: "may only contain letters from A to Z, digits and _.+@-, and must begin with a "
    "letter or digit",
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$": "must be a date such as 2027-01-02",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Attributes:
        field: Dotted path of the field; empty for the whole.
        problem: What is wrong, in plain words.
        of_shape: Whether the value has the wrong form, so that an example helps.
    """

    field: str
    problem: str
    of_shape: bool = False

    @property
    def text(self) -> str:
        """Field and problem, for users."""
        return f"{self.field}: {self.problem}" if self.field else self.problem


def faults_of(
    error: ValidationError, model: type[BaseModel], hidden: Collection[str] = ()
) -> list[Fault]:
    """All faults, unknown fields first, because they often explain why others are missing.

    Args:
        error: Pydantic's error.
        model: The validated model.
        hidden: Dotted paths of fields that are not suggested in place of unknown ones.
    """
    details = error.errors(include_url=False, include_input=False)
    details.sort(key=lambda detail: detail["type"] != "extra_forbidden")
    return [_fault(detail, model, hidden) for detail in details]


def _fault(detail: ErrorDetails, model: type[BaseModel], hidden: Collection[str]) -> Fault:
    place, kind = detail["loc"], detail["type"]
    field = ".".join(map(str, place))
    context: dict[str, Any] = detail.get("ctx", {})
    if kind == "extra_forbidden":
        inside = [str(part) for part in place[:-1] if isinstance(part, str)]
        offered = _fields(model, inside)
        known = tuple(name for name in offered if ".".join((*inside, name)) not in hidden)
        return Fault(field, f"there is no such field{suggestion(str(place[-1]), known)}")
    if kind == "value_error":
        return Fault(field, detail["msg"].removeprefix("Value error, "))
    if kind == "string_pattern_mismatch" and context["pattern"] in PATTERNS:
        return Fault(field, PATTERNS[context["pattern"]])
    # A fault of the whole concerns the file's form, which pydantic describes best.
    if kind not in WORDS or not place:
        return Fault(field, detail["msg"])
    expected = re.sub(r"^False$", "false", str(context.get("expected")))
    words = WORDS[kind].format(**{**context, "expected": expected})
    return Fault(field, words, kind in _SHAPES)


def _fields(model: type[BaseModel], place: Collection[str]) -> tuple[str, ...]:
    """Names of the fields at a location in a schema."""
    for part in place:
        model = next(_models(model.model_fields[part].annotation))
    return tuple(model.model_fields)


def _models(annotation: Any) -> Any:
    """The models in an annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)
