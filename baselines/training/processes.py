"""The processes of a run: their setup, and ending all of them if one fails."""

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
from baselines.learning.sharding import configure_sharding
from tasks.errors import UserError

_LONGEST: Final = timedelta(days=1)
"""Timeout of a collective: processes that finish early wait for the others."""
_BROKEN: Final = ("Connection closed by peer", "Connection reset by peer", "Broken pipe")
"""What collectives say whose other end is gone."""
_LOOK: Final = 1.0
"""Seconds between two looks at whether another process has failed."""
_LAST_WORDS: Final = 10.0
"""Seconds that a failed process has to say why, before the others end by themselves."""
_UNNOTICED: Final = 20.0
"""Seconds after which a process that is gone ends the others, if nothing else has: collectives of
gloo notice it, those of NCCL wait on."""
_FAILED: Final = "arlarena/failed"
_STOPPED: Final = "arlarena/stopped"
_NUMBER: Final = "arlarena/process/{}"
"""Where each process leaves how it is found on its machine."""
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE: Final = Path("/proc/self/ns/pid")
FAILED_ELSEWHERE: Final = 70
"""Exit code of a process that ends because another one has failed."""


def make_accelerator(run: TrainingRun) -> Accelerator:
    """The processes and devices of a run.

    Raises:
        UserError: A launcher was asked for several processes and has started one, or shards in a
            way that is not supported.
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
    """Notice accelerate's launcher for one process where it was asked for several on CPUs.

    It has none for several, and sets the rendezvous of several all the same.

    Raises:
        UserError: So it is.
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
    """Within it, an error of one process ends all of them, and one of them says why.

    The others may stand in a collective, where nothing of Python's can reach them, and would wait
    for a day. So each has a thread that looks whether another one has failed, and then ends the
    process without a word. That comes after the failed one's own end: a launcher ends all as soon
    as one has ended, and the message would be lost. The thread also looks whether another process
    of this machine is gone: one that was killed tells nobody, NCCL does not notice it, and a
    launcher's SIGTERM does not reach those that wait for it.

    Raises:
        UserError: Another process has vanished.
    """
    if accelerator.num_processes == 1:
        yield
        return
    # The rendezvous; a connection of its own, since the main thread may be waiting on the other.
    # torch's stubs lack it.
    store: Any = dist.distributed_c10d._get_default_store()
    store = store.clone()
    store.set(_NUMBER.format(accelerator.process_index), _own_number())
    numbers = [_NUMBER.format(rank) for rank in range(accelerator.num_processes)]
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
            os._exit(FAILED_ELSEWHERE)
        if isinstance(error, asyncio.CancelledError):
            # Asked to stop, as all are; some take longer to end.
            with suppress(RuntimeError):
                store.set(_STOPPED, "")
            raise
        done.set()
        thread.join()
        with suppress(RuntimeError):
            if store.add(_FAILED, 1) > 1:
                # Another process was the first and says why, if the launcher lets it.
                time.sleep(_LAST_WORDS)
                os._exit(FAILED_ELSEWHERE)
            # The others must know it first: an error of theirs about broken connections would be
            # noise.
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
    """End the process after another one has failed, which is noted in `elsewhere`, or is gone."""
    peers: list[str] = []
    missing_since: float | None = None
    stopped = False
    while not done.wait(_LOOK):
        try:
            failed = store.check([_FAILED])
            if not peers and store.check(list(numbers)):
                peers = [store.get(number).decode() for number in numbers]
            stopped = store.check([_STOPPED])
        except RuntimeError:
            if not done.is_set():
                sys.stderr.write("the main process of this run has ended\n")
                sys.stderr.flush()
            failed = True
        if failed and not done.is_set():
            elsewhere.set()
            done.wait(_LAST_WORDS)
            os._exit(FAILED_ELSEWHERE)
        if stopped or not any(map(_gone, peers)):
            missing_since = None
        elif missing_since is None:
            missing_since = time.monotonic()
        elif time.monotonic() - missing_since > _UNNOTICED and not done.is_set():
            os._exit(FAILED_ELSEWHERE)


def _own_number() -> str:
    """What names this process: its machine, name space, number and start."""
    return f"{_place()} {os.getpid()} {process_start(os.getpid())}"


def _gone(number: str) -> bool:
    """Whether a process of this machine has ended; one that cannot be seen from here has not."""
    place, pid, start = number.rsplit(" ", 2)
    return place == _place() and str(process_start(int(pid))) != start


def _place() -> str:
    """Where process numbers mean the same: a running kernel, and a name space of it."""
    try:
        return f"{_BOOT.read_text('ascii').strip()} {_NAMESPACE.stat().st_ino}"
    except OSError:  # a sandbox that hides them: then no process is looked for
        return uuid4().hex
