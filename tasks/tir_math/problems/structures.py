"""Level 5: areas, expectations, paths, congruences and probabilities, all exact."""

import math
import random
from fractions import Fraction
from typing import Any

from tasks.tir_math.problems.kind import Arguments, Kind, between, fraction_latex, square_part


def _triangle(rng: random.Random) -> dict[str, Any]:
    a, b, c = sorted(between(rng, 5, 60) for _ in range(3))
    return {"a": a, "b": b, "c": c} if a + b > c and a < c else _triangle(rng)


def _heron(v: Arguments) -> str:
    """Heron's formula: the area is a quarter of the root of a product of integers."""
    a, b, c = v["a"], v["b"], v["c"]
    side, rest = square_part((a + b + c) * (-a + b + c) * (a - b + c) * (a + b - c))
    share = Fraction(side, 4)
    if rest == 1:
        return fraction_latex(share)
    surd = ("" if share.numerator == 1 else str(share.numerator)) + f"\\sqrt{{{rest}}}"
    return surd if share.denominator == 1 else f"\\frac{{{surd}}}{{{share.denominator}}}"


def _two_dice(rng: random.Random) -> dict[str, Any]:
    a, b = between(rng, 4, 60), between(rng, 4, 60)
    return {"a": min(a, b), "b": max(a, b)} if a != b else _two_dice(rng)


def _expected_maximum(v: Arguments) -> str:
    """The sum of the probabilities that the maximum exceeds 0, 1, 2, ..."""
    a, b = v["a"], v["b"]
    return fraction_latex(sum(1 - Fraction(min(k, a) * k, a * b) for k in range(b)))


def _grid(rng: random.Random) -> dict[str, Any]:
    m, n = between(rng, 5, 14), between(rng, 5, 14)
    return {"m": m, "n": n, "p": between(rng, 1, m - 1), "q": between(rng, 1, n - 1)}


def _paths(v: Arguments) -> str:
    """All paths less those through the point."""
    m, n, p, q = v["m"], v["n"], v["p"], v["q"]
    through = math.comb(p + q, p) * math.comb(m - p + n - q, m - p)
    return str(math.comb(m + n, m) - through)


def _mirrored(v: Arguments) -> Any:
    """The paths of a grid and of the one with its axes exchanged."""
    return min([v["m"], v["n"], v["p"], v["q"]], [v["n"], v["m"], v["q"], v["p"]])


def _congruences(rng: random.Random) -> dict[str, Any]:
    moduli = [between(rng, 5, 40) for _ in range(3)]
    if math.lcm(*moduli) != math.prod(moduli):
        return _congruences(rng)
    return {"moduli": moduli, "remainders": [between(rng, 1, m - 1) for m in moduli]}


def _least_solution(v: Arguments) -> str:
    """The Chinese remainder theorem, written as a sum."""
    whole = math.prod(v["moduli"])
    parts = (
        remainder * (whole // modulus) * pow(whole // modulus, -1, modulus)
        for modulus, remainder in zip(v["moduli"], v["remainders"], strict=True)
    )
    return str(sum(parts) % whole)


def _shown_congruences(v: Arguments) -> Arguments:
    names = ("k", "l", "m", "r", "s", "t")
    return dict(zip(names, [*v["moduli"], *v["remainders"]], strict=True))


def _urn(rng: random.Random) -> dict[str, Any]:
    drawn = between(rng, 3, 8)
    return {
        "red": between(rng, 8, 30),
        "blue": between(rng, 8, 30),
        "drawn": drawn,
        "wanted": between(rng, 1, drawn - 1),
    }


def _probability(v: Arguments) -> str:
    red, blue, drawn, wanted = v["red"], v["blue"], v["drawn"], v["wanted"]
    favorable = math.comb(red, wanted) * math.comb(blue, drawn - wanted)
    return fraction_latex(Fraction(favorable, math.comb(red + blue, drawn)))


LEVEL_5 = (
    Kind(
        "triangle-area",
        5,
        (
            "A triangle has sides of length {a}, {b} and {c}. Find its area in simplest exact "
            "form.",
            "What is the exact area of triangle $ABC$ with $AB = {c}$, $BC = {a}$ and $CA = {b}$?",
            "Three poles stand {a} m, {b} m and {c} m apart from each other. How many square "
            "metres lie in the triangle between them? Give the exact value.",
        ),
        _triangle,
        _heron,
        canonical=lambda v: sorted(v.values()),
    ),
    Kind(
        "expected-maximum",
        5,
        (
            "A fair die with faces 1 to {a} and a fair die with faces 1 to {b} are rolled. Find "
            "the expected value of the larger number, as an exact fraction.",
            "$X$ is uniform on $\\{{1, \\dots, {a}\\}}$ and $Y$, independent of it, on "
            "$\\{{1, \\dots, {b}\\}}$. What is $E[\\max(X, Y)]$ exactly?",
            "One wheel shows an integer from 1 to {a}, another one from 1 to {b}, each with equal "
            "chances. You are paid the greater one. How much are you paid on average? Give a "
            "fraction in lowest terms.",
        ),
        _two_dice,
        _expected_maximum,
    ),
    Kind(
        "lattice-paths",
        5,
        (
            "A path goes from $(0, 0)$ to $({m}, {n})$ in unit steps to the right or up. How many "
            "such paths do not pass through $({p}, {q})$?",
            "In how many ways can one walk from $(0, 0)$ to $({m}, {n})$, each step being one unit "
            "east or one unit north, if the crossing $({p}, {q})$ is closed?",
            "A robot at $(0, 0)$ adds 1 to one of its two coordinates at a time until it is at "
            "$({m}, {n})$. How many routes avoid $({p}, {q})$?",
        ),
        _grid,
        _paths,
        canonical=_mirrored,
    ),
    Kind(
        "congruences",
        5,
        (
            "Find the smallest non-negative integer $x$ with $x \\equiv {r} \\pmod{{{k}}}$, "
            "$x \\equiv {s} \\pmod{{{l}}}$ and $x \\equiv {t} \\pmod{{{m}}}$.",
            "What is the least natural number that leaves the remainders {r}, {s} and {t} when "
            "divided by {k}, {l} and {m}, in this order?",
            "Beads are counted three times: in groups of {k} there are {r} left over, in groups of "
            "{l} there are {s}, in groups of {m} there are {t}. How many beads are there at "
            "least?",
        ),
        _congruences,
        _least_solution,
        shown=_shown_congruences,
        canonical=lambda v: sorted(zip(v["moduli"], v["remainders"], strict=True)),
    ),
    Kind(
        "urn-probability",
        5,
        (
            "An urn holds {red} red and {blue} blue balls. {drawn} are drawn without replacement. "
            "What is the probability that exactly {wanted} of them are red? Give a fraction in "
            "lowest terms.",
            "From {red} women and {blue} men a committee of {drawn} is chosen at random. Find the "
            "exact probability that it has exactly {wanted} female members.",
            "Of {blue} good and {red} broken lamps, {drawn} are taken at random. With what exact "
            "probability are exactly {wanted} of these broken?",
        ),
        _urn,
        _probability,
    ),
)
