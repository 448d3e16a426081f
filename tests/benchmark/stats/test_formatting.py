"""Formatting of numbers."""

from fractions import Fraction

from benchmark.stats.formatting import (
    collapses_text,
    count_text,
    p_text,
    percent_text,
    points_digits,
    points_text,
    range_text,
    rate_digits,
    rate_text,
    signed_text,
    with_unit,
)
from benchmark.stats.intervals import Interval


def test_a_rate_is_in_percent_with_its_interval() -> None:
    assert rate_text(0.543, 0.482, 0.6031) == "54.3% [48.2, 60.3]"
    assert rate_digits(Interval(0.9999, 0.482, 1.0)) == ">99.9 [48.2, 100.0]"
    assert range_text(0.2065, 1.0) == "21 to 100%"
    assert range_text(0.2065, 0.5, 1) == "20.6 to 50.0%"


def test_a_difference_is_in_points_with_its_sign() -> None:
    assert points_text(Interval(0.059, -0.0064, 0.1231)) == "+5.9 [-0.6, +12.3]"
    assert (points_digits(0.059), points_digits(-0.0004)) == ("+5.9", "+0.0")
    assert points_text(Interval(-0.0004, -0.01, 0.0)) == "-0.0 [-1.0, +0.0]"
    assert signed_text(Interval(1.5, -2.0004, 3.25), 3) == "+1.500 [-2.000, +3.250]"


def test_what_rounds_to_zero_says_on_which_side_it_is() -> None:
    assert points_text(Interval(-0.0001, -0.0003, 0.0002)) == "-0.0 [-0.0, +0.0]"
    assert points_text(Interval(0.0, -0.0, 0.0)) == "+0.0 [+0.0, +0.0]"


def test_a_count_has_a_decimal_where_it_is_a_sum_of_shares() -> None:
    assert (count_text(4, 43), count_text(Fraction(4), 43)) == ("4 of 43", "4 of 43")
    assert count_text(Fraction(5, 3), 4) == "1.7 of 4"


def test_a_small_p_value_is_not_shown_as_zero() -> None:
    assert p_text(0.04) == "p = 0.040"
    assert p_text(0.0004) == "p < 0.001"


def test_percentages_and_units() -> None:
    assert percent_text(0.975) == "97.5%"
    assert (percent_text(0.9999), percent_text(0.00001), percent_text(1, 0)) == (
        ">99.9%",
        "<0.1%",
        "100%",
    )
    assert (with_unit("12.5", "%"), with_unit("3.1", "points")) == ("12.5%", "3.1 points")


def test_seeds_that_are_unknown_are_named_beside_those_that_collapsed() -> None:
    assert collapses_text(1, 1, 0, "-", 5) == "1 of 6, 5 unknown"
    assert collapses_text(2, 5, 1, "-") == "2 of 5, 1 halved"
    assert collapses_text(0, 0, 0, "-", 3) == "-"
    assert collapses_text(1, 2, 1, "-", 1, "seed") == "1 of 3 seeds, 1 unknown, 1 halved"
    assert collapses_text(0, 1, 0, "-", noun="seed") == "0 of 1 seed"
