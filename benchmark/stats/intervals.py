"""Intervals and tests as pure functions of numbers.

All intervals are two-sided and cover 95% unless specified otherwise. Random ones (bootstrap,
sampled sign flips) use a fixed seed and sorted data, so the same numbers always give the same
result, whatever their order.

The sampling unit is the episode: evaluations vary in which problems were posed, and plays of the
same problem are correlated. So repeats never count as independent trials.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

CONFIDENCE = 0.95
RESAMPLES = 10_000
FLIPS = 20_000
EXACT_FLIPS = 15
"""Maximum number of nonzero differences for which all sign patterns are enumerated."""

_SEED = 0
_BATCH = 2_000_000  # numbers drawn at once: limits memory without affecting results


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with the ends of its interval."""

    value: float
    low: float
    high: float


def wilson(successes: int, trials: int, confidence: float = CONFIDENCE) -> Interval:
    """Wilson's score interval of one success rate.

    With p = successes / n and z the normal quantile of (1 + confidence) / 2:
    (p + z^2/2n +- z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n). It is never empty, not even at 0 or
    1, and stays in [0, 1].

    Source: Wilson, JASA 22 (1927) 209-212; Newcombe, Stat. Med. 17 (1998) 857-872, method 3.

    Raises:
        ValueError: There are no trials, or more successes than trials.
    """
    if not 0 <= successes <= trials or trials == 0:
        raise ValueError(f"no rate of {successes} successes in {trials} trials")
    return wilson_rate(successes / trials, trials, confidence)


def exact(successes: int, trials: int, confidence: float = CONFIDENCE) -> Interval:
    """Clopper-Pearson interval of one rate, for shares of a few seeds.

    At each end, the probability of this many or more extreme successes is (1 - confidence) / 2.
    With 3 to 6 trials, Wilson's interval can miss the rate in 17% of cases; this one does in at
    most 5%.

    Source: Clopper and Pearson, Biometrika 26 (1934) 404-413.

    Raises:
        ValueError: There are no trials, or more successes than trials.
    """
    if not 0 <= successes <= trials or trials == 0:
        raise ValueError(f"no rate of {successes} successes in {trials} trials")
    tail, failures = (1 - confidence) / 2, trials - successes
    low = special.betaincinv(successes, failures + 1, tail) if successes else 0.0
    high = special.betaincinv(successes + 1, failures, 1 - tail) if failures else 1.0
    return Interval(successes / trials, float(low), float(high))


def wilson_rate(rate: float, trials: float, confidence: float = CONFIDENCE) -> Interval:
    """Wilson's score interval of a rate that is not a count of successes, such as a mean of rates.

    Args:
        rate: In [0, 1].
        trials: Number of trials, such as an effective sample size; above 0.
        confidence: Coverage.
    """
    z = normal_quantile(confidence)
    scale = 1 + z * z / trials
    center = (rate + z * z / (2 * trials)) / scale
    half = z * math.sqrt(rate * (1 - rate) / trials + (z / (2 * trials)) ** 2) / scale
    # At rates of 0 and 1, the ends are exactly 0 and 1 in exact arithmetic.
    low = 0.0 if rate == 0 else max(0.0, center - half)
    high = 1.0 if rate == 1 else min(1.0, center + half)
    return Interval(rate, min(low, rate), max(high, rate))


