"""The process inside the sandbox that programs are forked from: `python zygote.py SOCKET CONFIG`.

It has imported the libraries, so that a program need not wait for that, and it serves one program
at a time. It never reads a program nor what one prints: it passes file descriptors on. So one
program leaves nothing in its memory for the next.

This file runs alone, seeing nothing of the project: only the standard library is imported. CONFIG
is JSON: `modules` (to import), `limits` (fields of `Limits`), `filter` (BPF, base64), `prelude`
(source).

Messages on the socket (SOCK_SEQPACKET):
- to it: `run` with three descriptors (program, standard output, standard error), and `kill`;
- from it: `{"ready": true}` once, then per run `{"status", "cpu_s", "threads"}` (wait status,
  seconds of processor time, whether there were too many threads) or `{"failed": why}`.
The end of the socket is the end of the process, and with it of everything in the sandbox.
"""

import _sitebuiltins
import atexit
import base64
import builtins
import ctypes
import gc
import importlib
import json
import os
import random
import resource
import select
import signal
import socket
import sys
import threading
import traceback
import types
from pathlib import Path
from typing import Any, NoReturn

_CLONE_NEWNS, _CLONE_NEWPID = 0x00020000, 0x20000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 1, 2, 4, 8
_MS_PRIVATE_ALL = (1 << 18) | (1 << 14)
_PR_SET_SECCOMP, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 22, 24, 38, 47
_CAP_VERSION_3 = 0x20080522
_EINVAL = 22
_MOST_DESCRIPTORS = 65536
_MEMORY_TO_FAIL = 16 * 2**20
"""Bytes of the limit on memory that are kept back for the traceback."""
_WATCH_MS = 20
"""How often the threads of a program are counted."""

_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: Any) -> None:
    if getattr(_libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


class Zygote:
    """Forks a child for every program and watches it."""

    def __init__(self, channel: socket.socket, config: dict[str, Any]) -> None:
        self.channel = channel
        self.limits: dict[str, Any] = config["limits"]
        self.filter: bytes = base64.b64decode(config["filter"])
        self.prelude: str = config["prelude"]
        self.null = os.open("/dev/null", os.O_RDONLY)
        self.own_processes = os.open("/proc/self/ns/pid", os.O_RDONLY)

    def serve(self) -> None:
        """Run programs until the other side is gone."""
        while True:
            message, descriptors, _, _ = socket.recv_fds(self.channel, 16, 3)
            if not message:
                return
            if message == b"run":  # else: to kill a program that has ended by itself
                self._run(descriptors)

    def _run(self, descriptors: list[int]) -> None:
        setup, childs_setup = os.pipe()
        # From the own namespace, or the new one would lie in that of the last program.
        _call("setns", self.own_processes, _CLONE_NEWPID)
        _call("unshare", _CLONE_NEWPID)
        child = os.fork()
        if child == 0:
            self._become_program(descriptors, childs_setup)
        for descriptor in (*descriptors, childs_setup):
            os.close(descriptor)
        with os.fdopen(setup, "rb") as file:
            failure = file.read(1000)  # its end comes before the program's first step
        status, cpu_s, threads = self._watch(child)
        if failure:
            answer: dict[str, Any] = {"failed": failure.decode(errors="replace")}
        else:
            answer = {"status": status, "cpu_s": cpu_s, "threads": threads}
        self.channel.send(json.dumps(answer).encode())

    def _watch(self, child: int) -> tuple[int, float, bool]:
        """Wait for the end of a child, or bring it about."""
        handle = os.pidfd_open(child)
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        poll.register(self.channel, select.POLLIN)
        crowded = False
        while True:
            ready = [descriptor for descriptor, _ in poll.poll(_WATCH_MS)]
            if handle in ready:
                break
            if ready:
                if not self.channel.recv(16):
                    os._exit(0)  # nobody waits for the result
                os.kill(child, signal.SIGKILL)
            elif not crowded and _threads(child) > self.limits["threads"]:
                crowded = True
                os.kill(child, signal.SIGKILL)
        os.close(handle)
        _, status, usage = os.wait4(child, 0)
        return status, usage.ru_utime + usage.ru_stime, crowded

    def _become_program(self, descriptors: list[int], setup: int) -> NoReturn:
        """In the child: lock the door, then run the program."""
        try:
            program, stdout, stderr = descriptors
            with os.fdopen(program, "rb", closefd=False) as file:
                source = file.read()
            # Else its process group, which it can signal, is also this process's.
            os.setsid()
            self._hide_files()
            for theirs, number in ((self.null, 0), (stdout, 1), (stderr, 2)):
                os.dup2(theirs, number)
            self._limit()
            _drop_rights()
            _refuse_calls(self.filter)
        except BaseException as error:
            os.write(setup, f"{type(error).__name__}: {error}"[:500].encode())
            os._exit(1)
        self.channel.detach()
        os.closerange(3, _MOST_DESCRIPTORS)
        _run_program(source, self.prelude)

    def _hide_files(self) -> None:
        """A private /tmp, and nothing in /proc."""
        _call("unshare", _CLONE_NEWNS)
        _call("mount", None, b"/", None, _MS_PRIVATE_ALL, None)
        flags = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
        size = f"size={self.limits['disk_bytes']},nr_inodes={self.limits['inodes']},mode=0700"
        _call("mount", b"tmpfs", b"/tmp", b"tmpfs", flags, size.encode())
        nothing = b"size=4096,nr_inodes=1,mode=0555"
        _call("mount", b"tmpfs", b"/proc", b"tmpfs", flags | _MS_RDONLY, nothing)
        os.chdir("/tmp")  # noqa: S108

    def _limit(self) -> None:
        memory = self.limits["memory_bytes"]
        resource.setrlimit(resource.RLIMIT_AS, (memory - _MEMORY_TO_FAIL, memory))
        for kind, value in (
            (resource.RLIMIT_CPU, self.limits["cpu_s"]),
            (resource.RLIMIT_FSIZE, self.limits["file_bytes"]),
            (resource.RLIMIT_NOFILE, self.limits["open_files"]),
            (resource.RLIMIT_STACK, 8 * 2**20),
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_MEMLOCK, 0),
            (resource.RLIMIT_MSGQUEUE, 0),
            (resource.RLIMIT_SIGPENDING, 64),  # waiting signals come out of the user's budget
        ):
            resource.setrlimit(kind, (value, value))


