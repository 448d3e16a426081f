"""Assigns each of several concurrent runs its own GPUs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from baselines.launch.plan import DEVICES, plan_gpus
from benchmark.hosts.choose import default_processes
from tasks.errors import UserError
from tasks.texts import counted


@dataclass(frozen=True, slots=True)
class GpuSlots:
    """GPUs of concurrent runs.

    Attributes:
        gpus: GPUs of each run, as `CUDA_VISIBLE_DEVICES` names them; empty without GPUs.
        train_options: Options of `train` for each run.
        players: Processes of a run that play episodes.
    """

    gpus: tuple[tuple[str, ...], ...] = ()
    train_options: tuple[str, ...] = ()
    players: int = 1

    def environment(self, slot: int) -> dict[str, str]:
        """Environment variables that select a run's GPUs.

        Args:
            slot: Number of the run among the concurrent ones.
        """
        return {DEVICES: ",".join(self.gpus[slot])} if self.gpus else {}

    @property
    def env_processes(self) -> int:
        """Task worker processes per process that plays; one without GPUs."""
        if not self.gpus:
            return 1
        return default_processes(len(self.gpus) * self.players)


NO_GPUS: Final = GpuSlots()


def deal_gpus(
    jobs: int | None,
    each: int | None,
    serving: int | None,
    visible: Sequence[str],
    options: Sequence[str] = (),
) -> GpuSlots:
    """Assign GPUs to concurrent runs.

    Args:
        jobs: Number of runs; None for one, or for as many as the GPUs allow if `each` is given.
        each: GPUs per run; None for one, if there is any.
        serving: How many of `each` serve (see `plan_gpus`).
        visible: The available GPUs.
        options: Further options of `train` on GPUs.

    Raises:
        UserError: There are too few GPUs, or a run cannot be divided this way.
    """
    there = counted(len(visible), "GPU")
    if each is None:
        jobs = jobs or 1
        if visible and jobs > len(visible):
            raise UserError(
                f"--jobs {jobs}: each run needs a GPU of its own, and this machine has {there} "
                f"(with {DEVICES}= before the command, runs use the CPU)"
            )
        return GpuSlots(tuple((gpu,) for gpu in visible[:jobs]))
    plan = plan_gpus(each, serving, visible)
    jobs = jobs or len(visible) // each
    if jobs * each > len(visible):
        raise UserError(
            f"--jobs {jobs} with --gpus {each} needs {jobs * each} GPUs: this machine has {there}"
        )
    dealt = tuple(tuple(visible[each * slot : each * (slot + 1)]) for slot in range(jobs))
    chosen = ["--gpus", str(each), *([] if serving is None else ["--serve-gpus", str(serving)])]
    # With servers, one process plays all episodes; otherwise each plays its share.
    players = 1 if plan.serving else each
    return GpuSlots(dealt, (*chosen, *options), players)
