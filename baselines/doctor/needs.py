"""The resources for training a policy, and whether the machine has them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from baselines.config.layout import Layout
from baselines.doctor.machine import GIB, Diagnosis, Machine
from baselines.launch.exchange import SHARED_MEMORY, sent_bytes
from baselines.training.fit import fit_on
from tasks.texts import counted

if TYPE_CHECKING:
    from baselines.config.run import TrainingRun

_CHECKPOINT: Final = 40
"""Bytes of disk per parameter: a checkpoint has 16 (the model, and the trainer's state with two
moments), the best model 4; while they are replaced, the old and the new one both take up space."""
_WITH_LORA: Final = 24
"""The same with LoRA, whose moments are negligible compared with the weights."""


@dataclass(frozen=True, slots=True)
class Needs:
    """The resources that a policy needs, in GiB.

    Attributes:
        text: Human-readable description of all of them.
        peak: Memory per training device, without the engine, in the phase with the least room.
        room: Available memory on a device in this phase; None if the devices are not present.
        disk: Disk space in the run's folder.
        findings: Insufficient resources.
    """

    text: str
    peak: float
    room: float | None
    disk: float
    findings: Sequence[Diagnosis]


def policy_needs(
    run: "TrainingRun",
    machine: Machine,
    layout: Layout,
    serving: int,
    whole: float | None,
    shrink: bool,
) -> Needs:
    """Compare a policy's needs, computed from its configuration alone, with the machine.

    Args:
        run: The policy's run.
        machine: Result of `read_machine`.
        layout: The run's layout on devices.
        serving: Number of additional GPUs with a server each.
        whole: GiB of the smallest device; None if the devices are not present.
        shrink: Whether micro-batches may be made smaller, as in `train`.
    """
    name = run.init.identity.name
    # Nothing is known about absent devices, so show the configured size.
    fit = fit_on(run, layout, math.inf if whole is None else whole, shrink)
    memory = fit.memory
    each = _CHECKPOINT if run.config.optimization.lora is None else _WITH_LORA
    disk = memory.parameters * each / GIB
    free = machine.disk["runs"]
    found = []
    if not fit.fits:
        parameters = f"{memory.parameters:,} parameters"
        what = f"not enough memory for {name} with {parameters}: {fit.lack}"
        found.append(Diagnosis(True, what))
    if disk > free:
        found.append(
            Diagnosis(
                True,
                f"not enough disk for checkpoints of {name}: up to {disk:.0f} GiB, "
                f"and {free:.0f} GiB are free: choose another --out",
            )
        )
    lines = [f"disk for checkpoints: up to {disk:.1f} GiB"]
    if serving:
        sent, there = sent_bytes(run) / GIB, machine.shared_memory or 0.0
        lines.append(f"new weights for the servers: {sent:.2f} GiB, through {SHARED_MEMORY}")
        if sent > there:
            found.append(
                Diagnosis(
                    False,
                    f"{SHARED_MEMORY} has {there:.1f} GiB free, and new weights of {name} take "
                    f"{sent:.1f} GiB: they go through the run's folder, which is slow on a network "
                    "disk; enlarge it (docker run --shm-size)",
                )
            )
    shared = ", sharded" if layout.sharded else ""
    served = f", {counted(serving, 'GPU')} with a server" if serving else ""
    divided = f"{counted(layout.processes, 'training process')}{shared}{served}"
    head = f"{name}: {memory.parameters:,} parameters; {divided}"
    text = "\n".join([head, memory.text(), *lines])
    room = None if whole is None else fit.room
    return Needs(text, max(memory.phases.values()) if room is None else fit.peak, room, disk, found)