def intraclass_correlation(successes: Sequence[int], plays: Sequence[int]) -> float:
    """Correlation between plays of one episode: 0 for none, 1 for always the same outcome.

    The analysis-of-variance estimator, clipped to [0, 1]. With k episodes, m_i plays of episode i,
    rates p_i, N = sum m_i, P = sum(m_i p_i) / N:
    MSB = sum m_i (p_i - P)^2 / (k-1), MSW = sum m_i p_i (1-p_i) / (N-k),
    m0 = (N - sum m_i^2 / N) / (k-1), rho = (MSB - MSW) / (MSB + (m0-1) MSW).

    If the data contain no information about it, the conservative answer is 1: only one episode, no
    episode with a second play, or all outcomes the same (a rate of 0 or 1).

    Source: Ridout, Demetrio and Firth, Biometrics 55 (1999) 137-148.

    Args:
        successes: Successful plays of each episode.
        plays: Plays of each episode, at least one.
    """
    _check_clusters(successes, plays)
    episodes, total = len(plays), sum(plays)
    if episodes == 1 or total == episodes:
        return 1.0
    mean = sum(successes) / total
    rates = [won / played for won, played in zip(successes, plays, strict=True)]
    between = math.fsum(m * (p - mean) ** 2 for p, m in zip(rates, plays, strict=True))
    between /= episodes - 1
    within = math.fsum(m * p * (1 - p) for p, m in zip(rates, plays, strict=True))
    within /= total - episodes
    typical = (total - sum(m * m for m in plays) / total) / (episodes - 1)
    variance = between + (typical - 1) * within
    if variance == 0:
        return 1.0
    return min(1.0, max(0.0, (between - within) / variance))


def effective_sample_size(successes: Sequence[int], plays: Sequence[int]) -> float:
    """Number of independent plays with the same information as these plays of episodes.

    n = k^2 / sum_i (rho + (1-rho) / m_i), with k episodes, m_i plays of episode i and the
    intraclass correlation rho. It makes p(1-p)/n the variance of the unweighted mean of the
    episodes' rates under one common rho. For m plays each it is Kish's N / (1 + (m-1) rho).

    k <= n <= N = sum m_i always: k if repeats always agree (rho = 1: they add nothing) and, for
    equal m_i, N if they are independent (rho = 0). One play each gives n = k = N; a rate of 0 or
    1 and a single episode give n = k (see `intraclass_correlation`).

    Source: Kish, Survey Sampling (1965), section 8.2.
    """
    alike = intraclass_correlation(successes, plays)
    return len(plays) ** 2 / math.fsum(alike + (1 - alike) / m for m in plays)


def clustered_wilson(successes: Sequence[int], plays: Sequence[int]) -> Interval:
    """Wilson's interval of a success rate over episodes that were played repeatedly.

    The rate is the unweighted mean of the episodes' rates; the formula is that of `wilson` with
    `effective_sample_size` instead of n. Episodes played once, or repeats that always agree,
    give exactly `wilson` over the episodes.

    Source: Dean and Pagano, J. Survey Stat. Methodol. 3 (2015) 484-503 (Wilson's interval with
    an effective sample size).

    Args:
        successes: Successful plays of each episode.
        plays: Plays of each episode, at least one.

    Raises:
        ValueError: There are no episodes, or the numbers are inconsistent.
    """
    trials = effective_sample_size(successes, plays)
    rates = (won / played for won, played in zip(successes, plays, strict=True))
    return wilson_rate(math.fsum(rates) / len(plays), trials)


def pass_at_k(successes: Sequence[int], plays: Sequence[int], k: int) -> Interval:
    """Share of episodes solved at least once in k plays.

    With n plays of an episode, c of them successful, the unbiased estimate for it is
    1 - C(n-c, k) / C(n, k): the share of all choices of k plays that contain a success. The value
    is the mean over episodes. Its interval is Wilson's over the episodes: of all variables in
    [0, 1] with a given mean, a Bernoulli variable has the largest variance, so the interval is
    conservative.

    Source: Chen et al., "Evaluating Large Language Models Trained on Code", arXiv 2107.03374,
    equation 1.

    Args:
        successes: Successful plays of each episode.
        plays: Plays of each episode, at least k.
        k: Number of plays, at least 1.

    Raises:
        ValueError: There are no episodes, or the numbers are inconsistent.
    """
    _check_clusters(successes, plays)
    if not 1 <= k <= min(plays):
        raise ValueError(f"pass@{k} needs at least {k} plays of every episode")
    solved = [
        1 - math.comb(n - c, k) / math.comb(n, k) for c, n in zip(successes, plays, strict=True)
    ]
    return wilson_rate(math.fsum(solved) / len(solved), len(solved))


