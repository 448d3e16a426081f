"""Levels 1 and 2: one operation, or one function call, on the numbers in the question."""

import math
import random
from fractions import Fraction
from typing import Any

from tasks.tir_math.problems.kind import Arguments, Kind, between, fraction_latex


def _unordered(arguments: Arguments) -> Any:
    return sorted(arguments.values())


def _sum(rng: random.Random) -> dict[str, Any]:
    return {"a": between(rng, 100, 9999), "b": between(rng, 100, 9999)}


def _difference(rng: random.Random) -> dict[str, Any]:
    a = between(rng, 100, 9999)
    b = between(rng, 100, 9999)
    return {"a": a, "b": b} if a != b else _difference(rng)


def _product(rng: random.Random) -> dict[str, Any]:
    return {"a": between(rng, 12, 999), "b": between(rng, 12, 999)}


def _remainder(rng: random.Random) -> dict[str, Any]:
    return {"a": between(rng, 1000, 9999), "b": between(rng, 12, 199)}


def _power(rng: random.Random) -> dict[str, Any]:
    return {"a": between(rng, 11, 199), "b": between(rng, 3, 9)}


def _gcd(rng: random.Random) -> dict[str, Any]:
    factor = between(rng, 2, 90)
    a, b = factor * between(rng, 7, 99), factor * between(rng, 7, 99)
    return {"a": a, "b": b} if a % b and b % a else _gcd(rng)


def _lcm(rng: random.Random) -> dict[str, Any]:
    a, b = between(rng, 12, 400), between(rng, 12, 400)
    return {"a": a, "b": b} if a % b and b % a else _lcm(rng)


def _linear_equation(rng: random.Random) -> dict[str, Any]:
    a, b, x = between(rng, 2, 60), between(rng, 1, 400), between(rng, -99, 99)
    return {"a": a, "b": b, "c": a * x + b}


def _fraction_sum(rng: random.Random) -> dict[str, Any]:
    b, d = between(rng, 3, 40), between(rng, 3, 40)
    a, c = between(rng, 1, b - 1), between(rng, 1, d - 1)
    fits = b != d and math.gcd(a, b) == 1 and math.gcd(c, d) == 1
    return {"a": a, "b": b, "c": c, "d": d} if fits else _fraction_sum(rng)


def _digit_sum(rng: random.Random) -> dict[str, Any]:
    return {"n": between(rng, 100_000, 999_999_999)}


def _digits_by_division(arguments: Arguments) -> str:
    number, total = arguments["n"], 0
    while number:
        number, digit = divmod(number, 10)
        total += digit
    return str(total)


LEVEL_1 = (
    Kind(
        "sum",
        1,
        (
            "What is ${a} + {b}$?",
            "Find the sum of {a} and {b}.",
            "A library has {a} novels and {b} other books. How many books does it have?",
            "Add {b} to {a}.",
        ),
        _sum,
        lambda v: str(v["a"] + v["b"]),
        canonical=_unordered,
    ),
    Kind(
        "difference",
        1,
        (
            "Compute ${a} - {b}$.",
            "Subtract {b} from {a}.",
            "What number has to be added to {b} to give {a}?",
            "By how much does {a} exceed {b}? Give a negative number if it is smaller.",
        ),
        _difference,
        lambda v: str(v["a"] - v["b"]),
    ),
    Kind(
        "product",
        1,
        (
            "What is ${a} \\times {b}$?",
            "Multiply {a} by {b}.",
            "A hall has {a} rows with {b} seats each. How many seats are there?",
            "Find the area of a rectangle with sides of length {a} and {b}.",
        ),
        _product,
        lambda v: str(v["a"] * v["b"]),
        canonical=_unordered,
    ),
    Kind(
        "remainder",
        1,
        (
            "What is the remainder when {a} is divided by {b}?",
            "Find ${a} \\bmod {b}$.",
            "{a} apples are packed into boxes of {b} until no further box can be filled. "
            "How many apples are left over?",
        ),
        _remainder,
        lambda v: str(v["a"] - v["a"] // v["b"] * v["b"]),
    ),
    Kind(
        "power",
        1,
        (
            "Compute ${a}^{{{b}}}$.",
            "What is {a} to the power of {b}?",
            "Evaluate the product of {b} factors, each of which equals {a}.",
        ),
        _power,
        lambda v: str(math.prod([v["a"]] * v["b"])),
    ),
)

LEVEL_2 = (
    Kind(
        "gcd",
        2,
        (
            "Find the greatest common divisor of {a} and {b}.",
            "What is $\\gcd({a}, {b})$?",
            "What is the largest integer that divides both {a} and {b}?",
            "Two ropes of {a} cm and {b} cm are cut into pieces of one whole length in cm with "
            "nothing left over. How long, in cm, can a piece be at most?",
        ),
        _gcd,
        lambda v: str(math.gcd(v["a"], v["b"])),
        canonical=_unordered,
    ),
    Kind(
        "lcm",
        2,
        (
            "Find the least common multiple of {a} and {b}.",
            "What is the smallest positive integer that both {a} and {b} divide?",
            "One lamp flashes every {a} seconds and another every {b} seconds. They have just "
            "flashed together. After how many seconds will they next do so?",
        ),
        _lcm,
        lambda v: str(math.lcm(v["a"], v["b"])),
        canonical=_unordered,
    ),
    Kind(
        "linear-equation",
        2,
        (
            "Solve ${a}x + {b} = {c}$ for $x$.",
            "Find the number $n$ for which ${a}n + {b} = {c}$.",
            "I multiply a number by {a}, then add {b}, and get {c}. What is the number?",
        ),
        _linear_equation,
        lambda v: fraction_latex(Fraction(v["c"] - v["b"], v["a"])),
    ),
    Kind(
        "fraction-sum",
        2,
        (
            "Compute $\\frac{{{a}}}{{{b}}} + \\frac{{{c}}}{{{d}}}$ as a fraction in lowest terms.",
            "What is $\\frac{{{a}}}{{{b}}}$ plus $\\frac{{{c}}}{{{d}}}$? Give an exact fraction.",
            "A jug holds {a}/{b} of a litre and a bottle {c}/{d} of a litre. How many litres do "
            "they hold together, as an exact fraction?",
        ),
        _fraction_sum,
        lambda v: fraction_latex(Fraction(v["a"] * v["d"] + v["c"] * v["b"], v["b"] * v["d"])),
        canonical=lambda v: sorted([[v["a"], v["b"]], [v["c"], v["d"]]]),
    ),
    Kind(
        "digit-sum",
        2,
        (
            "What is the sum of the digits of {n}?",
            "Add up the decimal digits of the number {n}.",
            "Find the digit sum of ${n}$.",
        ),
        _digit_sum,
        _digits_by_division,
    ),
)
