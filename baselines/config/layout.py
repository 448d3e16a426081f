"""A run's layout on devices, and how much memory of a device its trainer may use.

Phases differ in what else is on a GPU: a sleeping engine frees its memory for learning, and
reclaims it at the weight sync for the next rollout.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

ASLEEP: Final = 2.0
"""GiB that a sleeping vLLM may keep, for its context and graphs."""


@dataclass(frozen=True, slots=True)
class EngineModels:
    """transformers engines on a device, each with its own model besides the policy.

    Attributes:
        count: Number of engines.
        size: Bytes per weight, key or value.
        rows: Responses that each engine generates at once.
    """

    count: int
    size: int
    rows: int


@dataclass(frozen=True, slots=True)
class Layout:
    """How a run is laid out on devices.

    Attributes:
        processes: Number of training processes.
        sharded: Whether FSDP shards the models over them.
        everywhere: Each of them has an engine that gets full weights.
        share: Share of a training device's memory that vLLM takes.
        sleeps: Whether vLLM frees its memory while the policy learns.
        models: transformers engines on each device; None if there are none.
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
        """Share of a device's memory that vLLM takes, on any device; 0 without vLLM."""
        return self.share or self.serves

    def room(self, whole: float, phase: str) -> float:
        """GiB that the trainer may use in a phase, on a device of `whole` GiB."""
        if self.sleeps and phase == "learning":
            return whole - ASLEEP
        return whole * (1 - self.share)

    def least(self, phases: Mapping[str, float]) -> float:
        """Smallest device size, in GiB, that fits every phase, given the GiB of each."""
        return max(
            size + ASLEEP if self.sleeps and phase == "learning" else size / (1 - self.share)
            for phase, size in phases.items()
        )
