r"""Normalizes answers for math-verify.

Only notation changes here: what math-verify reads wrongly or not at all is written in the way
that it does read. No rule decides anything. In this order:

- Unicode's minus, times, infinity, degree and the like become LaTeX; so do no-break spaces.
- `$...$` and `\(...\)` around the whole, and a full stop, comma or semicolon at its end, go.
- Spaces of LaTeX become plain ones. Groups of three digits with a space between are one number:
  `1\,000` and `1 000` are 1000 (as `1,000` is without help).
- Python's notation: `x**2`, `pi`, `oo`, `(1+2j)` and `1.5e-02` are `x^{2}`, `\pi`, `\infty`,
  `(1+2i)` and `0.015`; `sqrt(2)`, `exp(x)`, `log(2)` and `cos(x)` are their LaTeX.
- `2 1/2` is two and a half, `\sqrt 13` the root of 13, `0.1\overline{6}` a sixth, and
  `\langle 1, 2\rangle` is `(1, 2)`.
- A unit at the end goes: text after a quantity (`5\text{ cm}^2`, `12\text{ apples}`), and usual
  units as plain words after a number (`5 cm`, `5 square feet`). So units are never compared.
- Words, one of them of four letters or more, are text and no product of variables: `Evelyn`.
- `12:00` is text: as a ratio, it divides by zero.

`normalize_pair` has the rules that need both sides. Text on one side makes words on the other
side text as well, so that `yes` is `\text{yes}`; and where both sides name a number base, as in
`101_2` and `12_{3}`, the digits are read in it. Where one side alone names a base, it is ignored.
"""

import re
from decimal import Decimal

_CHARACTERS = str.maketrans(
    {
        "\u2212": "-", "\u2013": "-", "\u00d7": r"\times ", "\u00f7": "/", "\u00b7": r"\cdot ",
        "\u221e": r"\infty ", "\u00b0": r"^\circ ", "\u2264": r"\leq ", "\u2265": r"\geq ",
        "\u2260": r"\neq ", "\u222a": r"\cup ", "\u2229": r"\cap ", "\u2208": r"\in ",
        "\u2205": r"\emptyset ", "\u00b1": r"\pm ", "\u00a0": " ", "\u202f": " ", "\u2009": " ",
        "\u00bd": r"\frac{1}{2}", "\u00b2": "^2", "\u00b3": "^3", "\ufe6a": "%", "\uff0c": ",",
    }
)  # fmt: skip
_WRAPPED = re.compile(r"\$\$?(?P<a>[^$]*)\$\$?|\\\((?P<b>.*)\\\)", re.DOTALL)
_TEXT = r"\\(?:text|mbox|mathrm|textrm|textbf|textit|mathbf|operatorname)\s*\{"
_SQUARED = r"(?:\s*\^\s*(?:\d|\{\d\}))?"
# One letter is a unit only where it is none of the usual variables and constants.
_UNIT_TEXT = re.compile(
    r"(?P<quantity>.*[\d})\]%]|.*\\pi)\s*\\(?:text|mbox|mathrm|textrm|textbf|textit)\s*\{"
    r"(?=[^{}]{2}|[mgshLJNVWKAFC]\})"
    r"(?!\s*(?:and|or|if|for|mod|dozen|hundred|thousand|[mb]illion|trillion)\b)"
    rf"[^{{}}]*\}}{_SQUARED}",
    re.DOTALL,
)
_UNIT = (
    "cm|mm|km|kg|mg|lbs?|oz|ft|in|yd|mi|hrs?|mins?|secs?|ms|mph|kph|sq|cu|deg|square|cubic|per|"
    "(?:(?:kilo|centi|milli)?(?:gram|meter|metre|liter|litre)|unit|yard|mile|pound|ounce|gallon|"
    "second|minute|hour|day|week|month|year|degree|radian|dollar|cent|euro)s?|inch|inches|foot|feet"
)
_UNIT_WORDS = re.compile(
    rf"(?P<quantity>(?:\\?\$\s*)?-?[\d.,/]*\d|.*\\frac\{{\d+\}}\{{\d+\}}|.*\\pi)"
    rf"(?:\s+(?:{_UNIT})\b)+{_SQUARED}",
    re.DOTALL,
)
# Not `p - q`, and not `ab cd`.
_WORDS = re.compile(r"(?=.*[A-Za-z]{4})[A-Za-z]{2,}(?: [A-Za-z]{2,})*")
_ONLY_TEXT = re.compile(rf"{_TEXT}[^{{}}]*\}}")
_BASED = re.compile(r"([0-9A-Za-z]+)_(?:\{\s*(?:\\text\{\s*)?(\d{1,2})[^0-9]*\}|(\d{1,2}))")
_REWRITES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"(?<=\d)\\[,!:; ]\s*(?=\d{3}(?!\d))", ""),
        (r"\\[,:;]|\\q?quad\b|(?<!\\)~", " "),
        (r"(?<!\\)\\ ", " "),
        (r"\\degree\b", r"^\\circ"),
        (r"\\langle\b", "("),
        (r"\\rangle\b", ")"),
        (r"\\varnothing\b", r"\\emptyset"),
        (r"\*\*\s*(-?[0-9]+|-?[A-Za-z]\b)", r"^{\1}"),
        (r"\*\*\s*\(([^()]*)\)", r"^{\1}"),
        (r"(?<![A-Za-z\\])pi\b(?!\s*\{)", r"\\pi"),
        (r"(?<![A-Za-z\\])oo\b", r"\\infty"),
        (r"(?<![A-Za-z])([0-9.]*[0-9])j\b", r"\1i"),
        (r"\\sqrt\s+([0-9]+)", r"\\sqrt{\1}"),
        (r"^(-?[0-9]+)\s+([0-9]+)\s*/\s*([0-9]+)$", r"\1\\frac{\2}{\3}"),
        (r"^(-?[0-9]{1,3}) (?=[0-9]{3}(?: [0-9]{3})*$)", r"\1"),
        (r"(?<=[0-9]) (?=[0-9]{3}(?: [0-9]{3})*$)", ""),
        (r"^([0-9]{1,2}:00)$", r"\\text{\1}"),
    )
)
_SCIENTIFIC = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE]([+-]?[0-9]{1,3})")
_FUNCTION = re.compile(r"(?<![A-Za-z\\])(sqrt|exp|log|sin|cos|tan)\(")
_FUNCTIONS = {"sqrt": (r"\sqrt{", "}"), "exp": ("e^{", "}"), "log": (r"\ln(", ")")}
_REPEATING = re.compile(r"([0-9]*)\.([0-9]*)\\overline\s*\{([0-9]+)\}")


