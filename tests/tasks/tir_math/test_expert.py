"""The scripted solver: its programs run unchanged here and print the stored answers."""

import contextlib
import io
import time

import pytest
from math_verify import parse, verify

from tasks.panels import read_panel
from tasks.tir_math.expert import final, program
from tasks.tir_math.make_panels import PANELS
from tasks.tir_math.problems.stream import KINDS, training_problem

ENTRIES = read_panel("tir_math", PANELS, "builtin").entries


def output_of(text: str) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(text, "program", "exec"), {"__name__": "__main__"})  # ours, not a model's
    return printed.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_programs_solve_the_panel(kind: str) -> None:
    entries = [entry for entry in ENTRIES if entry.data["kind"] == kind]
    assert len(entries) == 10
    for entry in entries:
        text = program(kind, entry.data["arguments"])
        answer = final(output_of(text))
        assert verify(parse(f"\\boxed{{{entry.data['answer']}}}"), parse(answer)), entry
        if len(entry.data["answer"]) > 2:
            assert entry.data["answer"] not in text


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(KINDS)))
def test_programs_solve_training_problems(number: int) -> None:
    for index in range(number, 10 * len(KINDS), len(KINDS)):
        problem = training_problem(index, seed=5)
        answer = final(output_of(program(problem.kind, problem.arguments)))
        assert verify(parse(f"\\boxed{{{problem.answer}}}"), parse(answer)), problem


def test_programs_of_easy_problems_are_short() -> None:
    for entry in ENTRIES:
        text = program(entry.data["kind"], entry.data["arguments"])
        if entry.category in "12":
            assert len(text.splitlines()) <= 2
            assert len(text) <= 80


def test_programs_are_quick() -> None:
    """In processor time: far below any sandbox limit."""
    for entry in ENTRIES:
        text = program(entry.data["kind"], entry.data["arguments"])
        start = time.process_time()
        output_of(text)
        assert time.process_time() - start < 1.0, entry.id


def test_programs_by_hand() -> None:
    assert program("sum", {"a": 123, "b": 456}) == "print(123 + 456)"
    assert program("gcd", {"a": 84, "b": 36}) == "import math\nprint(math.gcd(84, 36))"
    assert output_of(program("linear-equation", {"a": 7, "b": 10, "c": -11})) == "-3\n"
    assert output_of(program("fraction-sum", {"a": 1, "b": 2, "c": 1, "d": 3})) == "5/6\n"


def test_an_unknown_kind_has_no_program() -> None:
    with pytest.raises(KeyError):
        program("riddle", {"a": 1})


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        ("579\n", "\\boxed{579}"),
        ("trying\n\n-7 \n\n", "\\boxed{-7}"),
        ("5/6\n", "\\boxed{\\frac{5}{6}}"),
        ("-5/6", "\\boxed{-\\frac{5}{6}}"),
        (
            "- \\frac{3}{2} + \\frac{\\sqrt{5}}{2}\n",
            "\\boxed{- \\frac{3}{2} + \\frac{\\sqrt{5}}{2}}",
        ),
    ],
)
def test_the_last_line_is_boxed(output: str, answer: str) -> None:
    assert final(output) == answer


def test_without_output_there_is_no_answer() -> None:
    with pytest.raises(ValueError, match="printed nothing"):
        final(" \n")
