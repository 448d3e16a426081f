"""Formats numbers and texts for display and for spreadsheets.

Nothing here is HTML or Markdown: texts become one line with every hidden character visible, and
pages have to escape them.
"""

import csv
import io
import math
from collections.abc import Iterable, Sequence
from typing import Final, Literal

from benchmark.stats.formatting import percent_digits
from benchmark.stats.intervals import Interval
from tasks.texts import on_one_line

UNKNOWN: Final = "\u2013"
INFINITE: Final = "\u221e"
_MINUS: Final = "\u2212"
_NOISE: Final = 1e-12
_FORMULA: Final = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20", "|", "%")
"""Beginnings of a text that a spreadsheet interprets as a formula or a command."""

Cell = str | float | int | None


def text(value: str | None) -> str:
    """An untrusted text on one line with everything visible; a dash for None."""
    return on_one_line(value) if value else UNKNOWN


def number(value: float | None, unit: str) -> str:
    """Format a number without its unit; shares in percent.

    Args:
        value: The number; None and NaN are unknown, infinities are not.
        unit: See `Column.unit`.
    """
    if value is None or math.isnan(value):
        return UNKNOWN
    if math.isinf(value):
        return INFINITE if value > 0 else _MINUS + INFINITE
    if unit == "share":
        return percent(value)
    if unit == "parameters":
        return _size(value)
    if unit in ("count", "place"):
        return f"{value:,.0f}"
    if 0 < abs(value) < _NOISE and unit != "ratio":
        # Such small numbers only reflect how sums were rounded.
        return "<1e-12" if value > 0 else f">{_MINUS}1e-12"
    return _signed(f"{value:.2f}" if unit == "ratio" else f"{value:.3g}")


def percent(share: float) -> str:
    """A share in percent with one decimal, never rounded to 0 or 100."""
    return _signed(percent_digits(share))


def interval(
    value: float | None, low: float | None, high: float | None, sign: Literal["", "%"] = ""
) -> str:
    """A share with its interval in percent: `62.4 [56.3, 68.1]`; `sign` follows the value."""
    if value is None or math.isnan(value) or low is None or high is None:
        return UNKNOWN
    return f"{percent(value)}{sign} [{percent(low)}, {percent(high)}]"


def points(found: Interval | None) -> str:
    """A difference of success in percentage points with its interval: `+3.1 [+0.2, +6.0]`."""
    if found is None:
        return UNKNOWN
    value, low, high = (signed(100 * end) for end in (found.value, found.low, found.high))
    return f"{value} [{low}, {high}]"


def signed(value: float) -> str:
    """A difference with one decimal and its sign."""
    shown = f"{value:+.1f}"
    return "0.0" if float(shown) == 0 else shown.replace("-", _MINUS)


def rank(first: float | None, last: float | None) -> str:
    """A rank: one place, or the range of places consistent with the data."""
    if first is None or last is None or math.isnan(first):
        return UNKNOWN
    return f"{first:.0f}" if first == last else f"{first:.0f}{UNKNOWN}{last:.0f}"


def _signed(shown: str) -> str:
    if not shown.startswith("-"):
        return shown
    return f"{_MINUS}{shown[1:]}" if float(shown) else shown[1:]


def _size(value: float) -> str:
    """A number of weights with three digits."""
    for step, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K")):
        if value >= step * 0.9995:
            return f"{float(f'{value / step:.3g}'):g}{letter}"
    return f"{value:.0f}"


def csv_text(header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """A CSV file (RFC 4180) from which spreadsheets execute nothing.

    A text that begins like a formula, even after blanks, gets a leading apostrophe. Numbers are
    written in full, infinite ones as `inf`, unknown ones as empty cells.

    Args:
        header: Names of the columns.
        rows: Their cells.
    """
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_MINIMAL)
    writer.writerow([_csv_cell(name) for name in header])
    writer.writerows([_csv_cell(cell) for cell in row] for row in rows)
    return out.getvalue()


def _csv_cell(cell: Cell) -> str:
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return ""
    if not isinstance(cell, str):
        return str(cell)
    shown = on_one_line(cell)
    return f"'{shown}" if shown.lstrip().startswith(_FORMULA) else shown
