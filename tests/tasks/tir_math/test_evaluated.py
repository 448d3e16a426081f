"""Numbers, and computations that are still to be done."""

import pytest

from tasks.tir_math.evaluated import is_evaluated


@pytest.mark.parametrize(
    "answer",
    [
        *("5", "-5", "- 5", "(-5)", "5.0", "033", "1,000", "1{,}000", r"1\,000", r"5\%", r"\$5"),
        *(r"\frac{10}{2}", r"-\frac{1}{2}", "3 1/2", r"1.5 \times 10^6", r"2 \cdot 10^{-3}"),
        *("x = 5", "2 + 3 = 5", "5 cm", r"25\text{ cm}^2", r"90^\circ", r"\text{5}", "?", ""),
    ],
)
def test_numbers_and_what_is_no_mathematics(answer: str) -> None:
    assert is_evaluated(answer, "5")
    assert is_evaluated(answer, r"-\frac{1}{2}")


@pytest.mark.parametrize(
    "answer",
    [
        *("4586+5062", "4586 - 12", "2*3", r"2 \times 3", r"2\cdot 3", "57^6", "57^{6}", "5!"),
        *(r"\gcd(12, 18)", r"\operatorname{lcm}(67,95)", r"\binom{5}{2}", r"\sqrt{25}", "|5|"),
        *(r"\frac{7}{20} + \frac{8}{9}", r"\frac{3786-346}{40}", r"7 \bmod 2", "5 = 2 + 3"),
    ],
)
def test_computations(answer: str) -> None:
    assert not is_evaluated(answer, "5")
    # Roots may be written in many ways.
    assert is_evaluated(answer, r"\frac{1 + \sqrt{5}}{2}")
