r"""Whether an answer is a number, or an unfinished computation.

Mathematics does not tell 9648 from 4586 + 5062. Where a problem was generated from one operation on
two numbers, the second is the question itself, and a model that copies it has solved nothing. So an
answer that is equal counts if it has one of the forms of a finished number. The forms are listed:
of a sum alone, math-verify reads more notations than anybody would list, such as
`4586\frac{5062}{1}`.
"""

import re
from typing import Final

from tasks.tir_math.checking.normalize import normalize

_NUMBER: Final = re.compile(r"-?(?:\d+|\\frac\{\d+\}\{\d+\})")
# A decimal power stands for the place of the point.
_TENS: Final = r"(?:\\times|\\cdot|\*)\s*10\s*\^\s*(?:\{\s*[+-]?\d+\s*\}|\d)"
_POWER_OF_TEN: Final = re.compile(_TENS)
_COMPUTES: Final = re.compile(
    r"[+*!|]|(?<=[\w)}\]])\s*-|\^(?!\s*\{?\s*\\circ)"
    r"|\\(?:cdot|times|div|[dt]?binom|sqrt|sum|prod|int|gcd|lcm|min|max|log|ln|lg|exp|sin|cos|tan"
    r"|operatorname|[bp]?mod|lfloor|lceil)(?![A-Za-z])"
)

_SIGN: Final = r"(?:[+-]\s*)?"
_DIGITS: Final = r"\d+(?:(?:,|\{,\})\d{3})*"
_DECIMAL: Final = re.compile(rf"{_SIGN}\\?\$?\s*(?:{_DIGITS}(?:\.\d*)?|\.\d+)\s*(?:{_TENS})?")
_RATIO: Final = (
    rf"(?:\\[dt]?frac\s*(?:\{{\s*{_SIGN}{_DIGITS}\s*\}}|\d)\s*(?:\{{\s*{_SIGN}{_DIGITS}\s*\}}|\d)"
    rf"|{_DIGITS}\s*/\s*{_SIGN}{_DIGITS})"
)
_FRACTION: Final = re.compile(_SIGN + _RATIO)
_MIXED: Final = re.compile(rf"{_SIGN}\d+\s*\\[dt]?frac\s*\{{\s*(\d+)\s*\}}\s*\{{\s*(\d+)\s*\}}")
_AROUND: Final = re.compile(
    rf"({_SIGN})(?:\((.*)\)|\{{(.*)\}}|\\(?:text|mbox|mathrm|textrm|textbf|textit|mathbf)\s*\{{(.*)\}})",
    re.DOTALL,
)
_BEHIND: Final = re.compile(
    r"\s*(?:\\?%|\{?\}?\^\s*(?:\\circ|\{\s*\\circ\s*\})|\s[A-Za-z]{2,}"
    r"|\\(?:text|mbox|mathrm|textrm)\s*\{[^{}0-9]*\})$"
)

_ROOT: Final = r"\\sqrt(?:\{\d+\}|\d)"
_RATIONAL: Final = r"(?:\d+(?:\.\d+)?(?:/\d+)?|\\frac\{-?\d+\}\{\d+\}|\(\d+/\d+\))"
_TIMES: Final = r"(?:\\cdot|\\times|\*)?"
_OF_ROOT: Final = (
    rf"(?:(?:{_RATIONAL}{_TIMES})?{_ROOT}(?:/\d+)?|{_ROOT}{_TIMES}{_RATIONAL}"
    rf"|(?:{_RATIONAL}{_TIMES})?\\frac\{{-?(?:\d+{_TIMES})?{_ROOT}\}}\{{\d+\}})"
)
_WITH_ROOT: Final = (
    rf"[+-]?(?:{_OF_ROOT}(?:[+-]{_RATIONAL})?|(?:{_RATIONAL}|\(-{_RATIONAL}\))[+-]{_OF_ROOT})"
)
_ROOTS: Final = re.compile(
    rf"{_WITH_ROOT}|[+-]?\\frac\{{{_WITH_ROOT}\}}\{{\d+\}}|[+-]?\({_WITH_ROOT}\)/\d+"
    rf"|[+-]?{_RATIONAL}{_TIMES}\({_WITH_ROOT}\)"
)


def is_computation(answer: str, truth: str) -> bool:
    r"""Whether an answer has an operation in it where the right one is an integer or a fraction.

    `1.5 \times 10^6` has none, and of `2 + 3 = 5` the last member counts.
    """
    if not _NUMBER.fullmatch(truth):
        return False
    return bool(_COMPUTES.search(_POWER_OF_TEN.sub("", _last(answer)).lstrip("+-( {")))


def is_number(answer: str, truth: str) -> bool:
    r"""Whether an answer that is equal to the right one has the form of a finished number.

    An integer is a decimal number, with a power of ten if need be: of a quotient the division is
    still to be done. A fraction may also be a decimal or a mixed number, and need not be in lowest
    terms. A root, such as `\frac{-5 + \sqrt{13}}{2}`, has integers under its radicals and none that
    are still to be added or multiplied. Units, percent signs and braces around it are not part of a
    number.
    """
    last = _last(answer).replace(r"\left", "").replace(r"\right", "")
    if r"\sqrt" in truth:
        text = re.sub(r"\s+", "", last).replace(r"\dfrac", r"\frac").replace(r"\tfrac", r"\frac")
        return bool(_ROOTS.fullmatch(text))
    bare = _bare(last)
    if _DECIMAL.fullmatch(bare):
        return True
    if r"\frac" not in truth:
        return False
    mixed = _MIXED.fullmatch(bare)
    proper = mixed is not None and int(mixed[1]) < int(mixed[2])
    return proper or bool(_FRACTION.fullmatch(bare))


def _last(answer: str) -> str:
    """The last member of an equation, in the notation that math-verify gets."""
    return normalize(answer).rpartition("=")[2].strip()


def _bare(text: str) -> str:
    """A number without what may stand around it and behind it."""
    while True:
        inner = _BEHIND.sub("", text.strip())
        if found := _AROUND.fullmatch(inner):
            inner = found[1] + next(part for part in found.groups()[1:] if part is not None)
        if inner == text:
            return text
        text = inner
