"""Between the classes of the board's file and what files hold: Arrow types, plain values, JSON.

A field is a column or a member, a tuple a list, a class a struct, `X | None` a null. JSON has no
word for what is not finite, so that there it is one of the texts `nan`, `inf` and `-inf`, in the
place of a number.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

import pyarrow as pa

_LEAVES: Final = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}


def schema_of(cls: type) -> pa.Schema:
    """The Arrow schema of a class: a column for each field, in order.

    Raises:
        TypeError: A field is of a type that a file cannot hold.
    """
    return pa.schema(_arrow_fields(cls))


def _arrow_fields(cls: type) -> list[pa.Field]:
    hints = get_type_hints(cls)
    found = []
    for field in fields(cls):
        inner, optional = _without_none(hints[field.name])
        found.append(pa.field(field.name, _arrow_type(inner), nullable=optional))
    return found


def _arrow_type(hint: Any) -> pa.DataType:
    if hint in _LEAVES:
        return _LEAVES[hint]
    if get_origin(hint) is tuple and get_args(hint)[1:] == (...,):
        inner, optional = _without_none(get_args(hint)[0])
        return pa.list_(pa.field("element", _arrow_type(inner), nullable=optional))
    if isinstance(hint, type) and is_dataclass(hint):
        return pa.struct(_arrow_fields(hint))
    raise TypeError(f"no column can hold {hint}")


def _without_none(hint: Any) -> tuple[Any, bool]:
    """The type beside None, and whether None was possible."""
    if get_origin(hint) in (Union, UnionType):
        inner = [part for part in get_args(hint) if part is not NoneType]
        if len(inner) != 1:
            raise TypeError(f"no column can hold {hint}")
        return inner[0], True
    return hint, False


def to_plain(value: Any) -> Any:
    """An object as dictionaries and lists."""
    if is_dataclass(value):
        return {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return [to_plain(each) for each in value]
    return value


def from_plain(cls: type, value: Mapping[str, Any]) -> Any:
    """The object that `to_plain` has made plain.

    Args:
        cls: Its class.
        value: What Arrow or JSON gives. Members that the class does not have are skipped. One that
            is missing has its default; None if it may be unknown, and a tuple is empty.

    Raises:
        KeyError: A member is missing, and nothing can stand in its place.
    """
    return _reader(cls)(value)


@cache
def _reader(hint: Any) -> Callable[[Any], Any]:
    """What reads values of a type."""
    inner, optional = _without_none(hint)
    if optional:
        read = _reader(inner)
        return lambda value: None if value is None else read(value)
    if get_origin(inner) is tuple:
        element = get_args(inner)[0]
        if element in (str, int, bool):
            return tuple
        each = _reader(element)
        return lambda values: tuple(map(each, values))
    if isinstance(inner, type) and is_dataclass(inner):
        hints = get_type_hints(inner)
        readers = [(field.name, _reader(hints[field.name])) for field in fields(inner)]
        absent = {f.name: _absent(f, hints[f.name]) for f in fields(inner)}
        known = {name: value for name, value in absent.items() if value is not MISSING}
        return lambda value: inner(
            **{
                # A file of another version may lack what is known today.
                name: known[name] if name not in value and name in known else read(value[name])
                for name, read in readers
            }
        )
    return float if inner is float else _as_it_is


def has_default(cls: type, name: str) -> bool:
    """Whether a file may lack a member of a class."""
    field = next(each for each in fields(cls) if each.name == name)
    return _absent(field, get_type_hints(cls)[name]) is not MISSING


def _absent(field: Field[Any], hint: Any) -> Any:
    """What stands for a member that a file does not have; `MISSING` if nothing can."""
    if field.default is not MISSING:
        return field.default
    inner, optional = _without_none(hint)
    if optional:
        return None
    return () if get_origin(inner) is tuple else MISSING


def _as_it_is(value: Any) -> Any:
    return value


def json_text(value: Any, indent: int | None = None) -> str:
    """Plain values as JSON with sorted keys."""
    return json.dumps(_jsonable(value), sort_keys=True, allow_nan=False, indent=indent)


def _jsonable(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {name: _jsonable(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_jsonable(each) for each in value]
    return value
