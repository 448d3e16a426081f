"""Fourth dimension: which episodes an update learns from, and which policy played them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, assert_never

from tasks.seeding import stable_seed

Criterion = Literal["returns", "success"]
"""What must differ within a group: the returns before the format penalty (ARLArena's released
code), or success (its paper's Eq. 8). Where steps cost something, returns nearly always differ."""

Fill = Literal["uniform", "smaller"]
"""After the last try: take groups that teach nothing, so that the batch has its size (ARLArena's
released code), or go on with fewer groups."""

_HASH_BITS = 53


def outcomes(
    criterion: Criterion, returns: Sequence[float], successes: Sequence[bool]
) -> tuple[float, ...]:
    """What a group is judged by, one number an episode."""
    if criterion == "returns":
        return tuple(returns)
    if criterion == "success":
        return tuple(map(float, successes))
    assert_never(criterion)


def informative(outcomes: Sequence[float]) -> bool:
    """Whether a group teaches something: its outcomes are not all exactly equal.

    Group-relative advantages of equal outcomes are 0. Source: DAPO (arXiv 2503.14476), Eq. 11.
    """
    return any(outcome != outcomes[0] for outcome in outcomes)


def keep_informative(groups: Sequence[Sequence[float]]) -> list[int]:
    """Indices of the groups that teach something, in order."""
    return [index for index, group in enumerate(groups) if informative(group)]


@dataclass(frozen=True, slots=True)
class Collected:
    """What to do with a batch.

    Attributes:
        kept: Indices of the groups of this batch to append, in this order.
        again: Whether another batch must be drawn.
    """

    kept: tuple[int, ...]
    again: bool


@dataclass(frozen=True, slots=True)
class DynamicSampling:
    """DAPO's dynamic sampling: draw whole batches until enough groups teach something.

    Attributes:
        groups_per_batch: Groups that an update wants.
        tries: Batches that are drawn at most for one update.
        cold_start: Updates before filtering begins.
        fill: What the last try does about missing groups.
    """

    groups_per_batch: int
    tries: int
    cold_start: int = 0
    fill: Fill = "uniform"

    def enabled(self, update: int) -> bool:
        """Whether the update of this number, counted from 1, filters."""
        return update > self.cold_start

    def collect(self, collected: int, groups: Sequence[Sequence[float]], attempt: int) -> Collected:
        """Judge one batch.

        Args:
            collected: Groups kept from earlier batches of this update.
            groups: Outcomes of the new batch's groups, one number an episode.
            attempt: Number of this batch, from 1 to `tries`.

        Returns:
            At most as many groups as are missing: those that teach something, in order, then on the
            last try, with `fill="uniform"`, others in order.
        """
        missing = max(self.groups_per_batch - collected, 0)
        kept = keep_informative(groups)[:missing]
        last = attempt >= self.tries
        if last and self.fill == "uniform":
            rest = [index for index, group in enumerate(groups) if not informative(group)]
            kept += rest[: missing - len(kept)]
        return Collected(tuple(kept), again=len(kept) < missing and not last)


def stale_turn(seed: int, trajectory: int, turn: int, probability: float) -> bool:
    """Whether an older policy plays this turn: cross-policy sampling.

    A trajectory whose turns come from two policies visits states that neither would reach alone.
    Depends on the arguments only, not on the order of work. Source: AgentRL (arXiv 2510.04206),
    section 3.1, which does not give the probability.

    Args:
        seed: Of the run and update.
        trajectory: Number in the rollout.
        turn: Number in the trajectory.
        probability: Share of turns, in 0..1.
    """
    drawn = stable_seed("stale turn", seed, trajectory, turn, bits=_HASH_BITS)
    return drawn / (1 << _HASH_BITS) < probability


def refresh_due(update: int, period: int) -> bool:
    """Whether the older policy becomes the current one after this update, counted from 1."""
    return update % period == 0
