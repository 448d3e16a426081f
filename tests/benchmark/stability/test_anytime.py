"""Several runs during their training, calculated by hand."""

import numpy as np
import pytest

from benchmark.logs.curves import RunCurves
from benchmark.stability.anytime import anytime_curve, dispersion_across_runs
from benchmark.stats.bootstrap import estimate
from tests.benchmark.stability.given import points, run

NAME = "validation/success"


def seeds() -> list[RunCurves]:
    tokens = [points([100, 200, 300, 400], range(1, 5)), points([200, 400], [1, 2])]
    first, second = points([0.0, 0.4, 0.8], every=2), points([0.2, 0.3, 0.6])
    return [run({NAME: first}, 0, tokens[0]), run({NAME: second}, 1, tokens[1])]


def test_the_curve_is_the_iqm_where_all_seeds_have_values() -> None:
    curve = anytime_curve(seeds(), NAME)
    assert curve is not None and curve.low is not None and curve.high is not None
    # The first seed at 0, 1, 2: 0, .2, .4; it continues to 4, after the second has ended.
    assert curve.x.tolist() == [0, 1, 2]
    assert curve.iqm == pytest.approx([0.1, 0.25, 0.5])
    assert curve.worst == pytest.approx([0.0, 0.2, 0.4])
    # With two runs, each end has a probability of 1 in 4 to be drawn twice.
    assert curve.low == pytest.approx([0.0, 0.2, 0.4])
    assert curve.high == pytest.approx([0.2, 0.3, 0.6])


def test_the_axis_may_be_tokens() -> None:
    curve = anytime_curve(seeds(), NAME, "tokens")
    assert curve is not None and curve.axis == "tokens"
    # The first seed is at 0, 200, 400 tokens with 0, .4, .8; the second has .2, .3, .6.
    assert curve.x.tolist() == [0, 200, 400]
    assert curve.iqm == pytest.approx([0.1, 0.35, 0.7])
    assert anytime_curve(seeds(), NAME, "seconds") is None


def test_intervals_are_those_of_every_place_by_itself() -> None:
    rng = np.random.default_rng(0)
    runs = [run({NAME: points(rng.random(7).tolist())}, seed) for seed in range(6)]
    curve = anytime_curve(runs, NAME, resamples=500)
    assert curve is not None and curve.low is not None and curve.high is not None
    for place in range(7):
        alone = estimate([[one.curves[NAME].values[place] for one in runs]], resamples=500)
        assert (curve.iqm[place], curve.low[place], curve.high[place]) == pytest.approx(
            (alone.value, alone.low, alone.high)
        )


def test_a_single_seed_has_no_interval() -> None:
    curve = anytime_curve(seeds()[:1], NAME)
    assert curve is not None and curve.low is None and curve.high is None
    assert curve.iqm.tolist() == curve.worst.tolist() == [0.0, 0.4, 0.8]


def test_what_a_log_lacks_makes_no_curve() -> None:
    assert anytime_curve([*seeds(), run({}, 2)], NAME) is None
    assert anytime_curve([*seeds(), run({NAME: points([np.nan])}, 2)], NAME) is None
    assert anytime_curve([*seeds(), run({NAME: points([0.5], [9])}, 2)], NAME) is None
    # Tokens end at update 2; its success continues.
    short = run({NAME: points([0.1] * 5)}, 2, points([10, 20], [1, 2]))
    assert anytime_curve([*seeds(), short], NAME, "tokens") is None
    with pytest.raises(ValueError, match="no runs"):
        anytime_curve([], NAME)


def test_dispersion_across_runs_by_hand() -> None:
    # Smoothed: 0 0 .2 and .4 .5 .6; quartiles of two runs lie a quarter inside: half of the gaps.
    apart = dispersion_across_runs([points([0.0, 0.0, 0.6]), points([0.4, 0.6, 0.8])])
    assert apart == pytest.approx((0.4 + 0.5 + 0.4) / 2 / 3)
    same = points([0.0, 0.5, 1.0])
    assert dispersion_across_runs([same, same, same]) == 0


def test_dispersion_needs_two_runs_and_a_common_update() -> None:
    one = points([0.0, 0.5, 1.0])
    assert dispersion_across_runs([one]) is None
    assert dispersion_across_runs([one, points([0.5, 0.5], [7, 8])]) is None
    assert dispersion_across_runs([one, points([])]) is None
    # Only at update 2: smoothed .5 and 0.
    assert dispersion_across_runs([one, points([0.0, 0.5], [2, 8])]) == pytest.approx(0.25)
