"""The processes of a run: sets them up, and ends all of them if one fails."""

import asyncio
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import torch.distributed as dist
from accelerate import Accelerator
from accelerate.utils import InitProcessGroupKwargs

from baselines.config.run import TrainingRun
from baselines.launch.child import process_start
from baselines.launch.plan import FAILED_ELSEWHERE
from baselines.learning.sharding import configure_sharding
from tasks.errors import UserError

_LONGEST: Final = timedelta(days=1)
"""Timeout of a collective: processes that finish early wait for the others."""
_BROKEN: Final = ("Connection closed by peer", "Connection reset by peer", "Broken pipe")
"""Errors of collectives whose peer is gone."""
_LOOK: Final = 1.0
"""Seconds between checks whether another process has failed."""
_LAST_WORDS: Final = 10.0
"""Seconds for a failed process to report its error before the others exit."""
_UNNOTICED: Final = 20.0
"""Seconds after which a vanished process ends the others, if nothing else has: gloo's collectives
notice it, NCCL's keep waiting."""
_SLOWEST_STOP: Final = 300.0
"""Seconds that the main process, which holds the rendezvous store, waits for others to stop."""
_FAILED: Final = "arlarena/failed"
_STOPPED: Final = "arlarena/stopped/{}"
"""Key that each process sets when it has stopped on request."""
_NUMBER: Final = "arlarena/process/{}"
"""Key under which each process stores how to find it on its machine."""
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE: Final = Path("/proc/self/ns/pid")


class StoppedTogether(asyncio.CancelledError):
    """The processes of a run were asked to stop, and all have left their work at the same point."""


def make_accelerator(run: TrainingRun) -> Accelerator:
    """Set up the processes and devices of a run.

    Raises:
        UserError: A launcher was asked for several processes but started one, or uses an
            unsupported kind of sharding.
    """
    _check_launcher()
    accelerator = Accelerator(
        kwargs_handlers=[InitProcessGroupKwargs(timeout=_LONGEST)],
        mixed_precision=run.config.optimization.mixed_precision,
        log_with=list(run.trackers) or None,
        project_dir=run.folder,
    )
    configure_sharding(accelerator)
    return accelerator


def _check_launcher() -> None:
    """Detect that accelerate's launcher was asked for several CPU processes but started one.

    It cannot start several, but sets the rendezvous variables anyway.

    Raises:
        UserError: This is the case.
    """
    alone = "WORLD_SIZE" not in os.environ and "MASTER_PORT" in os.environ
    if alone and os.environ.get("ACCELERATE_USE_CPU", "").lower() in ("1", "true", "yes"):
        raise UserError(
            "accelerate launch --cpu starts one process, whatever --num_processes says: use "
            "ACCELERATE_USE_CPU=1 torchrun --nproc_per_node N -m benchmark.cli train ... instead, "
            "or leave --num_processes out"
        )


