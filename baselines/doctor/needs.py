"""What training a policy would take of a machine, and whether the machine has it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from baselines.config.schema import TrainConfig
from baselines.doctor.machine import GIB, Diagnosis, Machine
from baselines.rollouts.rows import longest_row
from baselines.training.memory import estimate_memory
from benchmark.models import ModelSource
from benchmark.stats.formatting import percent_text
from tasks.base import Task

_CHECKPOINT: Final = 40
"""Bytes of disk for each parameter: a checkpoint is 16 (the model, and the trainer's state with two
moments), the best model 4; while they are replaced, the old and the new one take space together."""
_WITH_LORA: Final = 24
"""The same with LoRA, whose moments are nothing beside the weights."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What a policy needs, in GiB.

    Attributes:
        text: Everything, for people.
        peak: Of each device, without the engine.
        room: That the engine leaves on a device.
        disk: In the run's folder.
        findings: What is too little.
    """

    text: str
    peak: float
    room: float
    disk: float
    findings: Sequence[Diagnosis]


def policy_needs(
    init: ModelSource,
    config: TrainConfig,
    tasks: Sequence[Task],
    machine: Machine,
    gpus: int,
    share: float,
) -> Needs:
    """Compare what a policy needs with what there is, from its configuration alone.

    Args:
        init: The policy.
        config: What is chosen.
        tasks: What it is trained on.
        machine: From `read_machine`.
        gpus: That train; more than one shard it.
        share: Of a GPU's memory, that the engine takes.
    """
    from transformers import AutoConfig

    assert init.path is not None
    model = AutoConfig.from_pretrained(init.path, local_files_only=True, trust_remote_code=False)
    memory = estimate_memory(model, config, gpus, gpus > 1, longest_row(config, tasks))
    whole = min((gpu.memory for gpu in machine.gpus), default=machine.memory)
    room = whole * (1 - share) if machine.gpus else whole
    each = _CHECKPOINT if config.optimization.lora is None else _WITH_LORA
    disk = memory.parameters * each / GIB
    free = machine.disk["runs"]
    device = "each GPU" if machine.gpus else "this machine"
    found = []
    if memory.peak > room:
        left = f" after the engine's {percent_text(share, 0)}" if machine.gpus else ""
        found.append(
            Diagnosis(
                True,
                f"not enough memory for {init.identity.name}: {memory.parameters:,} parameters "
                f"need {memory.peak:.1f} GiB, and {device} has {room:.1f} GiB{left}: use more "
                "GPUs, set optimization.optimizer=adamw_8bit, or lower "
                "optimization.micro_batch_tokens",
            )
        )
    if disk > free:
        found.append(
            Diagnosis(
                True,
                f"not enough disk for checkpoints of {init.identity.name}: up to {disk:.0f} GiB, "
                f"and {free:.0f} GiB are free: choose another --out",
            )
        )
    text = (
        f"{init.identity.name}: {memory.parameters:,} parameters\n{memory.text()}\n"
        f"disk for checkpoints: up to {disk:.1f} GiB"
    )
    return Needs(text, memory.peak, room, disk, found)
