"""Group statistics: how much better a row is than the others in its group.

A row is one sequence, N of them in a rollout: a turn if every turn has its own prompt, else a
trajectory. All functions need the rows of the whole rollout: a group must never be split.

Sums are computed in float64, whatever the input and output types. In float32 the rounding error of
a mean, divided by a standard deviation that is itself only rounding error, gives a group of equal
scores advantages up to about 1. So such groups are detected and get exactly 0.
"""

from dataclasses import dataclass
from typing import Literal, assert_never

import torch
from torch import Tensor

from baselines.algorithms.masked import rounding

Over = Literal["trajectories", "rows"]
"""What the statistics of a group count: each trajectory once, by the mean of its rows' scores, or
each row, which gives long trajectories more weight."""

Single = Literal["zero", "raw"]
"""Advantage of a sample that is alone in its group: 0, or its raw score."""

Variance = Literal["total", "between"]
"""Variance that scales rows if trajectories are counted: that of a row's score when a trajectory is
drawn first and then one of its rows, or that of the trajectories' means alone. Both are the same
unless penalties differ between rows of one trajectory. But if trajectories score alike, as late in
training, their means hardly differ, and dividing by that turns single penalties of 0.1 into
advantages of hundreds or (at equal means, by `epsilon`) 50,000."""


EPSILON = 1e-6
"""Added to standard deviations."""


def group_relative(
    scores: Tensor,
    groups: Tensor,
    trajectories: Tensor,
    *,
    over: Over,
    divide_by_std: bool,
    single: Single,
    variance: Variance,
    epsilon: float = EPSILON,
) -> Tensor:
    """GRPO: how much better a row is than its group.

    `A_i = (s_i - mean_g) / (std_g + epsilon)`, std unbiased. Without the division this is the
    advantage of Dr. GRPO. Source: DeepSeekMath (arXiv 2402.03300), section 4.1.2; Dr. GRPO (arXiv
    2503.20783).

    If all scores of a group are equal, the advantages are exactly 0. ARLArena's released code uses
    `single="raw", variance="between"` with `over="rows"`, or `over="trajectories"` for what it
    calls vanilla GRPO.

    Args:
        scores: (N,) floats: return of the row's trajectory, minus the row's own penalty.
        groups: (N,) long: which rows started from the same prompt or episode.
        trajectories: (N,) long, unique in the rollout: which rows belong together.
        over: What the mean and the standard deviation of a group count.
        divide_by_std: Whether to divide by the standard deviation.
        epsilon: Added to it.
        single: Advantage of a sample that is alone in its group (with `over="trajectories"`, of all
            rows of a lone trajectory): 0, or the score with mean 0 and standard deviation 1.
        variance: With `over="trajectories"`: which variance the standard deviation comes from.

    Returns:
        (N,), in the type of `scores`, without a gradient.

    Raises:
        ValueError: Shapes differ, scores are not floats, or a trajectory is in two groups.
    """
    check_rows(scores, groups, trajectories)
    names, row_group = torch.unique(groups, return_inverse=True)
    wide = scores.detach().double()
    of_rows = statistics_of(wide, row_group, len(names), rounding(scores.dtype))
    if over == "rows":
        count, mean, squared = of_rows.count, of_rows.mean, of_rows.variance
    elif over == "trajectories":
        count, mean, squared = _over_trajectories(wide, row_group, trajectories, variance)
    else:
        assert_never(over)
    alone = count == 1
    if single == "raw":
        mean, squared = mean.where(~alone, 0.0), squared.where(~alone, 1.0)
        nothing = of_rows.uniform & ~alone
    elif single == "zero":
        nothing = of_rows.uniform | alone
    else:
        assert_never(single)
    advantages = wide - mean[row_group]
    if divide_by_std:
        advantages = advantages / (squared.sqrt()[row_group] + epsilon)
    return advantages.where(~nothing[row_group], 0.0).to(scores.dtype)


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of G groups, (G,) each; `uniform`: samples differ by no more than rounding."""

    count: Tensor
    mean: Tensor
    variance: Tensor
    uniform: Tensor


def statistics_of(samples: Tensor, index: Tensor, groups: int, rounding: float) -> Statistics:
    """Compute statistics of float64 samples (S,), given the group number of each (S,)."""
    zeros = samples.new_zeros(groups)
    count = zeros.index_add(0, index, torch.ones_like(samples))
    mean = zeros.index_add(0, index, samples) / count
    squares = zeros.index_add(0, index, (samples - mean[index]).square())
    low = zeros.scatter_reduce(0, index, samples, "amin", include_self=False)
    high = zeros.scatter_reduce(0, index, samples, "amax", include_self=False)
    largest = torch.maximum(low.abs(), high.abs())
    return Statistics(
        count=count,
        mean=mean,
        variance=squares / (count - 1).clamp(min=1),
        uniform=high - low <= rounding * largest,
    )


def _over_trajectories(
    scores: Tensor, row_group: Tensor, trajectories: Tensor, variance: Variance
) -> tuple[Tensor, Tensor, Tensor]:
    """Count, mean and variance of each group over its trajectories."""
    groups = int(row_group.max()) + 1 if len(row_group) else 0
    means, own_group, row_trajectory = trajectory_means(scores, row_group, trajectories)
    between = statistics_of(means, own_group, groups, 0.0)
    if variance == "between":
        return between.count, between.mean, between.variance
    if variance != "total":
        assert_never(variance)
    deviations = (scores - means[row_trajectory]).square()
    within, _, _ = trajectory_means(deviations, row_group, trajectories)
    of_within = statistics_of(within, own_group, groups, 0.0)
    return between.count, between.mean, between.variance + of_within.mean


def trajectory_means(
    scores: Tensor, row_group: Tensor, trajectories: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Mean and group of each trajectory, and the number of each row's trajectory."""
    names, row_trajectory = torch.unique(trajectories, return_inverse=True)
    zeros = scores.new_zeros(len(names))
    count = zeros.index_add(0, row_trajectory, torch.ones_like(scores))
    means = zeros.index_add(0, row_trajectory, scores) / count
    group = row_group.new_zeros(len(names)).scatter(0, row_trajectory, row_group)
    if not torch.equal(group[row_trajectory], row_group):
        raise ValueError("a trajectory is in two groups: its id must be unique in the rollout")
    return means, group, row_trajectory


def check_rows(scores: Tensor, groups: Tensor, trajectories: Tensor) -> None:
    """Check the arguments of `group_relative`.

    Raises:
        ValueError: Shapes differ, or scores are not floats.
    """
    if scores.ndim != 1 or not (scores.shape == groups.shape == trajectories.shape):
        shapes = [tuple(part.shape) for part in (scores, groups, trajectories)]
        raise ValueError(f"scores, groups and trajectories must be (N,), not {shapes}")
    if not scores.is_floating_point():
        raise ValueError(f"scores must be floats, not {scores.dtype}")