@contextmanager
def ended_together(accelerator: Accelerator) -> Iterator[None]:
    """Within this context, an error in one process ends all of them, and one reports it.

    The others may be blocked in a collective, which Python cannot interrupt, and would wait for a
    day. So each has a thread that checks whether another process has failed, and then exits
    silently. It does so after the failed process has exited: a launcher ends all processes as soon
    as one exits, and the message would be lost. The thread also checks whether another process of
    this machine is gone: a killed process reports nothing, NCCL does not notice, and a launcher's
    SIGTERM does not reach processes that wait for it.

    Raises:
        UserError: Another process has vanished.
    """
    if accelerator.num_processes == 1:
        yield
        return
    # The rendezvous store; a separate connection, because the main thread may block the other one.
    # torch's stubs lack it.
    store: Any = dist.distributed_c10d._get_default_store()
    store = store.clone()
    store.set(_NUMBER.format(accelerator.process_index), _own_number())
    ranks = range(accelerator.num_processes)
    numbers = [_NUMBER.format(rank) for rank in ranks]
    done, elsewhere = threading.Event(), threading.Event()
    thread = threading.Thread(
        target=_look, args=(store, numbers, done, elsewhere), name="peers", daemon=True
    )
    thread.start()
    try:
        yield
        accelerator.wait_for_everyone()
    except BaseException as error:
        if elsewhere.is_set():
            # The launcher takes the exit code of the process that failed, if that one ends first.
            time.sleep(_LAST_WORDS)
            os._exit(FAILED_ELSEWHERE)
        if isinstance(error, asyncio.CancelledError):
            # All processes were asked to stop; some take longer to exit.
            with suppress(RuntimeError):
                store.set(_STOPPED.format(accelerator.process_index), "")
                # Unless all have left, others may be blocked in a collective that needs this one.
                if accelerator.is_main_process and isinstance(error, StoppedTogether):
                    _wait_for_stops(store, ranks)
            raise
        done.set()
        thread.join()
        with suppress(RuntimeError):
            if store.add(_FAILED, 1) > 1:
                # Another process failed first and reports it, if the launcher gives it time.
                time.sleep(_LAST_WORDS)
                os._exit(FAILED_ELSEWHERE)
            # Let the others notice first: their errors about broken connections would be noise.
            time.sleep(2 * _LOOK)
        if isinstance(error, RuntimeError) and any(text in str(error) for text in _BROKEN):
            raise UserError(
                "another process of this run ended without a message (killed, or out of host "
                "memory: see the system's log); the same command resumes from the last checkpoint"
            ) from error
        raise
    finally:
        done.set()


def _look(
    store: Any, numbers: Sequence[str], done: threading.Event, elsewhere: threading.Event
) -> None:
    """Exit after another process has failed, which sets `elsewhere`, or is gone."""
    peers: list[str] = []
    missing_since: float | None = None
    stopped = False
    while not done.wait(_LOOK):
        try:
            failed = store.check([_FAILED])
            if not peers and store.check(list(numbers)):
                peers = [store.get(number).decode() for number in numbers]
            stopped = any(store.check([_STOPPED.format(rank)]) for rank in range(len(numbers)))
        except RuntimeError:
            if not done.is_set():
                sys.stderr.write("the main process of this run has ended\n")
                sys.stderr.flush()
            failed = True
        if failed and not done.is_set():
            elsewhere.set()
            if not done.wait(_LAST_WORDS):
                os._exit(FAILED_ELSEWHERE)
            return  # this process has just ended by itself
        if stopped or not any(map(_gone, peers)):
            missing_since = None
        elif missing_since is None:
            missing_since = time.monotonic()
        elif time.monotonic() - missing_since > _UNNOTICED and not done.is_set():
            os._exit(FAILED_ELSEWHERE)


def _wait_for_stops(store: Any, ranks: Sequence[int]) -> None:
    """Wait until every process has stopped or is gone: they lose the store with this one."""

    def stopping(rank: int) -> bool:
        number = _NUMBER.format(rank)
        # One that is still starting has no number, and `get` would wait for it.
        return not store.check([_STOPPED.format(rank)]) and (
            store.check([number]) and not _gone(store.get(number).decode())
        )

    deadline = time.monotonic() + _SLOWEST_STOP
    while any(map(stopping, ranks)) and time.monotonic() < deadline:
        time.sleep(_LOOK / 10)


def _own_number() -> str:
    """Identifies this process by its machine, namespace, id and start time."""
    return f"{_place()} {os.getpid()} {process_start(os.getpid())}"


def _gone(number: str) -> bool:
    """Whether a process of this machine has exited; False if it is not visible from here."""
    place, pid, start = number.rsplit(" ", 2)
    return place == _place() and str(process_start(int(pid))) != start


def _place() -> str:
    """The scope of process ids: a running kernel and a PID namespace."""
    try:
        return f"{_BOOT.read_text('ascii').strip()} {_NAMESPACE.stat().st_ino}"
    except OSError:  # a sandbox hides them: then no process is checked
        return uuid4().hex
