"""Numbers and texts formatted for readers."""

import csv
import io
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaderboard.table import cells


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (None, "share", "\u2013"),
        (math.nan, "nats", "\u2013"),
        (math.inf, "nats", "\u221e"),
        (-math.inf, "nats", "\u2212\u221e"),
        (0.0, "share", "0.0"),
        (1.0, "share", "100.0"),
        (0.0004, "share", "<0.1"),
        (0.9996, "share", ">99.9"),
        (0.6236, "share", "62.4"),
        (-0.05, "share", "\u22125.0"),
        (-0.0001, "share", "0.0"),
        (0.875, "ratio", "0.88"),
        (1.5e-7, "nats", "1.5e-07"),
        (1e-12, "nats", "1e-12"),
        (4.98e-14, "nats", "<1e-12"),
        (-4.98e-14, "nats per 100 updates", ">\u22121e-12"),
        (0.0, "nats", "0"),
        (1e-13, "ratio", "0.00"),
        (3.0, "count", "3"),
        (407_904.0, "parameters", "408K"),
        (4_000_000_000.0, "parameters", "4B"),
        (999_600.0, "parameters", "1M"),
        (12.0, "parameters", "12"),
    ],
)
def test_numbers(value: float | None, unit: str, shown: str) -> None:
    assert cells.number(value, unit) == shown


def test_intervals() -> None:
    assert cells.interval(0.5, 0.404, 0.596) == "50.0 [40.4, 59.6]"
    assert cells.interval(1.0, 0.9996, 1.0) == "100.0 [>99.9, 100.0]"
    assert cells.interval(math.nan, math.nan, math.nan) == "\u2013"


@pytest.mark.parametrize(
    ("first", "last", "shown"), [(1, 1, "1"), (2, 5, "2\u20135"), (math.nan, math.nan, "\u2013")]
)
def test_ranks(first: float, last: float, shown: str) -> None:
    assert cells.rank(first, last) == shown


def test_texts() -> None:
    assert cells.text(None) == cells.text("") == "\u2013"
    assert cells.text("a\u200bb\nc") == "aU+200BbU+000Ac"
    assert cells.text("Ren\u00e9 & <b>") == "Ren\u00e9 & <b>"
    assert len(cells.text("a" * 5_000)) == 400


@given(st.lists(st.text() | st.floats() | st.integers() | st.none(), min_size=1, max_size=5))
def test_no_cell_of_a_file_is_a_formula(row: list[cells.Cell]) -> None:
    text = cells.csv_text(["head"] * len(row), [row])
    _, found = csv.reader(io.StringIO(text, newline=""))
    assert len(found) == len(row)
    for cell, given_ in zip(found, row, strict=True):
        if isinstance(given_, str):
            assert not cell.lstrip().startswith(("=", "+", "-", "@", "\t", "\r", "|", "%"))
            assert cell.isprintable()
        elif given_ is None or math.isnan(given_):
            assert cell == ""
        else:
            assert type(given_)(cell) == given_
