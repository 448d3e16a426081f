"""First dimension: advantages without a critic.

A row is one sequence, N of them in a rollout: a turn where every turn has its own prompt, else a
trajectory. Functions of `scores` (N,) give one advantage per row, which the caller spreads over the
row's tokens; functions of (N, T) give one per token. All need the rows of the whole rollout: a
group must never be cut in two.

Sums are taken in float64, whatever comes in and goes out. In float32 the rounding error of a mean,
divided by a standard deviation that is itself only rounding error, gives a group of equal scores
advantages up to about 1. So such groups are recognized and get exactly 0.
"""

import math
from dataclasses import dataclass
from typing import Literal, assert_never

import torch
from torch import Tensor

Over = Literal["trajectories", "rows"]
"""What the statistics of a group count: each trajectory once, by the mean of its rows' scores, or
each row, so that long trajectories weigh more."""

Single = Literal["zero", "raw"]
"""What a sample that is alone in its group is worth: nothing, or its score as it is."""

Variance = Literal["total", "between"]
"""What rows are scaled by where trajectories are counted: the variance of a row's score if first a
trajectory is drawn and then one of its rows, or that of the trajectories' means alone. Both are the
same where penalties do not set rows of one trajectory apart. But where trajectories fare alike, as
late in training, their means differ by next to nothing, and dividing by that makes advantages of
hundreds or (at equal means, by `epsilon`) 50,000 out of single penalties of 0.1."""


def group_relative(
    scores: Tensor,
    groups: Tensor,
    trajectories: Tensor,
    *,
    over: Over = "trajectories",
    divide_by_std: bool = True,
    epsilon: float = 1e-6,
    single: Single = "zero",
    variance: Variance = "total",
) -> Tensor:
    """GRPO: how much better a row is than its group.

    `A_i = (s_i - mean_g) / (std_g + epsilon)`, std unbiased. Without the division this is the
    advantage of Dr. GRPO. Source: DeepSeekMath (arXiv 2402.03300), section 4.1.2; Dr. GRPO (arXiv
    2503.20783).

    Where all scores of a group are equal the advantages are exactly 0. ARLArena's released code is
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
        variance: With `over="trajectories"`: what the standard deviation is made of.

    Returns:
        (N,), in the type of `scores`, without a gradient.

    Raises:
        ValueError: Shapes differ, scores are no floats, or a trajectory stands in two groups.
    """
    _check_rows(scores, groups, trajectories)
    names, row_group = torch.unique(groups, return_inverse=True)
    wide = scores.detach().double()
    of_rows = _statistics(wide, row_group, len(names), _rounding(scores.dtype))
    if over == "rows":
        count, mean, squared = of_rows.count, of_rows.mean, of_rows.variance
    elif over == "trajectories":
        count, mean, squared = _over_trajectories(wide, row_group, trajectories, variance)
    else:
        assert_never(over)
    alone = count == 1
    nothing = of_rows.uniform
    if single == "raw":
        mean, squared = mean.where(~alone, 0.0), squared.where(~alone, 1.0)
        nothing = nothing & ~alone
    elif single == "zero":
        nothing = nothing | alone
    else:
        assert_never(single)
    advantages = wide - mean[row_group]
    if divide_by_std:
        advantages = advantages / (squared.sqrt()[row_group] + epsilon)
    return advantages.where(~nothing[row_group], 0.0).to(scores.dtype)


def leave_one_out(scores: Tensor, groups: Tensor, trajectories: Tensor) -> Tensor:
    """RLOO: a row's score minus the mean of the group's other trajectories.

    `A_i = s_i - mean over trajectories j of the group, j not i's own, of s_j`, where a trajectory
    counts by the mean of its rows' scores. The baseline does not depend on the row's own actions,
    so the gradient has no bias. A trajectory alone in its group gets 0. Source: Kool et al. (2019);
    Ahmadian et al. (arXiv 2402.14740).

    Args:
        scores: (N,) floats.
        groups: (N,) long.
        trajectories: (N,) long, unique in the rollout.

    Returns:
        (N,), in the type of `scores`, without a gradient.

    Raises:
        ValueError: As for `group_relative`.
    """
    _check_rows(scores, groups, trajectories)
    names, row_group = torch.unique(groups, return_inverse=True)
    wide = scores.detach().double()
    of_rows = _statistics(wide, row_group, len(names), _rounding(scores.dtype))
    means, own_group, row_trajectory = _trajectory_means(wide, row_group, trajectories)
    of_means = _statistics(means, own_group, len(names), 0.0)
    count, mean = of_means.count[row_group], of_means.mean[row_group]
    others = (count * mean - means[row_trajectory]) / (count - 1).clamp(min=1)
    nothing = of_rows.uniform[row_group] | (count == 1)
    return (wide - others).where(~nothing, 0.0).to(scores.dtype)


