"""The system calls that a program may make, as a kernel filter.

What a mathematical program needs is allowed and everything else refused: no new processes or
programs, no sockets, no mounts, no namespaces, no tracing, no shared memory outside of the limit on
memory, no keys, and nothing that the kernel learns in the future.

Programs share the kernel and, read-only, the files under the interpreter. Calls that change what
all of them see, or that answer with it (page cache, locks, waiting threads, free memory or disk
space, numbers that count up for the whole machine), are refused, or answered as by a kernel that
lacks them. How long a call takes stays visible.

A filter is a classic BPF program over `struct seccomp_data` (`man 2 seccomp`): number of the call,
architecture, and arguments.
"""

import struct
from dataclasses import dataclass
from typing import Literal

# Name, number on x86_64, number on aarch64 (`-`: the call does not exist there), as in the kernel's
# arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h. Above each group:
# why it says nothing of other programs.
#
# Not in it: `pipe` (numbers of pipes count up for the machine, and their memory comes out of a
# budget of the user), `getrusage` (what was read from the disk), `sysinfo` (memory, processes).
_ALLOWED = " ".join(
    (
        # Contents of files: shared ones never change, those in /tmp are the program's own, and the
        # devices hold nothing. Waits for the disk, and so shows the page cache only in time.
        "read:0:63 write:1:64 readv:19:65 writev:20:66 pread64:17:67 pwrite64:18:68 preadv:295:69",
        "pwritev:296:70 open:2:- openat:257:56 creat:85:- close:3:57 close_range:436:436",
        "lseek:8:62 sendfile:40:71 copy_file_range:326:285 fsync:74:82 fdatasync:75:83",
        "truncate:76:45 ftruncate:77:46 fallocate:285:47",
        # Names and attributes: read-only mounts do not even note when a file was read. The device
        # number of /tmp is given before the program starts (README, remaining risks).
        "stat:4:- lstat:6:- fstat:5:80 newfstatat:262:79 access:21:- faccessat:269:48",
        "faccessat2:439:439 readlink:89:- readlinkat:267:78 getdents:78:- getdents64:217:61",
        "getxattr:191:8 lgetxattr:192:9 fgetxattr:193:10 listxattr:194:11 llistxattr:195:12",
        "flistxattr:196:13",
        # Changes of folders: only the program's own /tmp can be written.
        "getcwd:79:17 chdir:80:49 fchdir:81:50 mkdir:83:- mkdirat:258:34 rmdir:84:- unlink:87:-",
        "unlinkat:263:35 rename:82:- renameat:264:38 renameat2:316:276 link:86:- linkat:265:37",
        "symlink:88:- symlinkat:266:36 umask:95:166",
        # Descriptors and events: of this process; an eventfd has no number of its own.
        "dup:32:23 dup2:33:- dup3:292:24 poll:7:- ppoll:271:73 select:23:- pselect6:270:72",
        "epoll_create:213:- epoll_create1:291:20 epoll_ctl:233:21 epoll_wait:232:-",
        "epoll_pwait:281:22 epoll_pwait2:441:441 eventfd:284:- eventfd2:290:19",
        # Memory: of this process, under its own limit; what is resident is not told.
        "munmap:11:215 mremap:25:216 mprotect:10:226 msync:26:227 brk:12:214",
        # Threads: of this process. A list of robust futexes can wake waiters on a shared page, but
        # none can wait there. The processor (getcpu) shows load only, as the time does.
        "membarrier:324:283 set_robust_list:273:99 get_robust_list:274:100 rseq:334:293",
        "set_tid_address:218:96 restart_syscall:219:128 sched_yield:24:124",
        "sched_getaffinity:204:123 getcpu:309:168 gettid:186:178 exit:60:93 exit_group:231:94",
        # Signals: to processes of its own namespace, where it is alone.
        "rt_sigaction:13:134 rt_sigprocmask:14:135 rt_sigpending:127:136 rt_sigreturn:15:139",
        "rt_sigsuspend:130:133 rt_sigtimedwait:128:137 sigaltstack:131:132 kill:62:129",
        "tkill:200:130 tgkill:234:131 alarm:37:- setitimer:38:103 getitimer:36:102 pause:34:-",
        # Clocks: the same for all; those of processes only for its own.
        "nanosleep:35:101 clock_nanosleep:230:115 clock_gettime:228:113 clock_getres:229:114",
        "gettimeofday:96:169 time:201:- times:100:153",
        # Identity, children (none) and limits: fixed, or its own, numbered in its own namespace.
        "wait4:61:260 waitid:247:95 getpid:39:172 getppid:110:173 getpgrp:111:- getpgid:121:155",
        "getsid:124:156 getuid:102:174 geteuid:107:175 getgid:104:176 getegid:108:177",
        "getresuid:118:148 getresgid:120:150 getgroups:115:158 capget:125:90 getpriority:140:141",
        "getrlimit:97:163 setrlimit:160:164 prlimit64:302:261 uname:63:160",
        # Random numbers: no state is shown.
        "getrandom:318:278",
    )
)

