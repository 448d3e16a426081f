"""Converts between dataclasses and the contents of Arrow files."""

import json
import math
from dataclasses import dataclass

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaderboard.board.arrow import from_plain, json_text, schema_of, to_plain


@dataclass(frozen=True)
class Inner:
    share: float | None
    steps: tuple[int, ...]


@dataclass(frozen=True)
class Outer:
    name: str
    known: bool | None
    inner: Inner | None
    each: tuple[Inner, ...]
    values: tuple[float | None, ...]


INNER = st.builds(
    Inner,
    st.none() | st.floats(allow_nan=False),
    st.lists(st.integers(-(2**63), 2**63 - 1)).map(tuple),
)
OUTER = st.builds(
    Outer,
    st.text(st.characters(codec="utf-8")),
    st.none() | st.booleans(),
    st.none() | INNER,
    st.lists(INNER).map(tuple),
    st.lists(st.none() | st.floats(allow_nan=False)).map(tuple),
)


def test_the_schema_says_what_may_be_unknown() -> None:
    steps = pa.list_(pa.field("element", pa.int64(), nullable=False))
    inner = [pa.field("share", pa.float64()), pa.field("steps", steps, nullable=False)]
    each = pa.list_(pa.field("element", pa.struct(inner), nullable=False))
    assert schema_of(Outer) == pa.schema(
        [
            pa.field("name", pa.string(), nullable=False),
            pa.field("known", pa.bool_()),
            pa.field("inner", pa.struct(inner)),
            pa.field("each", each, nullable=False),
            pa.field("values", pa.list_(pa.field("element", pa.float64())), nullable=False),
        ]
    )


@pytest.mark.parametrize("hint", [dict[str, int], int | str, tuple[int, str], object])
def test_what_no_column_can_hold(hint: object) -> None:
    cls: type = dataclass(type("Odd", (), {"__annotations__": {"field": hint}}))
    with pytest.raises(TypeError, match="no column can hold"):
        schema_of(cls)


@given(OUTER)
def test_json_gives_back_what_was_written(value: Outer) -> None:
    assert from_plain(Outer, json.loads(json_text(to_plain(value)))) == value


@given(OUTER)
def test_arrow_gives_back_what_was_written(value: Outer) -> None:
    table = pa.Table.from_pylist([to_plain(value)], schema=schema_of(Outer))
    assert from_plain(Outer, table.to_pylist()[0]) == value


def test_what_is_not_finite_is_a_text_in_json() -> None:
    plain = to_plain(Outer("a", None, Inner(-math.inf, ()), (), (math.inf, math.nan, None, 0.5)))
    text = json_text(plain)
    assert json.loads(text)["values"] == ["inf", "nan", None, 0.5]
    assert json.loads(text)["inner"]["share"] == "-inf"
    values = from_plain(Outer, json.loads(text)).values
    assert math.isnan(values[1])
    assert (values[0], values[2], values[3]) == (math.inf, None, 0.5)
