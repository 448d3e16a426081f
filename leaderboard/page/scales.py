"""Axes of the page's figures: from numbers to places, with ticks where people expect them."""

import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from leaderboard.table import cells

_LOG_SPAN = 30.0
"""Ratio of the largest to the smallest value from which on an axis may be logarithmic."""
_MOST_DECADES = 7
"""Powers of ten that a logarithmic axis spans: what is smaller still is as good as nothing."""
_SUPERSCRIPTS = str.maketrans(
    "-0123456789", "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"
)


@dataclass(frozen=True, slots=True)
class Scale:
    """One axis.

    Attributes:
        low: The value at 0.
        high: The value at 1; larger than `low`.
        unit: Unit of its values, as in `Column.unit`.
        log: Powers of ten are equally far from each other; `low` is positive then.
    """

    low: float
    high: float
    unit: str
    log: bool = False

    @classmethod
    def share(cls) -> Self:
        """From 0 to 100 %."""
        return cls(0.0, 1.0, "share")

    @classmethod
    def over(cls, values: Iterable[float], unit: str, log: bool = False) -> Self:
        """An axis that holds all finite values, from 0 if it is not logarithmic.

        A logarithmic one ends seven powers of ten below its upper end.

        Args:
            values: The values; what is not finite, or not positive on a logarithmic axis, is left
                out. Without any the axis goes from 0 to 1.
            unit: Their unit; shares always have the whole axis.
            log: Whether orders of magnitude matter; few of them are shown linearly all the same.
        """
        if unit == "share":
            return cls.share()
        # What is smaller than any normal number has no power of ten that could be divided by.
        finite = [
            value if abs(value) >= sys.float_info.min else 0.0
            for value in values
            if math.isfinite(value)
        ]
        positive = [value for value in finite if value > 0]
        if log and positive and max(positive) > _LOG_SPAN * min(positive):
            last = math.ceil(math.log10(max(positive)) + 1e-9)
            first = max(math.floor(math.log10(min(positive))), last - _MOST_DECADES)
            return cls(10.0**first, 10.0**last, unit, log=True)
        low, high = min([0.0, *finite]), max([0.0, *finite])
        if low == high:
            return cls(0.0, 1.0, unit)
        step = _step(high - low)
        return cls(math.floor(low / step) * step, math.ceil(high / step) * step, unit)

    def place(self, value: float) -> float:
        """Where a value lies, 0 to 1; what lies beyond an end is put there."""
        if self.log:
            if value <= self.low:
                return 0.0
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return min(1.0, max(0.0, share))

    def ticks(self) -> tuple[tuple[float, str], ...]:
        """Values that are marked, with their labels."""
        if self.log:
            first, last = round(math.log10(self.low)), round(math.log10(self.high))
            step = math.ceil((last - first) / 4)
            return tuple((10.0**power, _power(power)) for power in range(first, last + 1, step))
        width = 0.25 if self.unit == "share" else _step(self.high - self.low)
        count = round((self.high - self.low) / width)
        values = [self.low + number * width for number in range(count + 1)]
        return tuple((value, self._label(value, width)) for value in values)

    def _label(self, value: float, step: float) -> str:
        if self.unit == "share":
            return f"{100 * value:.0f}"
        if self.unit in ("count", "updates"):
            return f"{value:,.0f}"
        if abs(value) < step / 1e3:
            return "0"
        return cells.number(value, "number")


def _step(span: float) -> float:
    """1, 2 or 5 times a power of ten: four to eight steps over a span."""
    scale = 10.0 ** math.floor(math.log10(span / 4))
    return next(factor * scale for factor in (1, 2, 5, 10) if span / (factor * scale) <= 5)


def _power(exponent: int) -> str:
    return "1" if exponent == 0 else f"10{str(exponent).translate(_SUPERSCRIPTS)}"
