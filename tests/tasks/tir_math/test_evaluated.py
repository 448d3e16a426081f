"""Numbers, and computations that are not evaluated yet."""

import pytest

from tasks.registry import load_task
from tasks.tir_math.evaluated import is_computation, is_number
from tasks.tir_math.services import checker

HALF, ROOT = r"-\frac{1}{2}", r"\frac{1 + \sqrt{5}}{2}"


@pytest.mark.parametrize(
    "answer",
    [
        *("5", "-5", "- 5", "(-5)", "-(5)", "5.0", "033", "1,000", "1{,}000", r"1\,000", r"5\%"),
        *("+5", "5%", r"\$5", "{5}", r"\left( 5 \right)", r"1.5 \times 10^6", r"2 \cdot 10^{-3}"),
        *("x = 5", "2 + 3 = 5", "5 cm", r"25\text{ cm}^2", r"90^\circ", r"\text{5}", "5 apples"),
    ],
)
def test_numbers(answer: str) -> None:
    for truth in ("5", HALF):
        assert not is_computation(answer, truth)
        assert is_number(answer, truth)
    assert not is_number(answer, ROOT)


@pytest.mark.parametrize(
    "answer",
    [
        *(r"\frac{10}{20}", r"-\frac{1}{2}", r"\frac{-1}{2}", r"\frac{1}{-2}", r"\dfrac12"),
        *("1/2", "-1/2", "3 1/2", r"3\frac{1}{2}", r"\left(\frac{1}{2}\right)", r"x = \frac{1}{2}"),
    ],
)
def test_fractions_are_numbers_where_the_right_answer_is_one(answer: str) -> None:
    assert not is_computation(answer, HALF)
    assert is_number(answer, HALF)
    assert not is_number(answer, "5")


@pytest.mark.parametrize(
    "answer",
    [
        *("4586+5062", "4586 - 12", "2*3", r"2 \times 3", r"2\cdot 3", "57^6", "57^{6}", "5!"),
        *(r"\gcd(12, 18)", r"\operatorname{lcm}(67,95)", r"\binom{5}{2}", r"\sqrt{25}", "|5|"),
        *(r"\frac{7}{20} + \frac{8}{9}", r"\frac{3786-346}{40}", r"7 \bmod 2", "5 = 2 + 3"),
    ],
)
def test_computations(answer: str) -> None:
    assert is_computation(answer, "5")
    assert not is_number(answer, "5") and not is_number(answer, HALF)
    # Roots can be written in many ways.
    assert not is_computation(answer, ROOT)


@pytest.mark.parametrize(
    "answer",
    [
        *(
            r"\sqrt{13}",
            "2\\sqrt{3}",
            r"2 \sqrt{3}",
            r"\frac{\sqrt{3}}{2}",
            r"\frac{15 \sqrt{7}}{4}",
        ),
        *(r"\frac{-5 + \sqrt{13}}{2}", r"- \frac{5}{2} + \frac{\sqrt{13}}{2}", r"-3 + 2\sqrt{5}"),
        *("(-5 + sqrt(13))/2", "15*sqrt(7)/4", r"\sqrt 13", r"\dfrac{1}{2}(-5+\sqrt{13})"),
        *(r"x = \frac{\sqrt{13} - 5}{2}", r"\frac{15}{4}\sqrt{7}", r"\frac{\sqrt{720}}{4}"),
    ],
)
def test_roots(answer: str) -> None:
    assert is_number(answer, ROOT)
    assert not is_number(answer, "5")


@pytest.mark.parametrize(
    "answer",
    [
        *(r"\frac{-5+\sqrt{5^2-4\cdot 3}}{2}", r"\frac{-5+\sqrt{25-12}}{2}", r"\sqrt{12*5*4*3}"),
        *(r"\frac{-5+\sqrt{13}}{2 \cdot 1}", r"\frac{2-7+\sqrt{13}}{2}", r"\sqrt{(12)(5)(4)(3)}"),
        *(r"\frac{1}{4}\sqrt{27\frac{3}{1}}", r"3 \cdot 4 \sqrt{5}"),
    ],
)
def test_computations_with_roots(answer: str) -> None:
    assert not is_number(answer, ROOT)


@pytest.mark.parametrize(
    ("episode", "answer"),
    [
        ("sum-000", "{a}\\frac{{{b}}}{{1}}"),
        ("difference-000", "{a}'-{b}"),
        ("product-000", "{a}/(1/{b})"),
        ("power-000", "\u22c5".join(["{a}"] * 6)),
        ("linear-equation-000", "\\frac{{{c}'-{b}}}{{{a}}}"),
        ("fraction-sum-000", "\\frac{{{a}}}{{{b}}}'-\\frac{{-{c}}}{{{d}}}"),
    ],
)
def test_the_question_is_no_answer(episode: str, answer: str) -> None:
    task = load_task("tir_math")
    (entry,) = (each for each in task.panel("builtin").entries if each.id == episode)
    copied = answer.format(**entry.data["arguments"])
    assert checker().check(copied, entry.data["answer"]).equal
    played = task.episode(entry, 5)
    played.reset()
    step = played.step(f"\\boxed{{{copied}}}")
    assert step.outcome is not None
    assert (step.outcome.success, step.info["verdict"]) == (False, "computation")
