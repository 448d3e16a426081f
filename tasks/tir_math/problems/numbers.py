"""Level 3: properties of integers, found with a loop or with modular arithmetic."""

import math
import random
from typing import Any

from tasks.tir_math.problems.kind import Arguments, Kind, between


def _multiples(rng: random.Random) -> dict[str, Any]:
    n, a, b = between(rng, 500, 5000), between(rng, 3, 30), between(rng, 3, 30)
    return {"n": n, "a": a, "b": b} if a % b and b % a else _multiples(rng)


def _count_multiples(v: Arguments) -> str:
    """Inclusion and exclusion."""
    n, a, b = v["n"], v["a"], v["b"]
    return str(n // a + n // b - n // math.lcm(a, b))


def _divisors(rng: random.Random) -> dict[str, Any]:
    return {"n": between(rng, 200, 9999)}


def _divisor_sum(v: Arguments) -> str:
    """The product of (p^(e+1) - 1) / (p - 1) over the prime powers of the number."""
    rest, total, prime = v["n"], 1, 2
    while rest > 1:
        power = 1
        while rest % prime == 0:
            rest //= prime
            power *= prime
        total *= (power * prime - 1) // (prime - 1)
        prime += 1
    return str(total)


def _interval(rng: random.Random) -> dict[str, Any]:
    low = between(rng, 100, 4000)
    return {"a": low, "b": low + between(rng, 100, 2000)}


def _prime_count(v: Arguments) -> str:
    """The sieve of Eratosthenes."""
    prime = bytearray([1]) * (v["b"] + 1)
    prime[:2] = bytes(2)
    for number in range(2, math.isqrt(v["b"]) + 1):
        if prime[number]:
            prime[number * number :: number] = bytes(
                len(range(number * number, v["b"] + 1, number))
            )
    return str(sum(prime[v["a"] :]))


def _modular_power(rng: random.Random) -> dict[str, Any]:
    return {"a": between(rng, 3, 99), "b": between(rng, 20, 999), "m": between(rng, 101, 997)}


def _digits_in_base(rng: random.Random) -> dict[str, Any]:
    base = between(rng, 3, 9)
    digits = [between(rng, 1, base - 1)]
    digits += [between(rng, 0, base - 1) for _ in range(between(rng, 3, 7))]
    return {"digits": "".join(map(str, digits)), "base": base}


def _in_base_ten(v: Arguments) -> str:
    value = 0
    for digit in v["digits"]:
        value = value * v["base"] + int(digit)
    return str(value)


LEVEL_3 = (
    Kind(
        "multiples-count",
        3,
        (
            "How many integers from 1 to {n} are divisible by {a} or by {b}?",
            "Count the positive integers not greater than {n} that are multiples of at least one "
            "of the numbers {a} and {b}.",
            "Lockers are numbered from 1 to {n}. Every one whose number is a multiple of {a} or "
            "of {b} is opened. How many are open?",
        ),
        _multiples,
        _count_multiples,
        canonical=lambda v: [v["n"], *sorted([v["a"], v["b"]])],
    ),
    Kind(
        "divisor-sum",
        3,
        (
            "Find the sum of all positive divisors of {n}, including 1 and {n}.",
            "Let $\\sigma(n)$ be the sum of the positive divisors of $n$. What is $\\sigma({n})$?",
            "All positive integers that divide {n} without remainder are added up. What is the "
            "result?",
        ),
        _divisors,
        _divisor_sum,
    ),
    Kind(
        "prime-count",
        3,
        (
            "How many prime numbers $p$ satisfy ${a} \\le p \\le {b}$?",
            "Count the primes from {a} to {b}, both ends included.",
            "Of the integers {a}, {a} + 1, ..., {b}, how many are prime?",
        ),
        _interval,
        _prime_count,
    ),
    Kind(
        "modular-power",
        3,
        (
            "What is the remainder when ${a}^{{{b}}}$ is divided by {m}?",
            "Find the least non-negative residue of ${a}^{{{b}}}$ modulo {m}.",
            "Compute ${a}^{{{b}}} \\bmod {m}$.",
        ),
        _modular_power,
        lambda v: str(v["a"] ** v["b"] % v["m"]),
    ),
    Kind(
        "from-base",
        3,
        (
            "What is ${digits}_{{{base}}}$ (a number in base {base}) in base ten?",
            "The digits {digits} are a number written in base {base}. Write it in base ten.",
            "Convert {digits} from base {base} to base 10.",
        ),
        _digits_in_base,
        _in_base_ten,
    ),
)
