"""Formats rates, differences and tests in messages, tables and Markdown pages."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from benchmark.stats.intervals import Interval
from tasks.texts import counted

SMALLEST_P: Final = 0.001


def percent_digits(share: float, decimals: int = 1) -> str:
    """A share in percent without the percent sign, never rounded to 0 or 100.

    Args:
        share: From 0 to 1.
        decimals: Number of decimals.
    """
    shown, least = f"{100 * share:z.{decimals}f}", 10**-decimals
    if share < 1 and float(shown) >= 100:
        return f">{100 - least:.{decimals}f}"
    return f"<{least:.{decimals}f}" if share > 0 and float(shown) <= 0 else shown


def percent_text(share: float, decimals: int = 1) -> str:
    """A share such as `97.5%`, never rounded to 0 or 100; see `percent_digits`."""
    return f"{percent_digits(share, decimals)}%"


def with_unit(value: str, unit: str) -> str:
    """A number and its unit: `12.5%`, `3.1 points`."""
    return f"{value}%" if unit == "%" else f"{value} {unit}"


def whole_percent(share: float) -> str:
    """A share in percent without decimals and percent sign, if only its magnitude matters."""
    return f"{100 * share:z.0f}"


def count_text(count: int | Fraction, number: int) -> str:
    """A count out of a number, such as `4 of 43`; with a decimal if it is not whole."""
    shown = f"{float(count):.1f}" if count.denominator > 1 else f"{count}"
    return f"{shown} of {number}"


def collapses_text(
    happened: int, known: int, halved: int, unknown: str, others: int = 0, noun: str = ""
) -> str:
    """`2 of 5, 1 halved`: seeds that collapsed, of how many, and others that halved.

    Args:
        happened: Seeds that collapsed.
        known: Seeds whose logs show whether they collapsed.
        halved: Other seeds that ended at half of their best or below.
        unknown: What stands for all of it where no log can say.
        others: Seeds whose logs cannot say.
        noun: What they are called, such as `seed`; empty where a heading says it.
    """
    if not known:
        return f"unknown, {halved} halved" if halved else unknown
    seeds = counted(known + others, noun) if noun else known + others
    parts = [f"{happened} of {seeds}"]
    parts += [f"{others} unknown"] if others else []
    return ", ".join([*parts, *([f"{halved} halved"] if halved else [])])


def rate_text(value: float, low: float, high: float) -> str:
    """A rate with its interval, such as `54.3% [48.2, 60.3]`."""
    return f"{percent_text(value)} [{100 * low:z.1f}, {100 * high:z.1f}]"


def rate_digits(rate: Interval) -> str:
    """The same without percent sign, for columns of percentages: `54.3 [48.2, 60.3]`."""
    return rate_text(rate.value, rate.low, rate.high).replace("%", "")


def range_text(low: float, high: float, decimals: int = 0) -> str:
    """Only the interval of a share, such as `21 to 97%`."""
    return f"{100 * low:z.{decimals}f} to {100 * high:z.{decimals}f}%"


def points_digits(difference: float) -> str:
    """A signed difference of shares in percentage points, such as `+5.9`; never `-0.0`."""
    return f"{100 * difference:+z.1f}"


def points_text(difference: Interval, unit: str = "") -> str:
    """A difference of rates in percentage points with its interval: `+5.9 [-0.6, +12.3]`.

    Args:
        difference: Difference of shares.
        unit: Text after the value.
    """
    return signed_text(difference, 1, 100, unit)


def signed_text(difference: Interval, places: int, scale: float = 1, unit: str = "") -> str:
    """A signed difference with its interval.

    A number that rounds to 0 keeps its sign, `-0.0`, to show whether the interval contains 0.

    Args:
        difference: Any difference.
        places: Number of decimals.
        scale: Factor applied to the numbers.
        unit: Text after the value.
    """
    ends = (difference.value, difference.low, difference.high)
    # Adding 0 turns an exact negative zero into a positive one.
    value, low, high = (f"{scale * end + 0.0:+.{places}f}" for end in ends)
    return f"{value}{unit} [{low}, {high}]"


def p_digits(p_value: float) -> str:
    """A p-value with three decimals, such as `0.012`, or `<0.001`."""
    return f"{p_value:.3f}" if p_value >= SMALLEST_P else f"<{SMALLEST_P}"


def p_text(p_value: float) -> str:
    """The same as the end of a sentence: `p = 0.012`, or `p < 0.001`."""
    return f"p = {p_value:.3f}" if p_value >= SMALLEST_P else f"p < {SMALLEST_P}"


def columns_text(heads: Sequence[Sequence[str]], rows: Sequence[Sequence[str]]) -> str:
    """Format cells as text: first column left-aligned, others right-aligned, a rule below heads.

    Args:
        heads: Header lines.
        rows: Lines of cells, with as many cells as there are headers.
    """
    widths = [max(map(len, column)) for column in zip(*heads, *rows, strict=True)]
    lines = []
    for first, *others in (*heads, ["-" * width for width in widths], *rows):
        cells = (f"  {cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True))
        lines.append(f"{first:<{widths[0]}}{''.join(cells)}".rstrip())
    return "\n".join(lines)