def reinforce_plus_plus(
    token_rewards: Tensor, response_mask: Tensor, *, gamma: float = 1.0, epsilon: float = 1e-8
) -> Tensor:
    """REINFORCE++: discounted token returns, whitened over the whole batch; no groups, no critic.

    `G_t = r_t + gamma G_{t+1}` over the counted tokens of a row, then `masked_whiten`. Tokens that
    are not counted (tool output inside a trajectory) take no step of the discount. Source: Hu et
    al. (arXiv 2501.03262).

    Args:
        token_rewards: (N, T): the score on the row's last counted token, a KL penalty on any.
        response_mask: (N, T), 1 for counted tokens.
        gamma: Discount per token.
        epsilon: Added to the variance.

    Returns:
        (N, T), in the type of `token_rewards`, 0 where the mask is 0, without a gradient.

    Raises:
        ValueError: Shapes differ.
    """
    counted = counted_tokens(response_mask, token_rewards)
    rewards = token_rewards.detach().double()
    following = rewards.new_zeros(len(rewards))
    returns = torch.zeros_like(rewards)
    for t in reversed(range(rewards.shape[1])):
        following = torch.where(counted[:, t], rewards[:, t] + gamma * following, following)
        returns[:, t] = following
    return masked_whiten(returns.to(token_rewards.dtype), response_mask, epsilon)


def task_normalized(
    advantages: Tensor, response_mask: Tensor, tasks: Tensor, epsilon: float = 1e-8
) -> Tensor:
    """AgentRL: standardize token advantages within each task, so that no task outweighs another.

    `masked_whiten` over the counted tokens of each task. A task whose advantages are all equal, or
    which has one token only, gets 0. Source: Zhang et al. (arXiv 2510.04206), section 3.2, Eq. 1.

    Args:
        advantages: (N, T).
        response_mask: (N, T), 1 for counted tokens.
        tasks: (N,) long: the row's task.
        epsilon: Added to the variance.

    Returns:
        (N, T), in the type of `advantages`, 0 where the mask is 0, without a gradient.

    Raises:
        ValueError: Shapes differ.
    """
    counted = counted_tokens(response_mask, advantages)
    if tasks.shape != advantages.shape[:1]:
        raise ValueError(f"tasks {tuple(tasks.shape)} do not fit {len(advantages)} rows")
    normalized = torch.zeros_like(advantages)
    for task in torch.unique(tasks):
        own = counted & (tasks == task)[:, None]
        normalized = torch.where(own, masked_whiten(advantages, own, epsilon), normalized)
    return normalized


@dataclass(frozen=True, slots=True)
class Moments:
    """What whitening must know of all values; `+` joins the parts of a batch.

    Attributes:
        count: Counted values.
        mean: Of them; 0 if there are none.
        squares: Sum of squared deviations from the mean.
        low: Smallest value.
        high: Largest value.
    """

    count: float = 0.0
    mean: float = 0.0
    squares: float = 0.0
    low: float = math.inf
    high: float = -math.inf

    @classmethod
    def of(cls, values: Tensor, mask: Tensor) -> "Moments":
        """Moments of the values whose mask is not 0; both have one shape."""
        chosen = values.detach()[counted_tokens(mask, values)].double()
        if not len(chosen):
            return cls()
        mean = chosen.mean()
        squares = (chosen - mean).square().sum()
        parts = torch.stack((mean, squares, chosen.min(), chosen.max())).tolist()
        return cls(float(len(chosen)), *parts)

    def __add__(self, other: "Moments") -> "Moments":
        """Join by the update of Chan, Golub and LeVeque (1979)."""
        count = self.count + other.count
        share = other.count / count if count else 0.0
        apart = other.mean - self.mean
        return Moments(
            count,
            self.mean + apart * share,
            self.squares + other.squares + apart * apart * self.count * share,
            min(self.low, other.low),
            max(self.high, other.high),
        )


