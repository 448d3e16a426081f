"""Checks that a weight sync updates all of an engine's weights at once, and to the right values."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from benchmark.engines.core.base import Engine
from benchmark.engines.core.weights import HASH_OF_NOTHING
from tasks.errors import UserError


@dataclass(frozen=True, slots=True)
class WeightSync:
    """A successful weight sync.

    Attributes:
        tensors: Number of the engine's tensors.
        seen: Number of tensors whose bytes it exposes.
        seconds: Duration of one sync.
        gib: GiB sent.
    """

    tensors: int
    seen: int
    seconds: float
    gib: float


async def check_weight_sync(engine: Engine, weights: Mapping[str, torch.Tensor]) -> WeightSync:
    """Send other weights and then the init's again, and compare the engine's checksums.

    The engine has loaded the init from its folder, so its own checksums are the reference, and how
    it fuses, rounds or shards tensors does not matter. With other weights every checksum must
    differ, and with the init's again each must be as before.

    Args:
        engine: Started, with the init's weights as loaded from its folder.
        weights: The trainer's weights; still those of the init.

    Raises:
        UserError: A tensor did not arrive or is wrong, or the engine provides no checksums.
        EngineDown: The engine failed.
    """
    loaded = await engine.weight_checksums()
    began = time.monotonic()
    await engine.load_weights([(name, one + 1) for name, one in weights.items()], 0)
    seconds = time.monotonic() - began
    moved = await engine.weight_checksums()
    await engine.load_weights(weights.items(), 0)
    back = await engine.weight_checksums()
    seen = [name for name, digest in loaded.items() if digest != HASH_OF_NOTHING]
    if stale := [name for name in seen if moved[name] == loaded[name]]:
        raise UserError(
            f"{len(stale)} of {len(seen)} tensors of the {engine.name} engine stayed as they were "
            f"when new weights were sent ({stale[0]}): its version is incompatible with this "
            "program, or the weight sync is broken; responses would come from an old policy"
        )
    if wrong := [name for name in seen if back[name] != loaded[name]]:
        raise UserError(
            f"{len(wrong)} of {len(seen)} tensors of the {engine.name} engine are wrong after the "
            f"init's weights were sent ({wrong[0]}): it serves another model than the init, "
            "or the weight sync mixes tensors up"
        )
    size = sum(one.numel() * one.element_size() for one in weights.values())
    return WeightSync(len(loaded), len(seen), seconds, size / 2**30)