def _threads(process: int) -> int:
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return 0  # it has just ended
    return int(text.rpartition(")")[2].split()[17])


def _drop_rights() -> None:
    """Give up all capabilities for good."""
    capability = 0
    while _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) == 0:
        capability += 1
    if ctypes.get_errno() != _EINVAL:  # else: there are no more
        raise OSError(ctypes.get_errno(), "the capabilities cannot be given up")
    _call("prctl", _PR_CAP_AMBIENT, 4, 0, 0, 0)  # clear all
    header = (ctypes.c_uint32 * 2)(_CAP_VERSION_3, 0)
    _call("capset", header, (ctypes.c_uint32 * 6)())


def _refuse_calls(program: bytes) -> None:
    class Filter(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))

    _call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _call("prctl", _PR_SET_SECCOMP, 2, ctypes.byref(Filter(len(program) // 8, program)), 0, 0)


def _run_program(source: bytes, prelude: str) -> NoReturn:
    """Run a program as the interpreter would run a file."""
    leave = os._exit  # programs can set names of modules to other things
    code = 1
    try:
        gc.enable()
        random.seed(0)  # the module takes a new seed after a fork
        main = types.ModuleType("__main__")
        main.__dict__["__builtins__"] = builtins
        sys.modules["__main__"] = main
        exec(prelude, main.__dict__)  # noqa: S102 - what this file is for
        code = _exit_code_of(source, main.__dict__)
        _finish()
    finally:
        leave(code)


def _exit_code_of(source: bytes, names: dict[str, Any]) -> int:
    try:
        # Lone surrogates are refused by the compiler, in the words that programs know.
        text = source.decode("utf-8", "surrogatepass")
        exec(compile(text, "<program>", "exec", dont_inherit=True), names)  # noqa: S102
    except SystemExit as error:
        return _exit_code(error.code)
    except BaseException as error:
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))  # out of memory is told, too
        own = error.__traceback__
        traceback.print_exception(type(error), error, own.tb_next if own else None)
        return 1
    return 0


def _exit_code(code: Any) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    sys.stderr.write(f"{code}\n")
    return 1


def _finish() -> None:
    """What the interpreter does at its end, as far as a program can see it."""
    threading._shutdown()  # type: ignore[attr-defined] # waits for threads
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()


def _prepare(modules: list[str]) -> None:
    """Import the libraries and put the interpreter into the state that programs find."""
    sys.path[:] = [*(entry for entry in sys.path if entry), "/packages"]
    for name in modules:
        importlib.import_module(name)
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed(0)
    if "sympy.core.random" in sys.modules:
        sys.modules["sympy.core.random"].seed(0)
    # Without `site`, which looks for packages of the user, they are missing.
    for name in ("exit", "quit"):
        setattr(builtins, name, _sitebuiltins.Quitter(name, "Ctrl-D (i.e. EOF)"))
    builtins.help = _sitebuiltins._Helper()
    sys.argv[:] = sys.orig_argv[:] = ["program.py"]
    gc.collect()
    gc.freeze()  # children share these pages, and do not find the objects
    gc.disable()


def main() -> None:
    """Serve on the socket that the first argument names."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    config = json.loads(sys.argv[2])
    zygote = Zygote(channel, config)
    _prepare(config["modules"])
    channel.send(json.dumps({"ready": True}).encode())
    zygote.serve()


if __name__ == "__main__":
    main()
