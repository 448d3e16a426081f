"""Algorithms with default constants, so that tests state only the ones that matter to them."""

from functools import partial

from torch import Tensor

from baselines.algorithms.advantage import empg as empg_file
from baselines.algorithms.advantage import gigpo as gigpo_file
from baselines.algorithms.advantage import groups
from baselines.algorithms.clipping.base import Clipping, SequenceMask, TokenBatch, TokenLosses

group_relative = partial(
    groups.group_relative, over="trajectories", divide_by_std=True, single="zero", variance="total"
)
gigpo = partial(
    gigpo_file.gigpo,
    step_weight=1.0,
    step_norm="mean_std",
    over="trajectories",
    single="zero",
    variance="total",
)
empg = partial(empg_file.empg, k=1.0, k_future=1.0, zeta=0.05)


def losses_of(
    rule: Clipping, log_probs: Tensor, old: Tensor, advantages: Tensor, mask: Tensor
) -> TokenLosses:
    """Apply a clipping rule to four (N, T) matrices."""
    return rule.losses(TokenBatch.of(log_probs, old, advantages, mask))


def kept_rows(
    delta: float, log_probs: Tensor, old: Tensor, advantages: Tensor, mask: Tensor
) -> Tensor:
    """(N,) mask of the rows that the sequence mask keeps."""
    return SequenceMask(delta=delta).kept(TokenBatch.of(log_probs, old, advantages, mask))
