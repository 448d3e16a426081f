"""Every run of a study has its own GPUs."""

import os

import pytest

from baselines.launch.plan import DEVICES
from baselines.launch.slots import NO_GPUS, GpuSlots, deal_gpus
from tasks.errors import UserError

FOUR = tuple("0123")


def test_runs_have_their_own_gpus_in_order() -> None:
    slots = deal_gpus(2, 2, 1, ("4", "5", "GPU-6", "7"), ["--sleep"])
    options = ("--gpus", "2", "--serve-gpus", "1", "--sleep")
    assert slots == GpuSlots((("4", "5"), ("GPU-6", "7")), options)
    assert slots.environment(1) == {DEVICES: "GPU-6,7"}


@pytest.mark.parametrize(("each", "runs"), [(1, 4), (2, 2), (3, 1), (4, 1)])
def test_as_many_runs_as_there_are_gpus_for(each: int, runs: int) -> None:
    assert len(deal_gpus(None, each, None, FOUR).gpus) == runs


def test_without_a_choice_each_run_has_one() -> None:
    slots = deal_gpus(3, None, None, FOUR)
    assert [slots.environment(slot) for slot in range(3)] == [{DEVICES: gpu} for gpu in "012"]
    assert slots.train_options == ()
    assert deal_gpus(None, None, None, FOUR).gpus == (("0",),)


def test_without_gpus_nothing_is_set() -> None:
    assert deal_gpus(3, None, None, ()) == NO_GPUS
    assert NO_GPUS.environment(2) == {}
    assert NO_GPUS.env_processes == 1


@pytest.mark.parametrize(
    ("cores", "each", "serving", "processes"),
    [
        (64, 1, None, 16),
        (256, 1, None, 32),
        (2, 1, None, 1),
        (64, 2, None, 32),
        # Both processes of a run play.
        (64, 2, 0, 16),
    ],
)
def test_what_plays_shares_the_cores(
    cores: int, each: int, serving: int | None, processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(cores)))
    assert deal_gpus(None, each, serving, FOUR).env_processes == processes


@pytest.mark.parametrize(
    ("jobs", "each", "serving", "message"),
    [
        (1, 8, None, "--gpus 8: this machine has 4 NVIDIA GPUs"),
        (3, 2, None, "--jobs 3 with --gpus 2 needs 6 GPUs: this machine has 4 GPUs"),
        (1, 2, 2, "--serve-gpus 2: of 2 GPUs, at most 1 can serve"),
        (
            5,
            None,
            None,
            "--jobs 5: each run needs a GPU of its own, and this machine has 4 GPUs (with "
            "CUDA_VISIBLE_DEVICES= before the command, runs use the CPU)",
        ),
    ],
)
def test_what_cannot_be_dealt_is_refused(
    jobs: int, each: int | None, serving: int | None, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(DEVICES, raising=False)
    with pytest.raises(UserError) as refused:
        deal_gpus(jobs, each, serving, FOUR)
    assert str(refused.value) == message
