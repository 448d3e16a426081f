"""Converts the classes of the board's file to and from Arrow types, plain values and JSON.

A field becomes a column or a member, a tuple a list, a class a struct, and `X | None` is nullable.
JSON has no non-finite numbers, so they become the texts `nan`, `inf` and `-inf`.
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
    """The Arrow schema of a class: one column per field, in order.

    Raises:
        TypeError: A field has a type that a file cannot hold.
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
    """The type without None, and whether None was allowed."""
    if get_origin(hint) in (Union, UnionType):
        inner = [part for part in get_args(hint) if part is not NoneType]
        if len(inner) != 1:
            raise TypeError(f"no column can hold {hint}")
        return inner[0], True
    return hint, False


def to_plain(value: Any) -> Any:
    """Convert an object to dictionaries and lists."""
    if is_dataclass(value):
        return {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return [to_plain(each) for each in value]
    return value


def from_plain(cls: type, value: Mapping[str, Any]) -> Any:
    """Restore an object from the result of `to_plain`.

    Args:
        cls: Its class.
        value: Values from Arrow or JSON. Unknown members are skipped. A missing one gets its
            default, else None if it is optional, or an empty tuple.

    Raises:
        KeyError: A member without a possible default is missing.
    """
    return _reader(cls)(value)


@cache
def _reader(hint: Any) -> Callable[[Any], Any]:
    """Create a function that reads values of a type."""
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
                # A file of another version may lack members that exist now.
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
    """The replacement for a member that a file lacks; `MISSING` if there is none."""
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