_MISSING = """
clone3:435:435 openat2:437:437 statx:332:291 statfs:137:43 fstatfs:138:44 futex_waitv:449:449
"""
"""Calls that are answered as by a kernel that lacks them, for which libraries have another way.

`clone3` and `futex_waitv` have their flags in memory, where a filter cannot see them. `openat2`
tells which names are cached, `statx` how many mounts there are and were, `statfs` how full the disk
is."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """What is different from one architecture to the next.

    Attributes:
        audit: Its number in `seccomp_data.arch` (AUDIT_ARCH_*).
        column: Its column in the table of calls.
        clone: Number of the call; others likewise.
    """

    audit: int
    column: Literal[1, 2]
    clone: int
    prctl: int
    ioctl: int
    fcntl: int
    madvise: int
    futex: int
    mmap: int


MACHINES = {
    "x86_64": Architecture(
        0xC000003E, 1, clone=56, prctl=157, ioctl=16, fcntl=72, madvise=28, futex=202, mmap=9
    ),
    "aarch64": Architecture(
        0xC00000B7, 2, clone=220, prctl=167, ioctl=29, fcntl=25, madvise=233, futex=98, mmap=222
    ),
}

EPERM, EAGAIN, ENOSYS = 1, 11, 38
ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000

_NEWEST = 451
"""Calls with higher numbers are answered as by a kernel that lacks them, so that libraries do
without; they include the second set of calls of x86_64 (x32)."""

_CLONE_THREAD = 0x00010000
_CLONE_NEW = 0x7E020000
"""All flags of `clone` that make a namespace."""
_PRCTL = (15, 16)
"""PR_SET_NAME, PR_GET_NAME."""
_IOCTL = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""TCGETS (is it a terminal?), TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX."""

_FCNTL = (0, 1, 2, 3, 4, 1030)
"""F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC: none that locks a file, asks for a
lease, is told of what others do (F_NOTIFY, F_SETSIG, F_SETOWN), or shows or takes from the user's
budget for pipes (F_SETPIPE_SZ, F_GETPIPE_SZ)."""
_MADVISE = (0, 4, 14, 15, 16, 17)
"""MADV_NORMAL, DONTNEED, HUGEPAGE, NOHUGEPAGE, DONTDUMP, DODUMP: none that reads or drops pages of
a file for all (WILLNEED, COLD, PAGEOUT, POPULATE_READ), or that shows whether the machine was short
of memory (FREE)."""
_FUTEX_PRIVATE = 0x80
"""Without this flag a futex in a page of a shared file is the same one for all programs, and waking
tells how many wait. EAGAIN stands for "the value has changed": `pthread_join`, which waits without
the flag, asks again until the thread has ended."""
_MAP_HUGETLB = 0x40000
"""Huge pages are few, and for all."""

_NUMBER, _ARCHITECTURE, _FIRST, _SECOND, _THIRD, _FOURTH = 0, 4, 16, 24, 32, 40
"""Offsets in `struct seccomp_data`; of arguments the low half."""


def allowed_calls(machine: str) -> dict[str, int]:
    """Numbers of the calls that are allowed with any arguments, by name."""
    return _numbers(_ALLOWED, machine)


def missing_calls(machine: str) -> dict[str, int]:
    """Numbers of the calls that are answered as by a kernel without them, by name."""
    return _numbers(_MISSING, machine)


def filter_program(machine: str) -> bytes:
    """The filter as an array of `struct sock_filter`.

    Args:
        machine: A key of `MACHINES`, as `platform.machine()` gives it.
    """
    here = MACHINES[machine]
    code = [
        *_load(_ARCHITECTURE),
        *_unless_equal(here.audit, KILL),
        *_load(_NUMBER),
        _instruction(0x25, 0, 1, _NEWEST),  # greater than
        _instruction(0x06, 0, 0, ERRNO | ENOSYS),
    ]
    for number in missing_calls(machine).values():
        code += _if_equal(number, ERRNO | ENOSYS)
    for number in allowed_calls(machine).values():
        code += _if_equal(number, ALLOW)
    code += _with_argument(
        here.futex, [*_load(_SECOND), *_if_any(_FUTEX_PRIVATE, ALLOW), _return(ERRNO | EAGAIN)]
    )
    code += _with_argument(
        here.mmap,
        [*_load(_FOURTH), *_if_any(_MAP_HUGETLB, ERRNO | EPERM), _return(ALLOW)],
    )
    code += _with_argument(
        here.clone,
        [
            *_load(_FIRST),
            _instruction(0x54, 0, 0, _CLONE_THREAD | _CLONE_NEW),  # and
            *_if_equal(_CLONE_THREAD, ALLOW),
        ],
    )
    for number, offset, values in (
        (here.prctl, _FIRST, _PRCTL),
        (here.ioctl, _SECOND, _IOCTL),
        (here.fcntl, _SECOND, _FCNTL),
        (here.madvise, _THIRD, _MADVISE),
    ):
        tests = [one for value in values for one in _if_equal(value, ALLOW)]
        code += _with_argument(number, [*_load(offset), *tests])
    return b"".join([*code, _return(ERRNO | EPERM)])


def _numbers(table: str, machine: str) -> dict[str, int]:
    column = MACHINES[machine].column
    rows = (row.split(":") for row in table.split())
    return {row[0]: int(row[column]) for row in rows if row[column] != "-"}


def _instruction(code: int, if_true: int, if_false: int, operand: int) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, operand)


def _load(offset: int) -> list[bytes]:
    return [_instruction(0x20, 0, 0, offset)]


def _return(action: int) -> bytes:
    return _instruction(0x06, 0, 0, action)


def _if_equal(value: int, action: int) -> list[bytes]:
    return [_instruction(0x15, 0, 1, value), _return(action)]


def _if_any(bits: int, action: int) -> list[bytes]:
    """Whether one of these bits is set."""
    return [_instruction(0x45, 0, 1, bits), _return(action)]


def _unless_equal(value: int, action: int) -> list[bytes]:
    return [_instruction(0x15, 1, 0, value), _return(action)]


def _with_argument(number: int, tests: list[bytes]) -> list[bytes]:
    """Tests of an argument of one call, which is refused if none of them returns."""
    body = [*tests, _return(ERRNO | EPERM)]
    return [_instruction(0x15, 0, len(body), number), *body]
