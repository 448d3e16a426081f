"""Level 4: equations, over the integers, modulo a number, and with exact roots."""

import math
import random
from fractions import Fraction
from typing import Any

from tasks.tir_math.problems.kind import (
    Arguments,
    Kind,
    between,
    fraction_latex,
    square_part,
    term,
)


def _inverse(rng: random.Random) -> dict[str, Any]:
    m = between(rng, 50, 2000)
    a = between(rng, 3, m - 2)
    return {"a": a, "m": m} if math.gcd(a, m) == 1 else _inverse(rng)


def _system(rng: random.Random) -> dict[str, Any]:
    a, b, c, d = (between(rng, 2, 20) for _ in range(4))
    if a * d == b * c:
        return _system(rng)
    return {"a": a, "b": b, "c": c, "d": d, "e": between(rng, 1, 200), "f": between(rng, 1, 200)}


def _sum_of_solution(v: Arguments) -> str:
    """Cramer's rule."""
    determinant = v["a"] * v["d"] - v["b"] * v["c"]
    x = Fraction(v["e"] * v["d"] - v["b"] * v["f"], determinant)
    y = Fraction(v["a"] * v["f"] - v["e"] * v["c"], determinant)
    return fraction_latex(x + y)


def _either_order(v: Arguments) -> Any:
    """Neither the order of the equations nor the names of the unknowns matter for their sum."""
    rows = [[v["a"], v["b"], v["e"]], [v["c"], v["d"], v["f"]]]
    renamed = [[b, a, value] for a, b, value in rows]
    return min(sorted(rows), sorted(renamed))


def _diophantine(rng: random.Random) -> dict[str, Any]:
    a, b = between(rng, 3, 30), between(rng, 3, 30)
    if a == b or math.gcd(a, b) > 1:
        return _diophantine(rng)
    return {"a": a, "b": b, "c": between(rng, 300, 3000)}


def _count_solutions(v: Arguments) -> str:
    """From the least x on, solutions are `b` apart."""
    a, b, c = v["a"], v["b"], v["c"]
    least = c * pow(a, -1, b) % b
    return str(0 if a * least > c else (c // a - least) // b + 1)


def _quadratic(rng: random.Random) -> dict[str, Any]:
    b, c = between(rng, -40, 40), between(rng, -200, 200)
    under_root = b * b - 4 * c
    irrational = under_root > 0 and math.isqrt(under_root) ** 2 != under_root
    return {"b": b, "c": c} if b and irrational else _quadratic(rng)


def _larger_root(v: Arguments) -> str:
    side, rest = square_part(v["b"] ** 2 - 4 * v["c"])
    half = side % 2 == 0
    root = side // 2 if half else side
    surd = ("" if root == 1 else str(root)) + f"\\sqrt{{{rest}}}"
    # Both terms of (-b + side * sqrt(rest)) / 2 are even or neither is, as b and side are.
    return f"{-v['b'] // 2} + {surd}" if half else f"\\frac{{{-v['b']} + {surd}}}{{2}}"


def _coins(rng: random.Random) -> dict[str, Any]:
    coins = sorted({between(rng, 2, 25) for _ in range(3)})
    if len(coins) < 3 or math.gcd(*coins) > 1:
        return _coins(rng)
    return {"coins": coins, "total": between(rng, 50, 300)}


def _ways_to_pay(v: Arguments) -> str:
    """One coin after the other: what can be paid with those before, and with one more of it."""
    ways = [1] + [0] * v["total"]
    for coin in v["coins"]:
        for total in range(coin, v["total"] + 1):
            ways[total] += ways[total - coin]
    return str(ways[-1])


LEVEL_4 = (
    Kind(
        "modular-inverse",
        4,
        (
            "Find the smallest positive integer $x$ with ${a}x \\equiv 1 \\pmod{{{m}}}$.",
            "What is the inverse of {a} modulo {m}, as an integer from 1 to {m}?",
            "Which positive integer below {m} leaves the remainder 1 on division by {m} after "
            "it is multiplied by {a}?",
        ),
        _inverse,
        lambda v: str(pow(v["a"], -1, v["m"])),
    ),
    Kind(
        "linear-system",
        4,
        (
            "If ${a}x + {b}y = {e}$ and ${c}x + {d}y = {f}$, what is $x + y$?",
            "The real numbers $x$ and $y$ satisfy\n$${a}x + {b}y = {e},\\qquad {c}x + {d}y = {f}."
            "$$\nFind $x + y$.",
            "The lines ${a}x + {b}y = {e}$ and ${c}x + {d}y = {f}$ meet in one point. What is the "
            "sum of its coordinates?",
        ),
        _system,
        _sum_of_solution,
        canonical=_either_order,
    ),
    Kind(
        "diophantine-count",
        4,
        (
            "How many pairs $(x, y)$ of non-negative integers satisfy ${a}x + {b}y = {c}$?",
            "Find the number of solutions of ${a}x + {b}y = {c}$ in integers $x, y \\ge 0$.",
            "Pens cost {a} crowns and notebooks {b}. In how many ways can exactly {c} crowns "
            "be spent on pens and notebooks?",
        ),
        _diophantine,
        _count_solutions,
        canonical=lambda v: [*sorted([v["a"], v["b"]]), v["c"]],
    ),
    Kind(
        "quadratic-root",
        4,
        (
            "Find the larger root of ${polynomial} = 0$ in exact form.",
            "What is the greatest real number $x$ with ${polynomial} = 0$? Give it exactly.",
            "The parabola $y = {polynomial}$ meets the $x$-axis at two points. Find the exact "
            "$x$-coordinate of the right one.",
        ),
        _quadratic,
        _larger_root,
        shown=lambda v: {"polynomial": "x^2" + term(v["b"], "x") + term(v["c"], "")},
    ),
    Kind(
        "coin-change",
        4,
        (
            "There are coins of {first}, {second} and {third} cents, as many as one likes. In how "
            "many ways can they make {total} cents, if the order does not matter?",
            "How many triples $(a, b, c)$ of non-negative integers satisfy "
            "${first}a + {second}b + {third}c = {total}$?",
            "A parcel needs stamps worth {total} cents. There are stamps of {first}, {second} and "
            "{third} cents. How many different collections of stamps are worth exactly that?",
        ),
        _coins,
        _ways_to_pay,
        shown=lambda v: {
            **dict(zip(("first", "second", "third"), v["coins"], strict=True)),
            "total": v["total"],
        },
    ),
)
