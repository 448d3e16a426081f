"""RLOO: leave-one-out baseline."""

from typing import Literal

import torch
from torch import Tensor

from baselines.algorithms.advantage.base import Advantage, RowBatch
from baselines.algorithms.advantage.groups import check_rows, statistics_of, trajectory_means
from baselines.algorithms.masked import rounding


class RLOO(Advantage):
    """Minus the mean of the group's other episodes (`leave_one_out`)."""

    name: Literal["rloo"] = "rloo"

    def of(self, rows: RowBatch) -> Tensor:
        """(N,) advantages of rows."""
        return leave_one_out(rows.scores, rows.groups, rows.trajectories)


def leave_one_out(scores: Tensor, groups: Tensor, trajectories: Tensor) -> Tensor:
    """RLOO: a row's score minus the mean of the group's other trajectories.

    `A_i = s_i - mean over trajectories j of the group, j not i's own, of s_j`, where a trajectory's
    score is the mean of its rows' scores. The baseline does not depend on the row's own actions, so
    the gradient is unbiased. A trajectory alone in its group gets 0. Source: Kool et al. (2019);
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
    check_rows(scores, groups, trajectories)
    names, row_group = torch.unique(groups, return_inverse=True)
    wide = scores.detach().double()
    of_rows = statistics_of(wide, row_group, len(names), rounding(scores.dtype))
    means, own_group, row_trajectory = trajectory_means(wide, row_group, trajectories)
    of_means = statistics_of(means, own_group, len(names), 0.0)
    count, mean = of_means.count[row_group], of_means.mean[row_group]
    others = (count * mean - means[row_trajectory]) / (count - 1).clamp(min=1)
    nothing = of_rows.uniform[row_group] | (count == 1)
    return (wide - others).where(~nothing, 0.0).to(scores.dtype)
