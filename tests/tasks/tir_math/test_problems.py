"""The generated problems: answers computed independently, panel and stream disjoint."""

import hashlib
import itertools
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from math_verify import parse

from tasks.panels import read_panel
from tasks.tir_math import make_panels
from tasks.tir_math.problems.kind import (
    Arguments,
    Problem,
    fraction_latex,
    is_for_panels,
    square_part,
    term,
)
from tasks.tir_math.problems.stream import KINDS, PER_KIND, identity, training_problem

PANEL = read_panel("tir_math", make_panels.PANELS, "builtin")
TRAINED = 2_000
"""Number of problems checked from the training stream."""


def by_digits(a: int, b: int) -> int:
    """Long multiplication, digit by digit."""
    return sum(a * int(digit) * 10**place for place, digit in enumerate(reversed(str(b))))


def euclid(a: int, b: int) -> int:
    return euclid(b, a % b) if b else a


def first_common_multiple(a: int, b: int) -> int:
    return next(multiple for multiple in range(a, a * b + 1, a) if multiple % b == 0)


def digit_value(digits: str, base: int) -> int:
    return sum(int(digit) * base**place for place, digit in enumerate(reversed(digits)))


def power_by_steps(a: int, b: int, m: int) -> int:
    return reduce(lambda value, _: value * a % m, range(b), 1)


def sum_at_crossing(v: Arguments) -> sympy.Expr:
    x, y = sympy.symbols("x y")
    equations = [v["a"] * x + v["b"] * y - v["e"], v["c"] * x + v["d"] * y - v["f"]]
    (solution,) = sympy.linsolve(equations, [x, y])
    return solution[0] + solution[1]


def right_root(v: Arguments) -> sympy.Expr:
    """Verify that the candidate is a root, and that the other root is smaller."""
    x = sympy.symbols("x")
    roots = sympy.roots(x**2 + v["b"] * x + v["c"], x)
    root = max(roots, key=float)
    assert sympy.expand(root**2 + v["b"] * root + v["c"]) == 0
    assert float(root) > -v["b"] - float(root)
    return root