def mean_interval(values: Sequence[float]) -> Interval:
    """Student's t interval of a mean: m +- t(k-1) s / sqrt(k).

    Constant data have s = 0 and an interval of zero width. So does a single value, whose spread is
    unknown, so always read the number of values with it.

    Args:
        values: One number per episode (the mean of its plays).

    Raises:
        ValueError: There are no values.
    """
    count = len(values)
    mean = _mean(values)
    if _constant(values):
        return Interval(mean, mean, mean)
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    quantile = float(special.stdtrit(count - 1, (1 + CONFIDENCE) / 2))
    half = quantile * math.sqrt(variance / count)
    return Interval(mean, mean - half, mean + half)


def mean_of(intervals: Sequence[Interval]) -> Interval:
    """The unweighted mean of independently measured numbers, with its interval.

    For panels, correlations through an entry's seeds on several panels are ignored.

    low = m - sqrt(sum_i (v_i - l_i)^2) / n, and high likewise: panels have no episode in common.
    A single number is returned unchanged.

    Source: Zou and Donner, Stat. Med. 27 (2008) 1693-1702.

    Args:
        intervals: At least one, all in the same unit.
    """
    if len(intervals) == 1:
        return intervals[0]
    count = len(intervals)
    value = math.fsum(each.value for each in intervals) / count
    below = math.sqrt(math.fsum((each.value - each.low) ** 2 for each in intervals)) / count
    above = math.sqrt(math.fsum((each.high - each.value) ** 2 for each in intervals)) / count
    return Interval(value, value - below, value + above)


def mcnemar_exact(only_first: int, only_second: int) -> float:
    """Exact two-sided McNemar test: do two players have the same success rate?

    Under the null hypothesis, each of the n episodes that only one player solved belongs to either
    with probability 1/2: p = min(1, 2 P(X <= min(b, c))), X ~ Binomial(n = b + c, 1/2). Without
    such episodes p = 1.

    Source: McNemar, Psychometrika 12 (1947) 153-157, in its binomial form.

    Raises:
        ValueError: A count is negative.
    """
    if min(only_first, only_second) < 0:
        raise ValueError("counts cannot be negative")
    discordant = only_first + only_second
    return min(1.0, 2 * float(special.bdtr(min(only_first, only_second), discordant, 0.5)))


def bootstrap_mean(differences: Sequence[float], resamples: int = RESAMPLES) -> Interval:
    """Bootstrap interval (BCa) of the mean of paired differences, one per episode.

    Episodes are resampled with replacement, each with its difference, which keeps pairs and repeats
    together. With z0 the normal quantile of the share of resampled means below the observed one
    (ties half) and a = sum(x - m)^3 / (6 (sum(x - m)^2)^1.5), which for a mean is the jackknife's
    acceleration, the ends are the quantiles Phi(z0 + (z0 +- z) / (1 - a (z0 +- z))) of the
    resampled means, moved outward to the observed mean in the rare case that it lies outside.

    If all differences are equal (or there is only one), the interval has zero width. Negated
    differences give the negated interval.

    Source: Efron, JASA 82 (1987) 171-185.

    Args:
        differences: First minus second, one per episode.
        resamples: Number of draws, even; their seed is fixed.

    Raises:
        ValueError: There are no differences.
    """
    mean = _mean(differences)
    if _constant(differences):
        return Interval(mean, mean, mean)
    ordered = np.array(sorted(differences))
    means = _resampled_means(ordered, resamples)
    rounding = 1e-12 * float(np.abs(ordered).max())
    below = np.mean(means < mean - rounding) + np.mean(means <= mean + rounding)
    bias = float(special.ndtri(below / 2))
    squares = math.fsum((value - mean) ** 2 for value in differences)
    cubes = math.fsum((value - mean) ** 3 for value in differences)
    acceleration = cubes / (6 * squares**1.5)
    z = bias + normal_quantile(CONFIDENCE) * np.array([-1.0, 1.0])
    ends = np.quantile(means, special.ndtr(bias + z / (1 - acceleration * z)))
    return Interval(mean, min(mean, float(ends[0])), max(mean, float(ends[1])))


