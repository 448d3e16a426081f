"""Fourth dimension: which episodes an update uses, and which policy played them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from baselines.algorithms.part import Count, CountOrZero, Part, Share
from tasks.seeding import stable_seed

Criterion = Literal["returns", "success"]
"""What must differ within a group: the returns before the format penalty (ARLArena's released
code), or success (its paper's Eq. 8). With step costs, returns nearly always differ."""

Fill = Literal["uniform", "smaller"]
"""After the last try: fill the batch with uninformative groups (ARLArena's released code), or
continue with fewer groups."""

_HASH_BITS = 53


def informative(outcomes: Sequence[float]) -> bool:
    """Whether a group is informative: its outcomes are not all exactly equal.

    Group-relative advantages of equal outcomes are 0. Source: DAPO (arXiv 2503.14476), Eq. 11.
    """
    return any(outcome != outcomes[0] for outcome in outcomes)


def keep_informative(groups: Sequence[Sequence[float]]) -> list[int]:
    """Indices of the informative groups, in order."""
    return [index for index, group in enumerate(groups) if informative(group)]


@dataclass(frozen=True, slots=True)
class Collected:
    """What to do with a batch.

    Attributes:
        kept: Indices of this batch's groups to keep, in this order.
        again: Whether another batch must be drawn.
    """

    kept: tuple[int, ...]
    again: bool


class Dynamic(Part):
    """DAPO's dynamic sampling: draw whole batches until enough groups are informative.

    Attributes:
        criterion: The outcome that must differ within a group.
        tries: Maximum batches drawn for one update.
        cold_start: Updates before filtering begins.
        fill: What happens if groups are missing after the last try.
    """

    criterion: Criterion = "returns"
    tries: Count = 3
    cold_start: CountOrZero = 0
    fill: Fill = "uniform"

    def enabled(self, update: int) -> bool:
        """Whether this update, counted from 1, filters."""
        return update > self.cold_start

    def outcomes(self, returns: Sequence[float], successes: Sequence[bool]) -> tuple[float, ...]:
        """The outcomes to compare within a group, one number per episode."""
        return tuple(map(float, successes)) if self.criterion == "success" else tuple(returns)

    def collect(self, missing: int, groups: Sequence[Sequence[float]], attempt: int) -> Collected:
        """Judge one batch.

        Args:
            missing: Number of groups that the update still needs.
            groups: Outcomes of the batch's groups, one number per episode.
            attempt: Number of this batch, from 1 to `tries`.

        Returns:
            At most `missing` groups: informative ones in order, then, on the last try with
            `fill="uniform"`, others in order.
        """
        kept = keep_informative(groups)[:missing]
        last = attempt >= self.tries
        if last and self.fill == "uniform":
            rest = [index for index, group in enumerate(groups) if not informative(group)]
            kept += rest[: missing - len(kept)]
        return Collected(tuple(kept), again=len(kept) < missing and not last)


class CrossPolicy(Part):
    """AgentRL's cross-policy sampling: some turns of an episode come from an older policy.

    A trajectory whose turns come from two policies visits states that neither would reach alone.
    Source: AgentRL (arXiv 2510.04206), section 3.1, which does not give the probability.

    Attributes:
        probability: Share of turns.
        refresh_every: Number of updates after which the older policy is replaced with the current
            one.
    """

    probability: Share = 0.25
    refresh_every: Count = 5

    def refresh_due(self, update: int) -> bool:
        """Whether to replace the older policy after this update, counted from 1."""
        return update % self.refresh_every == 0


def stale_turn(seed: int, probability: float) -> bool:
    """Whether the older policy answers the request with this seed; a pure function of both."""
    drawn = stable_seed("stale turn", seed, 0, 0, bits=_HASH_BITS)
    return drawn / (1 << _HASH_BITS) < probability


class EpisodeSampling(Part):
    """Which episodes an update learns from."""

    dynamic: Dynamic | None = None
    cross_policy: CrossPolicy | None = None
