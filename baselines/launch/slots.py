"""GPUs of runs that are made at the same time: each has its own."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from baselines.launch.plan import DEVICES, plan_gpus
from benchmark.hosts.choose import MOST_DEFAULT_PROCESSES
from tasks.errors import UserError


@dataclass(frozen=True, slots=True)
class GpuSlots:
    """GPUs of runs that are made at the same time.

    Attributes:
        gpus: Of each of these runs, as `CUDA_VISIBLE_DEVICES` names them; none without GPUs.
        each: That `train` is asked to use; None for what it uses by default.
        serving: Of them, those that serve; None for what `train` chooses.
    """

    gpus: tuple[tuple[str, ...], ...] = ()
    each: int | None = None
    serving: int | None = None

    @property
    def train_options(self) -> list[str]:
        """Options of `train`."""
        chosen = {"--gpus": self.each, "--serve-gpus": self.serving}
        return [
            word
            for name, count in chosen.items()
            if count is not None
            for word in (name, str(count))
        ]

    @property
    def starts_processes(self) -> bool:
        """Whether `train` starts servers and trainers, which it has to end itself."""
        return self.each is not None and self.each > 1

    def environment(self, slot: int) -> dict[str, str]:
        """Variables that show a run its GPUs.

        Args:
            slot: Number of the run among those that are made at the same time.
        """
        return {DEVICES: ",".join(self.gpus[slot])} if self.gpus else {}

    @property
    def env_processes(self) -> int:
        """Worker processes of a run's tasks: its share of the cores, and one without GPUs."""
        if not self.gpus:
            return 1
        share = len(os.sched_getaffinity(0)) // len(self.gpus)
        return max(min(share, MOST_DEFAULT_PROCESSES), 1)


NO_GPUS: Final = GpuSlots()


def deal_gpus(jobs: int, each: int | None, serving: int | None, visible: Sequence[str]) -> GpuSlots:
    """Give GPUs to runs that are made at the same time.

    Args:
        jobs: How many these are.
        each: GPUs of each; None for one, which several runs share where there are fewer GPUs.
        serving: Of `each`, those that serve (see `plan_gpus`).
        visible: GPUs that are there.

    Raises:
        UserError: There are fewer, or a run cannot be divided so.
    """
    if each is None:
        if serving is not None:
            raise UserError("--serve-gpus has no effect without --gpus")
        shared = ((visible[slot % len(visible)],) for slot in range(jobs)) if visible else ()
        return GpuSlots(tuple(shared))
    plan_gpus(each, serving, visible)
    if jobs * each > len(visible):
        raise UserError(
            f"--jobs {jobs} with --gpus {each} needs {jobs * each} GPUs: there are {len(visible)}"
        )
    dealt = tuple(tuple(visible[each * slot : each * (slot + 1)]) for slot in range(jobs))
    return GpuSlots(dealt, each, serving)
