r"""The comparison of two answers, run in the checker's process.

Importing this imports math-verify and sympy, which nothing else of this project does. No call here
has a limit of time or memory of its own: `worker` sets them from outside.

What is equal is what math-verify finds so with its default tolerances, with these decisions:

- The answer is read as LaTeX only, as a whole. No number is picked out of a sentence.
- `x = 5` answers 5, and 5 answers `x = 5`; `y = 5` does not answer `x = 5`. What stands before the
  last `=` says what is meant (`m + n = 204`), but where it is a number, it must be the right one:
  `6 = 5` is no 5.
- A percentage equals its number with and without the division by 100: `5\%` is 5 and 0.05.
- A decimal fraction equals what rounds to the same six decimals: 0.333333 is 1/3, 0.333 is not.
  Other numbers are compared exactly.
- An unordered right answer (`1, 2` or `\{1, 2\}`) takes any order, an ordered one (`(1, 2)`) only
  its own. `(1, 2)` may be a point or an interval; `[1, 2)` is an interval.
- A set is also met by the relation that describes it: `x > 5` is `(5, \infty)`.
- Degrees are the number: `90^\circ` is 90, and not `\frac{\pi}{2}`.
- Letters are the same in either case, names of variables matter, and so does `+ C`.
- `i` is the imaginary unit where it is the only symbol.

Two things are fixed. Where math-verify's "equal" may rest on a small difference, that is looked at
again in relation to the numbers: it takes 2^{-98} for 2^{-99}. And where it compares a decimal
fraction with an integer, sympy's types differ, so that 41.9999999999 would not be 42.
"""

import logging
from typing import Literal, TypeAlias

from latex2sympy2_extended import NormalizationConfig
from math_verify import LatexExtractionConfig, parse, verify
from sympy import Basic, Expr, Float, I, Integer, MatrixBase, Rational, Symbol, nan, zoo

from tasks.tir_math.checking.normalize import normalize, normalize_pair

Comparison: TypeAlias = Literal["equal", "different", "unreadable", "failed"]

# Its own rules for units remove variables, too: they read 3h as 3.
_READING = [
    LatexExtractionConfig(
        boxed_match_priority=0,
        normalization_config=NormalizationConfig(
            basic_latex=True, units=False, malformed_operators=True, nits=True, boxed="last"
        ),
    )
]
DECIMALS = 6
"""Decimals of a decimal fraction that count."""
EXACT = 1e-9
"""Relative difference that two exact numbers may show, which rounding in the last digits makes."""
DECIMAL = 1e-3
"""The same where a decimal fraction is one of them."""


class UnreadableTruth(Exception):
    """The right answer cannot be read."""


def quiet() -> None:
    """Stop math-verify from saying that it is used without its own time limit."""
    logging.disable(logging.CRITICAL)


class Pair:
    """A right answer, which is read at once, and a given one, which is not looked at before.

    Raises:
        UnreadableTruth: The right answer cannot be read.
    """

    def __init__(self, truth: str, answer: str) -> None:
        self._given = truth, answer
        self._truth_text = normalize(truth)
        self._truth = _read_truth(self._truth_text)

    def compare(self) -> Comparison:
        """Read the given answer and compare."""
        truth_text, text = normalize_pair(*self._given)
        if truth_text == text:
            return "equal"
        same = truth_text == self._truth_text
        truth = self._truth if same else _read_truth(truth_text)
        if isinstance(truth, Rational) and "=" in text:
            *names, last = _members(text)
            compared = [_compare(truth, name) for name in names if _is_number(name)]
            return next((found for found in compared if found != "equal"), _compare(truth, last))
        return _compare(truth, text)


def _compare(truth: Basic | MatrixBase, text: str) -> Comparison:
    answer = _read(text)
    if answer is None:
        return "unreadable"
    try:
        if _equal(truth, answer):
            return "equal"
        sides = (_complex(truth), _complex(answer))
        if sides[0] is not None and sides[1] is not None and _equal(sides[0], sides[1]):
            return "equal"
        return "different"
    except (MemoryError, RecursionError):
        raise
    except Exception:
        # Sympy raises all kinds of exceptions over expressions that make no sense together.
        return "failed"


def _read_truth(text: str) -> Basic | MatrixBase:
    read = _read(text)
    if read is None:
        raise UnreadableTruth
    return read


def _read(text: str) -> Basic | MatrixBase | None:
    if not text:
        return None
    found = parse(
        f"\\boxed{{{text}}}",
        _READING,
        fallback_mode="no_fallback",
        extraction_mode="first_match",
        parsing_timeout=None,
    )
    expression: Basic | MatrixBase | None = found[0] if found else None
    if expression is None or expression in (nan, zoo):
        return None
    return expression


def _members(text: str) -> list[str]:
    """What stands between the equals signs that are in no braces."""
    members, depth, start = [], 0, 0
    for place, sign in enumerate(text):
        depth += {"{": 1, "}": -1}.get(sign, 0)
        if sign == "=" and depth == 0:
            members.append(text[start:place].strip())
            start = place + 1
    return [*members, text[start:].strip()]


def _is_number(text: str) -> bool:
    """Whether a text is read as a number, and not as the name of one."""
    read = _read(text)
    return isinstance(read, Expr) and bool(read.is_number)


def _equal(truth: Basic | MatrixBase, answer: Basic | MatrixBase) -> bool:
    equal = verify(
        truth,
        answer,
        float_rounding=DECIMALS,
        allow_set_relation_comp=True,
        timeout_seconds=None,
        raise_on_error=True,
    )
    if not isinstance(truth, Expr) or not isinstance(answer, Expr):
        return bool(equal)
    if truth.free_symbols or answer.free_symbols:
        return bool(equal)
    return _close(truth, answer) if equal else _same_decimals(truth, answer)


def _close(truth: Expr, answer: Expr) -> bool:
    """Whether two numbers that are held for equal differ by little for their size."""
    if truth.is_zero or answer.is_zero:
        # What rounding leaves of zero is zero; but zero is not a small number.
        return bool(truth.is_zero and (answer.is_zero or isinstance(answer, Float)))
    sizes = [abs(number.evalf()) for number in (truth, answer)]
    apart = abs((truth - answer).evalf())
    if not all(isinstance(size, Float) for size in (*sizes, apart)):
        return True  # infinity, or nothing that has a value
    within = DECIMAL if truth.has(Float) or answer.has(Float) else EXACT
    return bool(apart <= within * max(sizes))


def _same_decimals(truth: Expr, answer: Expr) -> bool:
    """Whether a decimal fraction and an integer agree in the decimals that count."""
    for fraction, integer in ((truth, answer), (answer, truth)):
        if isinstance(fraction, Float) and isinstance(integer, Integer):
            if integer.is_zero and fraction is truth:
                return False
            return bool(abs(fraction - integer) < 0.5 * 10**-DECIMALS)
    return False


def _complex(expression: Basic | MatrixBase) -> Basic | MatrixBase | None:
    """The expression with i as the imaginary unit; None where there are other symbols."""
    symbols = expression.free_symbols
    if any(not isinstance(symbol, Symbol) or symbol.name != "i" for symbol in symbols):
        return None
    return expression.subs(dict.fromkeys(symbols, I))
