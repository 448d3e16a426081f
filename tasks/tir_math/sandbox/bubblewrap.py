"""The default sandbox: programs run in Linux namespaces made by bubblewrap.

See README.md beside this file for what is contained and how.
"""

import shutil
import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor

from tasks.errors import UserError
from tasks.tir_math.sandbox.base import LIMITS, Execution, Limits, Sandbox, SandboxError
from tasks.tir_math.sandbox.forkserver import ZygoteProcess
from tasks.tir_math.sandbox.layout import versions

_OTHERWISE = (
    "or choose another way: --set tir_math.sandbox=http (a server runs the programs), or "
    "--set tir_math.sandbox=unsafe (they run WITHOUT isolation)"
)


class BubblewrapSandbox(Sandbox):
    """Keeps zygotes warm, each of which runs one program at a time.

    They are started when they are needed. One that fails is ended and another takes its place.

    Args:
        warm: Zygotes at most; so many programs run at a time, and other callers wait.
        limits: What a program may take.
        bubblewrap: Path of bubblewrap's program; None to look for it.

    Raises:
        UserError: There is no bubblewrap, or it, the kernel or this installation of Python does
            not do what is needed.
    """

    def __init__(
        self, warm: int = 1, limits: Limits = LIMITS, bubblewrap: str | None = None
    ) -> None:
        if warm < 1:
            raise UserError(f"a sandbox needs at least one warm process, not {warm}")
        self._bubblewrap = bubblewrap or find_bubblewrap()
        self._limits = limits
        try_out(self._bubblewrap, limits)
        self._warm = warm
        self._zygotes: set[ZygoteProcess] = set()
        self._idle: list[ZygoteProcess] = []
        self._taken = 0
        self._closed = False
        self._changed = threading.Condition()
        # Zygotes end with the thread that started them, so it must not be a caller's.
        self._starter = ThreadPoolExecutor(warm, "sandbox-starter")

    def run(self, code: str, fresh: bool = False) -> Execution:
        """Run a program in a warm zygote, or in a new one; waits for one that is free."""
        zygote = self._take()
        if zygote is None:
            zygote = self._start()
        elif fresh:
            zygote = self._renewed(zygote)
        healthy = False
        try:
            execution = zygote.run(code)
            healthy = True
        finally:
            self._give_back(zygote, healthy)
        return execution

    def describe(self) -> Mapping[str, str]:
        """Kind, versions and limits."""
        return {"kind": "bubblewrap", **versions(), "limits": str(self._limits)}

    def close(self) -> None:
        """End all zygotes."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            for zygote in self._zygotes:
                zygote.kill()
            self._changed.wait_for(lambda: self._taken == 0)
            for zygote in self._zygotes:
                zygote.stop()
            self._zygotes.clear()
            self._idle.clear()
        self._starter.shutdown()

    def _take(self) -> ZygoteProcess | None:
        """A free zygote, or the right to start one."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._taken < self._warm)
            if self._closed:
                raise SandboxError("the sandbox is closed")
            self._taken += 1
            while self._idle:
                zygote = self._idle.pop()
                if zygote.alive:
                    return zygote
                self._zygotes.discard(zygote)
                zygote.stop()
        return None

    def _start(self) -> ZygoteProcess:
        future: Future[ZygoteProcess] | None = None
        try:
            future = self._starter.submit(ZygoteProcess, self._bubblewrap, self._limits)
            zygote = future.result()
        except BaseException:
            if future is not None:
                future.add_done_callback(_abandon)
            with self._changed:
                self._taken -= 1
                self._changed.notify_all()
            raise
        with self._changed:
            self._zygotes.add(zygote)
            if self._closed:
                zygote.kill()
        return zygote

    def _renewed(self, zygote: ZygoteProcess) -> ZygoteProcess:
        """Replace a zygote with another."""
        with self._changed:
            self._zygotes.discard(zygote)
        zygote.stop()
        return self._start()

    def _give_back(self, zygote: ZygoteProcess, healthy: bool) -> None:
        with self._changed:
            self._taken -= 1
            if healthy:
                self._idle.append(zygote)
            else:
                self._zygotes.discard(zygote)
                zygote.stop()
            self._changed.notify_all()


def _abandon(future: Future[ZygoteProcess]) -> None:
    if not future.cancelled() and future.exception() is None:
        future.result().stop()


def find_bubblewrap() -> str:
    """The path of bubblewrap's program.

    Raises:
        UserError: It is not installed.
    """
    path = shutil.which("bwrap")
    if path is None:
        raise UserError(
            "the sandbox needs bubblewrap, but bwrap is not installed; install it "
            f"(Debian: apt-get install bubblewrap), {_OTHERWISE}"
        )
    return path


def try_out(bubblewrap: str, limits: Limits) -> None:
    """Run an empty program in a sandbox without libraries.

    Args:
        bubblewrap: Path of bubblewrap's program.
        limits: What a program may take.

    Raises:
        UserError: It does not run.
    """
    versions()
    try:
        zygote = ZygoteProcess(bubblewrap, limits, modules=())
        try:
            execution = zygote.run("")
        finally:
            zygote.stop()
    except (SandboxError, OSError) as error:
        raise UserError(
            f"the sandbox does not start ({error}): bubblewrap 0.4 or newer must be "
            "allowed to create user, process and mount namespaces; see the sysctls "
            "user.max_user_namespaces, kernel.unprivileged_userns_clone and "
            "kernel.apparmor_restrict_unprivileged_userns (in a container, its "
            f"security profile), {_OTHERWISE}"
        ) from error
    if execution.status != "ok":
        raise UserError(
            "the sandbox starts, but cannot run an empty program "
            f"({execution.status}: {execution.stderr.strip()[-200:]}); the limits may "
            "be too low for this interpreter"
        )