def _resampled_means(ordered: npt.NDArray[np.float64], resamples: int) -> npt.NDArray[np.float64]:
    rng = np.random.default_rng(_SEED)
    last = len(ordered) - 1
    parts = []
    for rows in _batches(resamples // 2, len(ordered)):
        drawn = rng.integers(0, last + 1, size=(rows, last + 1))
        # Add each draw's mirror image, so that negated data give exactly the negated means.
        parts += [ordered[drawn].mean(axis=1), ordered[last - drawn].mean(axis=1)]
    means: npt.NDArray[np.float64] = np.concatenate(parts).clip(ordered[0], ordered[-1])
    return means


def sign_flip(differences: Sequence[float], flips: int = FLIPS) -> float:
    """Two-sided sign-flip permutation test: is the mean of paired differences zero?

    Under the null hypothesis the two players are exchangeable, so both signs of a difference are
    equally likely. p is the share of sign patterns with |sum| at least the observed one: over all
    2^n patterns of the n nonzero differences if n <= 15, otherwise (1 + hits) / (1 + flips) over
    patterns drawn with a fixed seed, which is never 0. Without nonzero differences p = 1. On single
    plays this is the exact McNemar test.

    Source: Fisher, The Design of Experiments (1935), section 21; Phipson and Smyth, Stat. Appl.
    Genet. Mol. Biol. 9 (2010) 39, for the drawn patterns.

    Raises:
        ValueError: There are no differences.
    """
    observed = abs(_mean(differences) * len(differences))
    sizes = np.array(sorted(abs(value) for value in differences if value != 0))
    threshold = observed - 1e-9 * float(sizes.sum())  # sums of the same numbers round differently
    count = len(sizes)
    if count == 0:
        return 1.0
    if count <= EXACT_FLIPS:
        patterns = np.arange(2**count)[:, None] >> np.arange(count) & 1
        return float(np.mean(np.abs((2 * patterns - 1) @ sizes) >= threshold))
    rng = np.random.default_rng(_SEED)
    hits = 0
    for rows in _batches(flips, count):
        signs = 2.0 * rng.integers(0, 2, size=(rows, count)) - 1
        hits += int(np.sum(np.abs(signs @ sizes) >= threshold))
    return (1 + hits) / (1 + flips)


def _batches(rows: int, columns: int) -> Iterator[int]:
    """Split a table of draws into parts of at most `_BATCH` numbers."""
    step = max(1, _BATCH // columns)
    for start in range(0, rows, step):
        yield min(step, rows - start)


def normal_quantile(confidence: float) -> float:
    """Half-width, in standard deviations, of a normal distribution's central interval.

    Raises:
        ValueError: The confidence is not between 0 and 1.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence {confidence} is not between 0 and 1")
    return float(special.ndtri((1 + confidence) / 2))


def _mean(values: Sequence[float]) -> float:
    """The mean, independent of the order and within the range of the values."""
    if not values:
        raise ValueError("the mean of no values is not defined")
    return min(max(math.fsum(values) / len(values), min(values)), max(values))


def _constant(values: Sequence[float]) -> bool:
    return min(values) == max(values)


def _check_clusters(successes: Sequence[int], plays: Sequence[int]) -> None:
    if not plays:
        raise ValueError("a rate over no episodes is not defined")
    for won, played in zip(successes, plays, strict=True):
        if not 0 <= won <= played or played == 0:
            raise ValueError(f"no rate of {won} successes in {played} plays")