def masked_whiten(
    values: Tensor, mask: Tensor, epsilon: float = 1e-8, moments: Moments | None = None
) -> Tensor:
    """Shift and scale the counted values to mean 0 and variance 1.

    `(v - mean) / sqrt(variance + epsilon)`, variance unbiased. Values that are all equal, or a
    single one, give exactly 0.

    Args:
        values: Any shape.
        mask: Same shape, 1 for counted values.
        epsilon: Added to the variance.
        moments: Of a larger batch that these values are a part of; None for these values' own.

    Returns:
        The shape and type of `values`, 0 where the mask is 0, without a gradient.

    Raises:
        ValueError: Shapes differ.
    """
    counted = counted_tokens(mask, values)
    all_of = Moments.of(values, mask) if moments is None else moments
    largest = max(abs(all_of.low), abs(all_of.high))
    if all_of.high - all_of.low <= _rounding(values.dtype) * largest:
        return torch.zeros_like(values)
    scale = math.sqrt(all_of.squares / max(all_of.count - 1, 1) + epsilon)
    white = (values.detach().double() - all_of.mean) / scale
    return white.where(counted, 0.0).to(values.dtype)


def counted_tokens(mask: Tensor, values: Tensor) -> Tensor:
    """The mask as bools.

    Raises:
        ValueError: It has not the shape of `values`.
    """
    if mask.shape != values.shape:
        raise ValueError(f"a mask {tuple(mask.shape)} does not fit values {tuple(values.shape)}")
    return mask.bool()


@dataclass(frozen=True, slots=True)
class _Statistics:
    """Of G groups, (G,) each; `uniform`: no two samples differ by more than rounding."""

    count: Tensor
    mean: Tensor
    variance: Tensor
    uniform: Tensor


def _statistics(samples: Tensor, index: Tensor, groups: int, rounding: float) -> _Statistics:
    """Statistics of float64 samples (S,) by their group's number (S,)."""
    zeros = samples.new_zeros(groups)
    count = zeros.index_add(0, index, torch.ones_like(samples))
    mean = zeros.index_add(0, index, samples) / count
    squares = zeros.index_add(0, index, (samples - mean[index]).square())
    low = zeros.scatter_reduce(0, index, samples, "amin", include_self=False)
    high = zeros.scatter_reduce(0, index, samples, "amax", include_self=False)
    largest = torch.maximum(low.abs(), high.abs())
    return _Statistics(
        count=count,
        mean=mean,
        variance=squares / (count - 1).clamp(min=1),
        uniform=high - low <= rounding * largest,
    )


def _over_trajectories(
    scores: Tensor, row_group: Tensor, trajectories: Tensor, variance: Variance
) -> tuple[Tensor, Tensor, Tensor]:
    """Count, mean and variance of each group, whose samples are its trajectories."""
    groups = int(row_group.max()) + 1 if len(row_group) else 0
    means, own_group, row_trajectory = _trajectory_means(scores, row_group, trajectories)
    between = _statistics(means, own_group, groups, 0.0)
    if variance == "between":
        return between.count, between.mean, between.variance
    if variance != "total":
        assert_never(variance)
    deviations = (scores - means[row_trajectory]).square()
    within, _, _ = _trajectory_means(deviations, row_group, trajectories)
    of_within = _statistics(within, own_group, groups, 0.0)
    return between.count, between.mean, between.variance + of_within.mean


def _trajectory_means(
    scores: Tensor, row_group: Tensor, trajectories: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Mean and group of each trajectory, and the number of each row's trajectory."""
    names, row_trajectory = torch.unique(trajectories, return_inverse=True)
    zeros = scores.new_zeros(len(names))
    count = zeros.index_add(0, row_trajectory, torch.ones_like(scores))
    means = zeros.index_add(0, row_trajectory, scores) / count
    group = row_group.new_zeros(len(names)).scatter(0, row_trajectory, row_group)
    if not torch.equal(group[row_trajectory], row_group):
        raise ValueError("a trajectory stands in two groups: its id must be unique in the rollout")
    return means, group, row_trajectory


def _rounding(dtype: torch.dtype) -> float:
    """Relative difference up to which two sums of the same rewards count as equal."""
    return 8 * torch.finfo(dtype).eps


def _check_rows(scores: Tensor, groups: Tensor, trajectories: Tensor) -> None:
    if scores.ndim != 1 or not (scores.shape == groups.shape == trajectories.shape):
        shapes = [tuple(part.shape) for part in (scores, groups, trajectories)]
        raise ValueError(f"scores, groups and trajectories must be (N,), not {shapes}")
    if not scores.is_floating_point():
        raise ValueError(f"scores must be floats, not {scores.dtype}")
