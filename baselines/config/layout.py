"""How a run is laid out on devices, and what of a device its trainer may take.

Phases differ in what else is on a GPU: a sleeping engine leaves its memory to learning, and takes
it back for playing, from the weight sync on.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

ASLEEP: Final = 2.0
"""GiB that a sleeping vLLM may keep: its context, its graphs."""


@dataclass(frozen=True, slots=True)
class EngineModels:
    """Engines of transformers on a device: each has a model of its own beside the policy.

    Attributes:
        count: Engines.
        size: Bytes of each of their weights, keys and values.
        rows: Responses that each of them runs at once.
    """

    count: int
    size: int
    rows: int


@dataclass(frozen=True, slots=True)
class Layout:
    """How a run is laid out on devices.

    Attributes:
        processes: That train.
        sharded: Whether FSDP spreads the models over them.
        everywhere: Each of them has an engine that gets whole weights.
        share: Share of a device's memory that vLLM on it takes.
        sleeps: Whether vLLM gives it back while the policy learns.
        models: Engines of transformers on each device; None where there are none.
        serves: Share of a device's memory that its vLLM server takes, on devices that only serve; 0
            if there are none, or if they are unknown.
    """

    processes: int = 1
    sharded: bool = False
    everywhere: bool = False
    share: float = 0.0
    sleeps: bool = False
    models: EngineModels | None = None
    serves: float = 0.0

    @property
    def engine_share(self) -> float:
        """Share of a device's memory that vLLM takes, wherever it is; 0 without vLLM."""
        return self.share or self.serves

    def room(self, whole: float, phase: str) -> float:
        """GiB of a device of `whole` GiB that the trainer may take in a phase."""
        if self.sleeps and phase == "learning":
            return whole - ASLEEP
        return whole * (1 - self.share)

    def least(self, phases: Mapping[str, float]) -> float:
        """GiB of the smallest device that has room for every phase, of GiB each."""
        return max(
            size + ASLEEP if self.sleeps and phase == "learning" else size / (1 - self.share)
            for phase, size in phases.items()
        )
