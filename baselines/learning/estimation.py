"""Advantages of a rollout's rows, as configured by the recipe."""

import math
from collections.abc import Sequence

import torch

from baselines.algorithms.advantage.base import RowBatch, padded
from baselines.algorithms.masked import task_normalized
from baselines.config.schema import TrainConfig
from baselines.rollouts.rows import Row
from tasks.errors import UserError

_MOST, _UPDATES_ABOVE = 0.5, 3
"""Warn when penalties are more than this share of the advantages in this many updates."""


def estimate(
    config: TrainConfig,
    rows: Sequence[Row],
    entropies: Sequence[torch.Tensor | None],
    values: Sequence[torch.Tensor | None],
    distances: Sequence[torch.Tensor | None],
) -> tuple[list[torch.Tensor], list[torch.Tensor] | None]:
    """Estimate one advantage per token of every row.

    Args:
        config: What is chosen.
        rows: All rows of a rollout, of all processes.
        entropies: (T,) per row under the old policy; only EMPG looks at them.
        values: (T,) per row by the critic; only a `WithCritic` looks at them.
        distances: (T,) per row, estimated KL to the init; only with KL in the reward.

    Returns:
        (T,) advantages per row, 0 where masked, and the critic's targets, if there is one.
    """
    mask = padded([torch.from_numpy(row.response_mask * (not row.masked)) for row in rows]).float()
    in_scores = config.penalty_in == "scores"
    penalties = _numbers([row.penalty for row in rows])
    in_reward = config.kl.place == "reward" and config.kl.coef > 0
    costs = config.kl.coef * padded(distances) if in_reward else torch.zeros_like(mask)
    counted = penalties if in_scores else torch.zeros_like(penalties)
    batch = RowBatch(
        scores=_numbers([row.reward for row in rows]) - counted,
        groups=_ids([(row.task, row.group) for row in rows]),
        trajectories=_ids([(row.task, row.group, row.member) for row in rows]),
        turns=torch.tensor([row.turn for row in rows]),
        step_rewards=_numbers([row.step_reward for row in rows]),
        step_penalties=counted,
        anchors=[row.anchor for row in rows],
        mask=mask,
        token_costs=costs,
        entropies=entropies,
        values=values,
    )
    chosen = config.advantage
    found, targets = chosen.with_targets(batch)
    wanted = mask.shape if chosen.of_tokens else mask.shape[:1]
    # A plug-in may return anything.
    shape: object = getattr(found, "shape", None)
    if shape != wanted:
        kind = type(found).__name__ if shape is None else tuple(found.shape)
        raise UserError(
            f"the advantage {chosen.name} gives {kind} instead of a tensor of shape "
            f"{tuple(wanted)}: one number for each {'token' if chosen.of_tokens else 'row'}"
        )
    # Where the policy or the critic is not finite, steps are skipped until the run has diverged.
    given = (batch.scores, batch.step_rewards, batch.token_costs, *entropies, *values)
    sound = all(part is None or bool(part.isfinite().all()) for part in given)
    if sound and not (finite := found.isfinite()).all():
        wrong, whole = int((~finite).sum()), found.numel()
        raise UserError(
            f"the advantage {chosen.name} is not finite for {wrong} of {whole} "
            f"{'tokens' if chosen.of_tokens else 'rows'}"
        )
    token_level = found if chosen.of_tokens else found[:, None] * mask
    if chosen.task_normalized:
        token_level = task_normalized(token_level, mask, _ids([row.task for row in rows]))
    if not in_scores:
        token_level = token_level - penalties[:, None] * mask
    unpadded = None if targets is None else _unpadded(targets, rows)
    return _unpadded(token_level.float(), rows), unpadded


def penalty_share(advantages: Sequence[torch.Tensor], without: Sequence[torch.Tensor]) -> float:
    """How much of the advantages comes from format penalties alone.

    `sum |A - A0| / (sum |A - A0| + sum |A0|)` over tokens, where A0 is what the same rollout would
    give without penalties.

    Args:
        advantages: (T,) per row, 0 where masked.
        without: The same for rows whose penalties are 0.

    Returns:
        0 to 1; 0 where all advantages are 0.
    """
    task = math.fsum(float(known.abs().sum()) for known in without)
    penalties = math.fsum(
        float((known - other).abs().sum()) for known, other in zip(advantages, without, strict=True)
    )
    return penalties / (penalties + task) if penalties else 0.0


def penalties_took_over(shares: Sequence[float | None]) -> bool:
    """Whether penalties have just become most of the advantages.

    Args:
        shares: `policy/penalty_share` of all updates so far.

    Returns:
        True once for each time that the share stays above one half for three updates.
    """
    above = [share is not None and share > _MOST for share in shares[-_UPDATES_ABOVE - 1 :]]
    return above[-_UPDATES_ABOVE:] == [True] * _UPDATES_ABOVE and above[:-_UPDATES_ABOVE] != [True]


def _numbers(values: Sequence[float]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def _ids(labels: Sequence[object]) -> torch.Tensor:
    """Number labels by first appearance."""
    numbers: dict[object, int] = {}
    return torch.tensor([numbers.setdefault(label, len(numbers)) for label in labels])


def _unpadded(values: torch.Tensor, rows: Sequence[Row]) -> list[torch.Tensor]:
    return [values[place, : len(row.response_ids)] for place, row in enumerate(rows)]
