"""Every run of a study has its own GPUs."""

import os

import pytest

from baselines.launch.plan import DEVICES
from baselines.launch.slots import NO_GPUS, GpuSlots, deal_gpus
from tasks.errors import UserError

FOUR = tuple("0123")


def test_runs_have_their_own_gpus_in_order() -> None:
    slots = deal_gpus(2, 2, 1, ("4", "5", "GPU-6", "7"))
    assert slots == GpuSlots((("4", "5"), ("GPU-6", "7")), 2, 1)
    assert slots.environment(1) == {DEVICES: "GPU-6,7"}
    assert slots.train_options == ["--gpus", "2", "--serve-gpus", "1"]
    assert slots.starts_processes


def test_serving_without_servers_is_passed_on() -> None:
    assert deal_gpus(1, 4, 0, FOUR).train_options == ["--gpus", "4", "--serve-gpus", "0"]


@pytest.mark.parametrize(("jobs", "shown"), [(1, "0"), (2, "01"), (4, "0123"), (6, "012301")])
def test_without_a_choice_each_run_has_one_and_further_runs_share(jobs: int, shown: str) -> None:
    slots = deal_gpus(jobs, None, None, FOUR)
    assert [slots.environment(slot) for slot in range(jobs)] == [{DEVICES: one} for one in shown]
    assert slots.train_options == []
    assert not slots.starts_processes


def test_without_gpus_nothing_is_set() -> None:
    assert deal_gpus(3, None, None, ()) == NO_GPUS
    assert NO_GPUS.environment(2) == {}
    assert NO_GPUS.env_processes == 1


def test_runs_on_gpus_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    for cores, jobs, processes in ((64, 4, 16), (256, 4, 32), (2, 4, 1)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _pid, n=cores: set(range(n)))
        assert deal_gpus(jobs, 1, None, FOUR).env_processes == processes


@pytest.mark.parametrize(
    ("jobs", "each", "serving", "message"),
    [
        (1, 8, None, "--gpus 8: this machine has 4 NVIDIA GPUs"),
        (3, 2, None, "--jobs 3 with --gpus 2 needs 6 GPUs: there are 4"),
        (1, 2, 2, "--serve-gpus 2: of 2 GPUs, at most 1 can serve"),
        (2, None, 1, "--serve-gpus has no effect without --gpus"),
    ],
)
def test_what_cannot_be_dealt_is_refused(
    jobs: int, each: int | None, serving: int | None, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(DEVICES, raising=False)
    with pytest.raises(UserError) as refused:
        deal_gpus(jobs, each, serving, FOUR)
    assert str(refused.value) == message
