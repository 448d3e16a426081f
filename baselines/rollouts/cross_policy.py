"""Cross-policy sampling: an older policy plays some turns of an episode (AgentRL, section 3.1)."""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from baselines.algorithms.sampling import stale_turn
from benchmark.engines.core.base import Engine, Generation, Request

if TYPE_CHECKING:
    import torch


class CrossPolicyEngine(Engine):
    """Sends a share of requests to an engine with older weights.

    The choice depends only on the request's seed. Deterministic engines step together, so runs are
    as repeatable as with one engine.

    Args:
        current: Engine of the trained policy.
        older: Another engine with the same model.
        probability: Share of turns that the older engine answers.
    """

    def __init__(self, current: Engine, older: Engine, probability: float) -> None:
        self.name = current.name
        self._current = current
        self._older = older
        self._probability = probability
        current.step_with(older)

    async def generate(self, request: Request) -> Generation:
        """Generate with one of the two engines."""
        stale = stale_turn(request.seed, self._probability)
        return await (self._older if stale else self._current).generate(request)

    def client(self) -> AbstractContextManager[None]:
        """A client of both; see `Engine.client`."""
        return self._current.client()

    async def load_weights(
        self, weights: "Iterable[tuple[str, torch.Tensor]]", version: int
    ) -> None:
        """Replace the weights of the current policy."""
        await self._current.load_weights(weights, version)

    def describe(self) -> dict[str, Any]:
        """Describe the current engine."""
        return self._current.describe()
