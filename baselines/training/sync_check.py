"""Checks with checksums on both sides that trained weights reach the engine.

At the start of a run the engine loads the init from its folder, so no other metric reveals a weight
sync that does nothing until the policy has moved far.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import torch

from baselines.learning.metrics import MOST_AT_FIRST, Metrics, engine_gap
from benchmark.engines.core.base import Engine
from benchmark.engines.core.weights import HASH_OF_NOTHING, sha256_of
from tasks.errors import UserError

log = logging.getLogger(__name__)

_JOINED: Final = {
    "qkv_proj": ("q_proj", "k_proj", "v_proj"),
    "gate_up_proj": ("gate_proj", "up_proj"),
}
"""Matrices that vLLM fuses into one."""
CAUSES: Final = (
    "Known causes: the versions of vLLM and this program do not fit; a server was restarted or "
    "replaced during the run; several servers, of which only some get weights"
)


class _Given(NamedTuple):
    """SHA-256 of a tensor as it was sent, and rounded to bfloat16."""

    sent: str
    rounded: str


class SyncCheck:
    """Compares what changed in the trainer with what changed in the engine.

    A tensor that differs even after rounding to bfloat16 must have changed in the engine (which may
    round as well), and one that was sent unchanged must not have. One sync is the baseline; the
    check ends at the first later sync in which a tensor changed. Until then each sync costs one
    SHA-256 of all weights on each side; afterward nothing.

    Args:
        engine: Receives the weights; None if another process's engine answers.

    Attributes:
        proven: The last check covered every tensor of the engine and passed.
    """

    def __init__(self, engine: Engine | None) -> None:
        self.proven = False
        self._engine = engine
        self._due = engine is not None
        self._before: tuple[Mapping[str, _Given], Mapping[str, str]] | None = None

    def judge(self, metrics: Metrics, number: int, corrected: bool) -> None:
        """Check the gap between engine and policy after the first update.

        It is measured on rows sampled from exactly the policy's weights, so staleness cannot
        explain it. Numerics can: in low precision, the two diverge when a policy collapses, which a
        track counts. So if checksums have shown that weights arrive, this only warns.

        Args:
            metrics: Metrics of an update.
            number: Number of the update, at least 2.
            corrected: Whether importance weights are in use (`tis_cap`).

        Raises:
            UserError: The gap is large, and no check has shown that weights arrive.
        """
        gap = metrics.get("engine/k3")
        # A NaN means that the policy has diverged, which is handled elsewhere.
        if self._engine is None or gap is None or not gap > MOST_AT_FIRST:
            return
        if not self.proven:
            raise engine_gap(number, gap)
        log.warning(
            "update %d: engine/k3 is %.3g, above %g, although the engine takes new weights: its "
            "precision is too low for this policy%s",
            number,
            gap,
            MOST_AT_FIRST,
            "" if corrected else "; importance weights (--set tis_cap=2) correct that",
        )
        # Check again, with the next sync as the baseline.
        self._due, self._before = True, None

    async def after_sync(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Compare both sides, if due.

        Args:
            weights: The weights that were just sent, by their names in the state dict.

        Raises:
            UserError: The engine has wrong weights.
            EngineDown: The engine failed.
        """
        if not self._due or self._engine is None:
            return
        try:
            held = await self._engine.weight_checksums()
        except UserError as error:
            log.warning("%s: only engine/k3 shows whether it takes new weights", error)
            self._due = False
            return
        given = await asyncio.to_thread(_digests, weights)
        before, self._before = self._before, (given, held)
        if before is not None and self._compare(*before, given, held):
            self._due, self._before = False, None
            self.proven = HASH_OF_NOTHING not in held.values()

    def close(self) -> None:
        """Warn at the end of a run whose weights never changed."""
        if self._due and not self.proven and self._engine is not None:
            log.warning(
                "no weights changed in this run, so it does not show that the %s engine takes new "
                "ones; `arlarena-bench doctor` does",
                self._engine.name,
            )

    def _compare(
        self,
        given_before: Mapping[str, _Given],
        held_before: Mapping[str, str],
        given: Mapping[str, _Given],
        held: Mapping[str, str],
    ) -> bool:
        """Whether a tensor changed on both sides.

        Raises:
            UserError: Different tensors changed.
        """
        assert self._engine is not None
        new = {n for n, one in given.items() if one.rounded != given_before[n].rounded}
        same = {n for n, one in given.items() if one.sent == given_before[n].sent}
        moved: defaultdict[str, bool] = defaultdict(bool)
        hidden: set[str] = set()
        for name, digest in held.items():
            if digest != HASH_OF_NOTHING:
                moved[_unsplit(name)] |= digest != held_before[name]
            else:  # Packed by vLLM's CPU kernels; one with unknown sources may contain any.
                hidden.update(_sources(name, given) or given)
        known = {name: of for name in moved if (of := _sources(name, given))}
        stale = [name for name, of in known.items() if not moved[name] and new.intersection(of)]
        if stale or (new - hidden and not any(moved.values())):
            raise UserError(
                f"{len(stale)} of {len(moved)} tensors of the {self._engine.name} engine stayed as "
                f"they were when new weights were sent{_first(stale)}: responses come from an old "
                f"policy. {CAUSES}"
            )
        wrong = [name for name, of in known.items() if moved[name] and same.issuperset(of)]
        if wrong or (same.issuperset(given) and any(moved.values())):
            raise UserError(
                f"{len(wrong)} of {len(moved)} tensors of the {self._engine.name} engine changed "
                f"though the weights sent were the same{_first(wrong)}. {CAUSES}"
            )
        return bool(new)


def _digests(weights: Mapping[str, torch.Tensor]) -> dict[str, _Given]:
    """Checksums of the sent weights; each name of a tied tensor has its own."""
    found: dict[str, _Given] = {}
    for name, weight in weights.items():
        sent = rounded = sha256_of(weight)
        if weight.dtype != torch.bfloat16:
            rounded = sha256_of(weight.to(torch.bfloat16))
        found[name] = _Given(sent, rounded)
    return found


def _unsplit(name: str) -> str:
    """An engine tensor's name without its rank: all ranks' parts count as one tensor."""
    place, colon, tensor = name.rpartition(":")
    return ":".join(one for one in place.split(":") if not one.startswith("tp")) + colon + tensor


def _sources(name: str, given: Mapping[str, _Given]) -> Sequence[str]:
    """Names of the sent tensors that form an engine's tensor; empty if unknown."""
    bare = name.rpartition(":")[2]
    if bare in given:
        return [bare]
    for joined, parts in _JOINED.items():
        names = [bare.replace(f".{joined}.", f".{part}.") for part in parts]
        if all(one in given for one in names):
            return names
    return []


def _first(names: Sequence[str]) -> str:
    return f" ({names[0]})" if names else ""
