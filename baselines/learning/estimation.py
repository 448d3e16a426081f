"""Advantages of a rollout's rows, as configured by the recipe."""

import math
from collections.abc import Sequence

import torch

from baselines.algorithms.advantage.base import Advantage, RowBatch, padded
from baselines.algorithms.masked import task_normalized
from baselines.algorithms.part import own_code
from baselines.config.schema import TrainConfig
from baselines.rollouts.rows import Row
from tasks.errors import UserError
from tasks.texts import counted

_NAMED = 3
"""Rows that a message names at most."""
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
        config: The recipe's choices.
        rows: All rows of a rollout, of all processes.
        entropies: (T,) per row under the old policy; only EMPG uses them.
        values: (T,) per row from the critic; only a `WithCritic` uses them.
        distances: (T,) per row, estimated KL to the init; only used with KL in the reward.

    Returns:
        (T,) advantages per row, 0 where masked, and the critic's targets, if there is one.

    Raises:
        UserError: The advantage returned something unusable.
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
    found, targets = _checked(chosen, batch, rows)
    token_level = found if chosen.of_tokens else found[:, None] * mask
    if chosen.task_normalized:
        token_level = task_normalized(token_level, mask, _ids([row.task for row in rows]))
    if not in_scores:
        token_level = token_level - penalties[:, None] * mask
    unpadded = None if targets is None else _unpadded(targets, rows)
    return _unpadded(token_level.float(), rows), unpadded


def _checked(
    chosen: Advantage, batch: RowBatch, rows: Sequence[Row]
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Call an advantage and check its result, because a plug-in may return anything.

    Raises:
        UserError: The result is not what `with_targets` must return, or the rows were modified.
    """
    parts = {name: part for name, part in vars(batch).items() if name != "anchors"}
    given = [
        (name, tensor)
        for name, part in parts.items()
        for tensor in ((part,) if isinstance(part, torch.Tensor) else part)
        if tensor is not None
    ]
    # If the policy or the critic is not finite, steps are skipped until the run counts as diverged.
    sound = all(bool(tensor.isfinite().all()) for _, tensor in given)
    before = [tensor._version for _, tensor in given]
    with own_code(chosen, f"the advantage {chosen.name}"):
        found, targets = chosen.with_targets(batch)
    for (name, tensor), version in zip(given, before, strict=True):
        if tensor._version != version:
            raise UserError(
                f"the advantage {chosen.name} changes rows.{name} in place: let it change a clone"
            )
    what = f"the advantage {chosen.name}"
    _check_tensor(found, what, batch, chosen.of_tokens)
    if sound:
        _check_finite(found, what, rows)
    if targets is not None:
        what = f"the critic's target of {chosen.name}"
        _check_tensor(targets, what, batch, of_tokens=True)
        if sound:
            _check_finite(targets, what, rows)
        targets = targets.detach()
    return found.detach(), targets


def _check_tensor(found: object, what: str, batch: RowBatch, of_tokens: bool) -> None:
    """Check that something is a CPU's tensor of numbers, one for each token or row.

    Raises:
        UserError: It is not.
    """
    mask = batch.mask
    wanted, each = (mask.shape, "token") if of_tokens else (mask.shape[:1], "row")
    if not isinstance(found, torch.Tensor) or found.shape != wanted:
        kind = tuple(found.shape) if isinstance(found, torch.Tensor) else type(found).__name__
        tokens = not of_tokens and isinstance(found, torch.Tensor) and found.shape == mask.shape
        advice = " (a class that gives one for each token says of_tokens = True)" if tokens else ""
        raise UserError(
            f"{what} gives {kind} instead of a tensor of shape {tuple(wanted)}: one number for "
            f"each {each}{advice}"
        )
    if found.device != mask.device:
        raise UserError(f"{what} is on the device {found.device}, but rows are on {mask.device}")
    if not found.is_floating_point():
        raise UserError(f"{what} gives {found.dtype} instead of floating-point numbers")


def _check_finite(found: torch.Tensor, what: str, rows: Sequence[Row]) -> None:
    """Check that numbers are finite.

    Args:
        found: (N,) of rows, or (N, T) of tokens.
        what: What messages call them.
        rows: The rows.

    Raises:
        UserError: Some are not; the first rows with such numbers are named.
    """
    wrong = ~found.isfinite()
    if not wrong.any():
        return
    each = "row" if found.ndim == 1 else "token"
    places = wrong.reshape(len(rows), -1).any(dim=1).nonzero().flatten().tolist()
    named = "; ".join(f"row {place} ({rows[place].text})" for place in places[:_NAMED])
    more = f"; and {counted(len(places) - _NAMED, 'more row')}" if len(places) > _NAMED else ""
    count = f"{int(wrong.sum())} of {counted(found.numel(), each)}"
    raise UserError(f"{what} is not finite for {count}: {named}{more}")


def penalty_share(advantages: Sequence[torch.Tensor], without: Sequence[torch.Tensor]) -> float:
    """Share of the advantages that comes from format penalties alone.

    `sum |A - A0| / (sum |A - A0| + sum |A0|)` over tokens, where A0 are the advantages of the same
    rollout without penalties.

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


def returns_differ(rows: Sequence[Row]) -> bool:
    """Whether rewards, without format penalties, differ within at least one group."""
    rewards: dict[tuple[str, int], set[float]] = {}
    for row in rows:
        rewards.setdefault((row.task, row.group), set()).add(row.reward)
    return any(len(of_group) > 1 for of_group in rewards.values())


def penalties_took_over(shares: Sequence[float | None]) -> bool:
    """Whether penalties have just come to dominate the advantages.

    Args:
        shares: `policy/penalty_share` of all updates so far.

    Returns:
        True once each time the share has stayed above one half for three updates.
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
