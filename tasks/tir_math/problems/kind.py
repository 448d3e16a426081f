"""Kinds of problems, and problems."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tasks.seeding import canonical_json, pick, stable_seed

Arguments = Mapping[str, Any]
"""The numbers of a problem, by name; JSON values."""

PANEL_SHARE = 8
"""One in so many problems is kept for panels."""


def _as_drawn(arguments: Arguments) -> Any:
    return arguments


@dataclass(frozen=True, slots=True)
class Kind:
    """A family of problems that differ in their numbers and words only.

    Attributes:
        name: Stands in the ids of panel entries.
        level: 1 (one operation) to 5 (enumeration, several steps).
        wordings: Templates of the question, one of which is drawn.
        draw: Draws the numbers.
        solve: The answer as plain LaTeX, computed from the numbers.
        shown: What the templates are filled with; the numbers themselves where nothing else is
            said.
        canonical: The numbers in the one order that stands for all orders with the same meaning.
    """

    name: str
    level: int
    wordings: tuple[str, ...]
    draw: Callable[[random.Random], dict[str, Any]]
    solve: Callable[[Arguments], str]
    shown: Callable[[Arguments], Arguments] = _as_drawn
    canonical: Callable[[Arguments], Any] = _as_drawn


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem.

    Attributes:
        kind: Name of its kind.
        level: Difficulty, 1 to 5.
        question: What is asked, with LaTeX between dollar signs.
        answer: Plain LaTeX.
        arguments: The numbers in the question.
    """

    kind: str
    level: int
    question: str
    answer: str
    arguments: Arguments

    def data(self) -> dict[str, Any]:
        """The data of a panel entry."""
        return {
            "kind": self.kind,
            "question": self.question,
            "answer": self.answer,
            "arguments": dict(self.arguments),
        }


def pose(kind: Kind, rng: random.Random) -> Problem:
    """Draw a problem of a kind."""
    arguments = kind.draw(rng)
    question = pick(kind.wordings, rng).format(**kind.shown(arguments))
    return Problem(kind.name, kind.level, question, kind.solve(arguments), arguments)


def identity_of(kind: Kind, arguments: Arguments) -> str:
    """The same for two problems whose solution is the same work, however they are worded."""
    return canonical_json([kind.name, kind.canonical(arguments)])


def is_for_panels(identity: str) -> bool:
    """Whether the problem may stand in a panel; if not, it may be trained on. Never both."""
    return stable_seed("tir-math-split", identity) % PANEL_SHARE == 0


def between(rng: random.Random, low: int, high: int) -> int:
    """An integer from `low` to `high`, both included.

    Only `rng.random()` is drawn from, whose sequence Python guarantees between versions.
    """
    return low + int(rng.random() * (high - low + 1))


def fraction_latex(value: Fraction | int) -> str:
    r"""An integer, or `\frac{a}{b}` in lowest terms with the sign in front."""
    value = Fraction(value)
    if value.denominator == 1:
        return str(value.numerator)
    sign = "-" if value < 0 else ""
    return f"{sign}\\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"


def square_part(number: int) -> tuple[int, int]:
    """Split a positive integer into `s * s * r` with the largest `s`.

    Returns:
        s and r.
    """
    side, rest = 1, number
    factor = 2
    while factor * factor <= rest:
        while rest % (factor * factor) == 0:
            rest //= factor * factor
            side *= factor
        factor += 1
    return side, rest


def term(coefficient: int, variable: str) -> str:
    """A further term of a polynomial with its sign: ` + 3x`, ` - x`, or nothing for 0."""
    if coefficient == 0:
        return ""
    size = abs(coefficient)
    number = "" if size == 1 and variable else str(size)
    return f" {'-' if coefficient < 0 else '+'} {number}{variable}"