def normalize_pair(truth: str, answer: str) -> tuple[str, str]:
    """Rewrite the right answer and the given one, in that order; see the module."""
    sides = (normalize(truth), normalize(answer))
    if any(_ONLY_TEXT.fullmatch(side) for side in sides):
        sides = (_as_text(sides[0]), _as_text(sides[1]))
    numbers = (_in_base(sides[0]), _in_base(sides[1]))
    if numbers[0] is not None and numbers[1] is not None:
        return str(numbers[0]), str(numbers[1])
    return sides


def normalize(text: str) -> str:
    """Rewrite one side; see the module."""
    text = text.translate(_CHARACTERS).strip()
    if wrapped := _WRAPPED.fullmatch(text):
        text = wrapped["a"] or wrapped["b"] or ""
    if _SCIENTIFIC.fullmatch(text):
        text = format(Decimal(text), "f")
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    text = _REPEATING.sub(_fraction, text)
    text = _functions(text)
    text = re.sub(r"(?<!\\)[.,;:\s]+$", "", text).strip()
    for unit in (_UNIT_TEXT, _UNIT_WORDS):
        if found := unit.fullmatch(text):
            text = found["quantity"].strip()
    if _WORDS.fullmatch(text):
        text = _as_text(text)
    return text


def _functions(text: str) -> str:
    """Python's functions as LaTeX's: `sqrt(2)`, `exp(x)`, `log(2)`, `cos(x)`."""
    while found := _FUNCTION.search(text):
        depth, end = 1, found.end()
        while end < len(text) and depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        if depth:
            break
        before, after = _FUNCTIONS.get(found[1], (f"\\{found[1]}(", ")"))
        inside = text[found.end() : end - 1]
        text = f"{text[: found.start()]}{before}{inside}{after}{text[end:]}"
    return text


def _as_text(side: str) -> str:
    return rf"\text{{{side.rstrip('.')}}}" if _is_words(side) else side


def _is_words(side: str) -> bool:
    """Whether a side is words, perhaps with numbers as in a date or a time of day."""
    return bool(re.fullmatch(r"[0-9 .:]*[A-Za-z][A-Za-z0-9 .:'-]*", side))


def _in_base(side: str) -> int | None:
    found = _BASED.fullmatch(side)
    if found is None:
        return None
    try:
        return int(found[1], int(found[2] or found[3]))
    except ValueError:  # no such base, or a digit that the base does not have
        return None


def _fraction(found: re.Match[str]) -> str:
    r"""`a.b\overline{c}` as a fraction."""
    whole, fixed, cycle = found[1], found[2], found[3]
    below = (10 ** len(cycle) - 1) * 10 ** len(fixed)
    above = int(whole + fixed + cycle) - int(whole + fixed or "0")
    return rf"\frac{{{above}}}{{{below}}}"
