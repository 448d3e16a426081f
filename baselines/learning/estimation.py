"""Advantages of a rollout's rows, as the recipe chooses them."""

import math
from collections.abc import Sequence

import torch

from baselines.algorithms import advantages as group
from baselines.algorithms.empg import empg
from baselines.algorithms.gae import gae
from baselines.algorithms.gigpo import discounted_step_returns, gigpo, step_groups
from baselines.config.schema import EMPG, GAE, GRPO, RLOO, GiGPO, ReinforcePP, TrainConfig
from baselines.rollouts.rows import Row


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
        values: (T,) per row by the critic; only GAE looks at them.
        distances: (T,) per row, estimated KL to the init; only with KL in the reward.

    Returns:
        (T,) advantages per row, 0 where masked, and the critic's targets (GAE only).
    """
    mask = _padded([torch.from_numpy(row.response_mask) for row in rows]).float()
    chosen, targets = config.advantage, None
    if isinstance(chosen, ReinforcePP):
        rewards = _token_rewards(config, rows, distances, mask)
        token_level = group.reinforce_plus_plus(rewards, mask, gamma=chosen.gamma)
    elif isinstance(chosen, GAE):
        rewards = _token_rewards(config, rows, distances, mask)
        known = _padded([v if v is not None else torch.zeros(0) for v in values])
        token_level, returns = gae(rewards, known, mask, gamma=chosen.gamma, lam=chosen.lam)
        targets = _unpadded(returns, rows)
    else:
        token_level = _row_advantages(config, rows, entropies, mask)[:, None] * mask
    if chosen.task_normalized:
        token_level = group.task_normalized(token_level, mask, _ids([row.task for row in rows]))
    if config.penalty_in == "advantages":
        token_level = token_level - _numbers([row.penalty for row in rows])[:, None] * mask
    return _unpadded(token_level.float(), rows), targets


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


def _row_advantages(
    config: TrainConfig,
    rows: Sequence[Row],
    entropies: Sequence[torch.Tensor | None],
    mask: torch.Tensor,
) -> torch.Tensor:
    """(N,) advantages of rows."""
    chosen = config.advantage
    assert isinstance(chosen, GRPO | GiGPO | EMPG | RLOO)
    scores = _numbers([_score(config, row) for row in rows])
    groups = _ids([(row.task, row.group) for row in rows])
    trajectories = _ids([(row.task, row.group, row.member) for row in rows])
    turns = torch.tensor([row.turn for row in rows])
    if isinstance(chosen, RLOO):
        return group.leave_one_out(scores, groups, trajectories)
    if isinstance(chosen, GiGPO):
        rewards = _numbers([row.step_reward for row in rows])
        penalties = _numbers([row.penalty * (config.penalty_in == "scores") for row in rows])
        returns = discounted_step_returns(rewards, trajectories, turns, chosen.gamma)
        anchors = step_groups([row.anchor for row in rows], groups, similarity=chosen.similarity)
        return gigpo(
            scores,
            returns - penalties,
            groups,
            trajectories,
            anchors,
            step_weight=chosen.step_weight,
            step_norm=chosen.step_norm,
            over=chosen.over,
            single=chosen.single,
            variance=chosen.variance,
        )
    by_std = chosen.divide_by_std if isinstance(chosen, GRPO) else True
    base = group.group_relative(
        scores,
        groups,
        trajectories,
        over=chosen.over,
        divide_by_std=by_std,
        single=chosen.single,
        variance=chosen.variance,
    )
    if isinstance(chosen, GRPO):
        return base
    known = _padded([e if e is not None else torch.zeros(0) for e in entropies])
    return empg(
        base,
        known.double(),
        mask.double(),
        trajectories,
        turns,
        k=chosen.k,
        k_future=chosen.k_future,
        zeta=chosen.zeta,
    )


def _token_rewards(
    config: TrainConfig,
    rows: Sequence[Row],
    distances: Sequence[torch.Tensor | None],
    mask: torch.Tensor,
) -> torch.Tensor:
    """(N, T): the row's score on its last token, and the distance to the init on every one."""
    rewards = torch.zeros_like(mask)
    if config.kl.place == "reward" and config.kl.coef > 0:
        known = _padded([d if d is not None else torch.zeros(0) for d in distances])
        rewards -= config.kl.coef * known * mask
    for place, row in enumerate(rows):
        last = int(mask[place].nonzero()[-1])
        rewards[place, last] += _score(config, row)
    return rewards


def _score(config: TrainConfig, row: Row) -> float:
    """What a row is compared by."""
    return row.reward - row.penalty if config.penalty_in == "scores" else row.reward


def _numbers(values: Sequence[float]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def _ids(labels: Sequence[object]) -> torch.Tensor:
    """Number labels by first appearance."""
    numbers: dict[object, int] = {}
    return torch.tensor([numbers.setdefault(label, len(numbers)) for label in labels])


def _padded(values: Sequence[torch.Tensor]) -> torch.Tensor:
    padded: torch.Tensor = torch.nn.utils.rnn.pad_sequence(list(values), batch_first=True)
    return padded


def _unpadded(values: torch.Tensor, rows: Sequence[Row]) -> list[torch.Tensor]:
    return [values[place, : len(row.response_ids)] for place, row in enumerate(rows)]
