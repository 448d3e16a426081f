r"""The scripted solver: a readable program for every kind of built-in problem.

A program works from the numbers of the question alone; the stored answer is not among them.
"""

import re
from collections.abc import Mapping

from tasks.tir_math.problems.kind import Arguments

# Levels 1 and 2 are short forms into which the numbers are copied, for small models to imitate.
_PROGRAMS: Mapping[str, str] = {
    "sum": "print({a} + {b})",
    "difference": "print({a} - {b})",
    "product": "print({a} * {b})",
    "remainder": "print({a} % {b})",
    "power": "print({a} ** {b})",
    "gcd": "import math\nprint(math.gcd({a}, {b}))",
    "lcm": "import math\nprint(math.lcm({a}, {b}))",
    "linear-equation": "print(({c} - {b}) // {a})",
    "fraction-sum": "from fractions import Fraction\n"
    "print(Fraction({a}, {b}) + Fraction({c}, {d}))",
    "digit-sum": 'print(sum(map(int, "{n}")))',
    "multiples-count": """\
count = 0
for number in range(1, {n} + 1):
    if number % {a} == 0 or number % {b} == 0:
        count += 1
print(count)""",
    "divisor-sum": """\
n = {n}
total = 0
for d in range(1, n + 1):
    if n % d == 0:
        total += d
print(total)""",
    "prime-count": """\
def is_prime(n):
    d = 2
    while d * d <= n:
        if n % d == 0:
            return False
        d += 1
    return n > 1

print(sum(is_prime(n) for n in range({a}, {b} + 1)))""",
    "modular-power": "print(pow({a}, {b}, {m}))",
    "from-base": 'print(int("{digits}", {base}))',
    "modular-inverse": """\
x = 1
while {a} * x % {m} != 1:
    x += 1
print(x)""",
    "linear-system": """\
from sympy import Matrix
x, y = Matrix([[{a}, {b}], [{c}, {d}]]).LUsolve(Matrix([{e}, {f}]))
print(x + y)""",
    "diophantine-count": """\
count = 0
for x in range({c} // {a} + 1):
    if ({c} - {a} * x) % {b} == 0:
        count += 1
print(count)""",
    "quadratic-root": """\
from sympy import latex, sqrt
b, c = {b}, {c}
print(latex((-b + sqrt(b**2 - 4 * c)) / 2))""",
    "coin-change": """\
first, second, third = {coins}
total = {total}
count = 0
for i in range(total // first + 1):
    for j in range((total - i * first) // second + 1):
        if (total - i * first - j * second) % third == 0:
            count += 1
print(count)""",
    "triangle-area": """\
from sympy import Rational, latex, sqrt
a, b, c = {a}, {b}, {c}
s = Rational(a + b + c, 2)
print(latex(sqrt(s * (s - a) * (s - b) * (s - c))))""",
    "expected-maximum": """\
from fractions import Fraction
total = sum(max(x, y) for x in range(1, {a} + 1) for y in range(1, {b} + 1))
print(Fraction(total, {a} * {b}))""",
    "lattice-paths": """\
m, n = {m}, {n}
paths = [[0] * (n + 1) for _ in range(m + 1)]
for x in range(m + 1):
    for y in range(n + 1):
        if (x, y) == (0, 0):
            paths[x][y] = 1
        elif (x, y) != ({p}, {q}):
            left = paths[x - 1][y] if x > 0 else 0
            below = paths[x][y - 1] if y > 0 else 0
            paths[x][y] = left + below
print(paths[m][n])""",
    "congruences": """\
moduli = {moduli}
remainders = {remainders}
x = 0
while any(x % m != r for m, r in zip(moduli, remainders)):
    x += 1
print(x)""",
    "urn-probability": """\
from fractions import Fraction
from math import comb
good = comb({red}, {wanted}) * comb({blue}, {drawn} - {wanted})
print(Fraction(good, comb({red} + {blue}, {drawn})))""",
}

_FRACTION = re.compile(r"(-?)(\d+)/(\d+)")


def program(kind: str, arguments: Arguments) -> str:
    """A program that solves a built-in problem and prints the result.

    Args:
        kind: Name of the problem's kind.
        arguments: The numbers in the question.

    Raises:
        KeyError: There is no such kind, or a number is missing.
    """
    return _PROGRAMS[kind].format(**arguments)


def final(output: str) -> str:
    r"""The boxed answer: the last line that a program printed, with `a/b` as a LaTeX fraction.

    Raises:
        ValueError: Nothing was printed.
    """
    printed = [line.strip() for line in output.split("\n") if line.strip()]
    if not printed:
        raise ValueError("the program printed nothing")
    answer = _FRACTION.sub(r"\1\\frac{\2}{\3}", printed[-1])
    return f"\\boxed{{{answer}}}"
