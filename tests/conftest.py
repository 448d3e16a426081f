"""Settings to apply before vLLM or torch is imported, and submissions that many tests read."""

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.once import made_once

# Expected values were computed on CPUs; GPUs are used only if they are named explicitly.
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
# Torch, vLLM and the tests share few cores, and more threads would slow all of them down.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

# A shell's background jobs ignore Ctrl-C, and so would every process started by a test.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine must not cause a failure.
settings.register_profile("no-deadline", deadline=None)
settings.register_profile("fast", deadline=None, max_examples=20)
settings.load_profile("no-deadline")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect without the garbage collector, which would scan all tests repeatedly."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip vLLM's tests if its build is for GPUs, and none are visible."""
    from benchmark.versions import has_gpu_vllm

    if not has_gpu_vllm() or os.environ["CUDA_VISIBLE_DEVICES"]:
        return
    hidden = pytest.mark.skip(reason="vLLM is built for GPUs, and CUDA_VISIBLE_DEVICES names none")
    for item in items:
        if item.get_closest_marker("vllm") is not None:
            item.add_marker(hidden)


@pytest.fixture(scope="session")
def expert_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The expert's run on `sokoban/builtin`."""
    from tests.support.submissions.small import play_policy

    return made_once(tmp_path_factory, "expert", lambda folder: play_policy(folder, "expert"))


@pytest.fixture(scope="session")
def random_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The random policy's run on it."""
    from tests.support.submissions.small import play_policy

    return made_once(tmp_path_factory, "random", lambda folder: play_policy(folder, "random"))


@pytest.fixture(scope="session")
def submissions(
    tmp_path_factory: pytest.TempPathFactory, expert_run: Path, random_run: Path
) -> Path:
    """A folder of two submissions: the expert, and two seeds that solve about 60%."""
    from tests.support.submissions.small import policy_submission, trained_submission

    def make(folder: Path) -> None:
        policy_submission(folder, expert_run)
        trained_submission(folder, expert_run, random_run)
        for log in folder.glob("*.jsonl"):
            log.unlink()

    return made_once(tmp_path_factory, "submissions", make)