def collections_of_coins(v: Arguments) -> int:
    ranges = [range(v["total"] // coin + 1) for coin in v["coins"]]
    first, second, third = v["coins"]
    return sum(
        first * i + second * j + third * k == v["total"] for i, j, k in itertools.product(*ranges)
    )


def area_by_coordinates(v: Arguments) -> sympy.Expr:
    """One side on the axis; the height of the third vertex follows from the other two sides."""
    a, b, c = (sympy.Integer(v[name]) for name in "abc")
    foot = (b**2 + c**2 - a**2) / (2 * c)
    return c * sympy.sqrt(b**2 - foot**2) / 2


def mean_of_larger(v: Arguments) -> Fraction:
    rolls = list(itertools.product(range(1, v["a"] + 1), range(1, v["b"] + 1)))
    return Fraction(sum(map(max, rolls)), len(rolls))


def routes(v: Arguments) -> int:
    """Row by row: the number of routes to each crossing."""
    row = [0] * (v["m"] + 1)
    row[0] = 1
    for y in range(v["n"] + 1):
        row = list(itertools.accumulate(row)) if y != v["q"] else around(row, v["p"])
    return row[-1]


def around(row: list[int], closed: int) -> list[int]:
    left = [*itertools.accumulate(row[:closed]), 0]
    return left + list(itertools.accumulate(row[closed + 1 :]))


def least_fitting(v: Arguments) -> int:
    """The smallest of the numbers satisfying the first congruence that satisfies all."""
    pairs = list(zip(v["moduli"], v["remainders"], strict=True))
    candidates = range(pairs[0][1], math.prod(v["moduli"]), pairs[0][0])
    return next(x for x in candidates if all(x % m == r for m, r in pairs))


def drawn_one_by_one(v: Arguments) -> Fraction:
    """The probability of one order of colors times the number of orders."""
    reds = [Fraction(v["red"] - i) for i in range(v["wanted"])]
    blues = [Fraction(v["blue"] - i) for i in range(v["drawn"] - v["wanted"])]
    all_balls = [v["red"] + v["blue"] - i for i in range(v["drawn"])]
    orders = len(list(itertools.combinations(range(v["drawn"]), v["wanted"])))
    return Fraction(orders * math.prod(reds + blues) / math.prod(all_balls))


CHECKS: Mapping[str, Callable[[Arguments], Any]] = {
    "sum": lambda v: v["a"] - -v["b"],
    "difference": lambda v: sum([v["a"], -v["b"]]),
    "product": lambda v: by_digits(v["a"], v["b"]),
    "remainder": lambda v: divmod(v["a"], v["b"])[1],
    "power": lambda v: v["a"] ** v["b"],
    "gcd": lambda v: euclid(v["a"], v["b"]),
    "lcm": lambda v: first_common_multiple(v["a"], v["b"]),
    "linear-equation": lambda v: next(x for x in range(-100, 101) if v["a"] * x + v["b"] == v["c"]),
    "fraction-sum": lambda v: sympy.Rational(v["a"], v["b"]) + sympy.Rational(v["c"], v["d"]),
    "digit-sum": lambda v: sum(map(int, str(v["n"]))),
    "multiples-count": lambda v: len(
        {*range(v["a"], v["n"] + 1, v["a"]), *range(v["b"], v["n"] + 1, v["b"])}
    ),
    "divisor-sum": lambda v: sum(d for d in range(1, v["n"] + 1) if v["n"] % d == 0),
    "prime-count": lambda v: len(list(sympy.primerange(v["a"], v["b"] + 1))),
    "modular-power": lambda v: power_by_steps(v["a"], v["b"], v["m"]),
    "from-base": lambda v: digit_value(v["digits"], v["base"]),
    "modular-inverse": lambda v: next(x for x in range(1, v["m"]) if v["a"] * x % v["m"] == 1),
    "linear-system": sum_at_crossing,
    "diophantine-count": lambda v: sum(
        (v["c"] - v["a"] * x) % v["b"] == 0 for x in range(v["c"] // v["a"] + 1)
    ),
    "quadratic-root": right_root,
    "coin-change": collections_of_coins,
    "triangle-area": area_by_coordinates,
    "expected-maximum": mean_of_larger,
    "lattice-paths": routes,
    "congruences": least_fitting,
    "urn-probability": drawn_one_by_one,
}


def value_of(answer: str) -> sympy.Expr:
    """A stored answer as parsed by the answer parser."""
    parsed = parse(f"\\boxed{{{answer}}}")
    assert isinstance(parsed[0], sympy.Expr), answer
    return parsed[0]


def test_the_panel_is_balanced() -> None:
    assert len(PANEL.entries) == PANEL.info.episodes == 250
    assert PANEL.info.max_turns == 5
    assert Counter(entry.category for entry in PANEL.entries) == dict.fromkeys("12345", 50)
    kinds = Counter((entry.category, entry.data["kind"]) for entry in PANEL.entries)
    assert len(kinds) == 25
    assert set(kinds.values()) == {PER_KIND}
    assert Counter(level for level, _ in kinds) == dict.fromkeys("12345", 5)
    assert [entry.id for entry in PANEL.entries[24:27]] == [
        "urn-probability-000",
        "sum-001",
        "difference-001",
    ]


def test_panel_ids_and_questions_are_distinct() -> None:
    for texts in (
        [entry.id for entry in PANEL.entries],
        [entry.data["question"] for entry in PANEL.entries],
        [identity(entry.data["kind"], entry.data["arguments"]) for entry in PANEL.entries],
    ):
        assert len(set(texts)) == 250


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_panel_answers_by_other_means(kind: str) -> None:
    for entry in PANEL.entries:
        if entry.data["kind"] == kind:
            expected = sympy.sympify(CHECKS[kind](entry.data["arguments"]))
            assert sympy.simplify(value_of(entry.data["answer"]) - expected) == 0, entry


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(KINDS)))
def test_training_answers_by_other_means(number: int) -> None:
    for index in range(number, 30 * len(KINDS), len(KINDS)):
        problem = training_problem(index, seed=7)
        expected = sympy.sympify(CHECKS[problem.kind](problem.arguments))
        assert sympy.simplify(value_of(problem.answer) - expected) == 0, problem


def test_questions_are_complete() -> None:
    problems = [training_problem(index, seed=3) for index in range(TRAINED)]
    for problem in problems:
        assert problem.question.count("$") % 2 == 0
        assert problem.question.count("{") == problem.question.count("}")
        shown = KINDS[problem.kind].shown(problem.arguments)
        for value in shown.values():
            assert str(value) in problem.question, problem
    for kind in KINDS.values():
        starts = {problem.question[:9] for problem in problems if problem.kind == kind.name}
        assert len(starts) >= 3, kind.name


def test_questions_by_hand() -> None:
    quadratic = KINDS["quadratic-root"]
    arguments = {"b": -19, "c": 44}
    shown = quadratic.shown(arguments)
    assert quadratic.wordings[0].format(**shown) == (
        "Find the larger root of $x^2 - 19x + 44 = 0$ in exact form."
    )
    assert quadratic.solve(arguments) == "\\frac{19 + \\sqrt{185}}{2}"
    assert KINDS["power"].wordings[0].format(a=12, b=3) == "Compute $12^{3}$."
    assert KINDS["triangle-area"].solve({"a": 13, "b": 14, "c": 15}) == "84"
    assert KINDS["triangle-area"].solve({"a": 5, "b": 5, "c": 6}) == "12"
    assert KINDS["triangle-area"].solve({"a": 5, "b": 6, "c": 7}) == "6\\sqrt{6}"
    assert KINDS["triangle-area"].solve({"a": 5, "b": 5, "c": 5}) == "\\frac{25\\sqrt{3}}{4}"
    assert KINDS["expected-maximum"].solve({"a": 6, "b": 6}) == "\\frac{161}{36}"
    assert KINDS["coin-change"].solve({"coins": [1, 5, 10], "total": 20}) == "9"
    assert KINDS["lattice-paths"].solve({"m": 2, "n": 2, "p": 1, "q": 1}) == "2"
    assert KINDS["congruences"].solve({"moduli": [3, 5, 7], "remainders": [2, 3, 2]}) == "23"


def test_the_checks_by_hand() -> None:
    assert routes({"m": 2, "n": 2, "p": 1, "q": 1}) == 2
    assert collections_of_coins({"coins": [1, 5, 10], "total": 20}) == 9
    assert mean_of_larger({"a": 6, "b": 6}) == Fraction(161, 36)
    assert area_by_coordinates({"a": 13, "b": 14, "c": 15}) == 84


def test_training_never_has_a_problem_of_the_panel() -> None:
    tested = {identity(entry.data["kind"], entry.data["arguments"]) for entry in PANEL.entries}
    assert all(map(is_for_panels, tested))
    keys = set()
    for seed in (0, 1):
        for index in range(TRAINED):
            problem = training_problem(index, seed)
            keys.add(identity(problem.kind, problem.arguments))
    assert not keys & tested
    assert not any(map(is_for_panels, keys))
    assert len(keys) > 0.9 * 2 * TRAINED


def test_one_problem_in_eight_is_kept_for_panels() -> None:
    kept = sum(is_for_panels(identity("sum", {"a": 1, "b": b})) for b in range(4000))
    assert 420 < kept < 580


def test_the_stream_is_balanced_and_open_anywhere() -> None:
    kinds = [training_problem(index).kind for index in range(1_000_000, 1_000_000 + 2 * len(KINDS))]
    assert kinds == [*KINDS, *KINDS]
    levels = [kind.level for kind in KINDS.values()]
    assert levels == sorted(levels)
    with pytest.raises(ValueError, match="must not be negative"):
        training_problem(-1)


def test_the_stream_is_the_same_everywhere() -> None:
    data = [training_problem(index, seed).data() for seed in (0, 1) for index in range(50)]
    digest = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
    assert digest == "74664c0c2af5f7ea0ddb427253aacbc66c4026c57fee6661ca6136fa0907cdae"
    assert training_problem(3, 0) != training_problem(3, 1)


def test_the_files_come_out_the_same_again(tmp_path: Path) -> None:
    make_panels.write_panels(tmp_path, None)
    shipped = make_panels.PANELS
    assert (tmp_path / "builtin.jsonl").read_bytes() == (shipped / "builtin.jsonl").read_bytes()
    measured = json.loads((shipped / "index.json").read_text())
    for name, facts in json.loads((tmp_path / "index.json").read_text()).items():
        assert facts.items() <= measured[name].items()
    assert list(measured) == ["builtin", "aime24", "aime25", "math500"]


NOT_YET = pytest.mark.xfail(reason="the panel would change: for the task's next version")
SAME = [
    ("sum", {"a": 2, "b": 1}, {"a": 1, "b": 2}),
    ("fraction-sum", {"a": 1, "b": 2, "c": 1, "d": 3}, {"a": 1, "b": 3, "c": 1, "d": 2}),
    ("multiples-count", {"n": 9, "a": 2, "b": 3}, {"n": 9, "a": 3, "b": 2}),
    ("diophantine-count", {"a": 2, "b": 3, "c": 9}, {"a": 3, "b": 2, "c": 9}),
    (
        "linear-system",
        {"a": 1, "b": 2, "e": 3, "c": 4, "d": 5, "f": 6},
        {"a": 5, "b": 4, "e": 6, "c": 2, "d": 1, "f": 3},
    ),
    ("lattice-paths", {"m": 5, "n": 7, "p": 1, "q": 2}, {"m": 7, "n": 5, "p": 2, "q": 1}),
    (
        "congruences",
        {"moduli": [5, 7, 9], "remainders": [1, 2, 3]},
        {"moduli": [9, 5, 7], "remainders": [3, 1, 2]},
    ),
    pytest.param(
        "lattice-paths",
        {"m": 5, "n": 7, "p": 1, "q": 2},
        {"m": 5, "n": 7, "p": 4, "q": 5},
        marks=NOT_YET,
    ),
    pytest.param(
        "urn-probability",
        {"red": 9, "blue": 8, "drawn": 5, "wanted": 2},
        {"red": 8, "blue": 9, "drawn": 5, "wanted": 3},
        marks=NOT_YET,
    ),
]
OTHER = [
    ("difference", {"a": 2, "b": 1}, {"a": 1, "b": 2}),
    ("remainder", {"a": 200, "b": 100}, {"a": 100, "b": 200}),
    ("fraction-sum", {"a": 1, "b": 2, "c": 1, "d": 3}, {"a": 1, "b": 2, "c": 2, "d": 3}),
    ("multiples-count", {"n": 9, "a": 2, "b": 3}, {"n": 8, "a": 2, "b": 3}),
    ("lattice-paths", {"m": 5, "n": 7, "p": 1, "q": 2}, {"m": 5, "n": 7, "p": 2, "q": 1}),
    (
        "congruences",
        {"moduli": [5, 7, 9], "remainders": [1, 2, 3]},
        {"moduli": [5, 7, 9], "remainders": [2, 1, 3]},
    ),
]


@pytest.mark.parametrize(("kind", "one", "two"), SAME)
def test_orders_without_a_meaning_are_the_same_problem(
    kind: str, one: Arguments, two: Arguments
) -> None:
    assert identity(kind, one) == identity(kind, two)
    assert KINDS[kind].solve(one) == KINDS[kind].solve(two)


@pytest.mark.parametrize(("kind", "one", "two"), OTHER)
def test_other_numbers_are_other_problems(kind: str, one: Arguments, two: Arguments) -> None:
    assert identity(kind, one) != identity(kind, two)


def test_a_problem_survives_its_file() -> None:
    problem = training_problem(4)
    again = json.loads(json.dumps(problem.data()))
    assert Problem(again["kind"], problem.level, *list(again.values())[1:]) == problem


def test_fractions_in_latex() -> None:
    values = (Fraction(6, 4), Fraction(-1, 3), Fraction(8, 4), 0)
    assert [fraction_latex(value) for value in values] == [
        "\\frac{3}{2}",
        "-\\frac{1}{3}",
        "2",
        "0",
    ]


def test_terms_of_a_polynomial() -> None:
    assert "x^2" + term(-1, "x") + term(-7, "") == "x^2 - x - 7"
    assert "x^2" + term(3, "x") + term(0, "") + term(1, "") == "x^2 + 3x + 1"


@settings(max_examples=200)
@given(st.integers(1, 10**6))
def test_square_parts(number: int) -> None:
    side, rest = square_part(number)
    assert side * side * rest == number
    assert all(count == 1 for count in sympy.factorint(rest).values())
