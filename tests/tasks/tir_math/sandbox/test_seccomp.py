"""The system call filter, run by a small interpreter of its machine language."""

import platform
import struct

import pytest

from tasks.tir_math.sandbox.seccomp import (
    ALLOW,
    EAGAIN,
    ENOSYS,
    EPERM,
    ERRNO,
    KILL,
    MACHINES,
    allowed_calls,
    filter_program,
    missing_calls,
)

FCNTL = (5, 6, 7, 8, 10, 36, 37, 38, 1024, 1026, 1031, 1032)
"""Locks, leases, notifications, pipe sizes."""
X86_64, AARCH64 = 0xC000003E, 0xC00000B7


def decide(program: bytes, number: int, architecture: int, *arguments: int) -> int:
    """The filter's answer to a call."""
    padded = (*arguments, 0, 0, 0, 0, 0, 0)[:6]
    data = struct.pack("=IIQ6Q", number, architecture, 0, *padded)
    instructions = list(struct.iter_unpack("=HBBI", program))
    accumulator: int = 0
    position = 0
    while True:
        code, if_true, if_false, operand = instructions[position]
        position += 1
        match code:
            case 0x20:
                (accumulator,) = struct.unpack_from("=I", data, operand)
            case 0x54:
                accumulator &= operand
            case 0x15:
                position += if_true if accumulator == operand else if_false
            case 0x45:
                position += if_true if accumulator & operand else if_false
            case 0x25:
                position += if_true if accumulator > operand else if_false
            case 0x06:
                return int(operand)
            case _:
                raise AssertionError(f"instruction {code:#x}")


@pytest.mark.parametrize(
    ("call", "arguments", "action"),
    [
        (0, (), ALLOW),  # read
        (1, (), ALLOW),  # write
        (257, (), ALLOW),  # openat
        (318, (), ALLOW),  # getrandom
        *((call, (), ERRNO | ENOSYS) for call in (437, 332, 137, 138, 449)),  # openat2 to waitv
        *((call, (), ERRNO | EPERM) for call in (22, 293, 98, 99)),  # pipe, getrusage, sysinfo
        *((202, (0, op | 0x80), ALLOW) for op in (0, 1, 9)),  # futex within the process
        *((202, (0, op), ERRNO | EAGAIN) for op in (0, 1, 3, 4, 9, 10, 0x109)),  # with others
        (9, (0, 4096, 3, 0x22), ALLOW),  # mmap
        (9, (0, 4096, 3, 0x40022), ERRNO | EPERM),  # of huge pages
        (57, (), ERRNO | EPERM),  # fork
        (58, (), ERRNO | EPERM),  # vfork
        (59, (), ERRNO | EPERM),  # execve
        (322, (), ERRNO | EPERM),  # execveat
        (41, (), ERRNO | EPERM),  # socket
        (53, (), ERRNO | EPERM),  # socketpair
        (101, (), ERRNO | EPERM),  # ptrace
        (165, (), ERRNO | EPERM),  # mount
        (272, (), ERRNO | EPERM),  # unshare
        (308, (), ERRNO | EPERM),  # setns
        (317, (), ERRNO | EPERM),  # seccomp
        (319, (), ERRNO | EPERM),  # memfd_create
        (425, (), ERRNO | EPERM),  # io_uring_setup
        (435, (), ERRNO | ENOSYS),  # clone3
        (452, (), ERRNO | ENOSYS),  # newer than the table
        (0x40000000, (), ERRNO | ENOSYS),  # x32
        (2**32 - 1, (), ERRNO | ENOSYS),
        (56, (0x3D0F00,), ALLOW),  # clone as for a thread
        (56, (17,), ERRNO | EPERM),  # clone as for a process
        (56, (0x3D0F00 | 0x10000000,), ERRNO | EPERM),  # with a new user namespace
        (56, (0x3D0F00 | 0x00020000,), ERRNO | EPERM),  # with a new mount namespace
        (157, (15,), ALLOW),  # prctl: name of a thread
        (157, (22, 2), ERRNO | EPERM),  # prctl: filter
        (157, (0x10000000F + 7,), ERRNO | EPERM),
        (16, (1, 0x5401), ALLOW),  # ioctl: is it a terminal?
        (16, (0x5401, 0x5412), ERRNO | EPERM),  # ioctl: type into a terminal
        (72, (3, 1030), ALLOW),  # fcntl: duplicate a descriptor
        *((72, (3, call), ERRNO | EPERM) for call in FCNTL),
        (28, (0, 4096, 4), ALLOW),  # madvise: give memory back
        *((28, (0, 4096, advice), ERRNO | EPERM) for advice in (3, 8, 20, 21, 22)),
        *((call, (), ERRNO | EPERM) for call in (27, 73, 221, 327, 328)),  # mincore to pwritev2
    ],
)
def test_calls_on_x86_64(call: int, arguments: tuple[int, ...], action: int) -> None:
    assert decide(filter_program("x86_64"), call, X86_64, *arguments) == action


@pytest.mark.parametrize(
    ("call", "arguments", "action"),
    [
        (63, (), ALLOW),  # read
        (56, (), ALLOW),  # openat
        (222, (), ALLOW),  # mmap
        (79, (), ALLOW),  # newfstatat
        (221, (), ERRNO | EPERM),  # execve
        (198, (), ERRNO | EPERM),  # socket
        (117, (), ERRNO | EPERM),  # ptrace
        (279, (), ERRNO | EPERM),  # memfd_create
        *((call, (), ERRNO | ENOSYS) for call in (437, 291, 43, 44, 449)),  # openat2 to waitv
        *((call, (), ERRNO | EPERM) for call in (59, 165, 179)),  # pipe2, getrusage, sysinfo
        (98, (0, 0x89), ALLOW),  # futex within the process
        (98, (0, 1), ERRNO | EAGAIN),  # with others
        (222, (0, 4096, 3, 0x40022), ERRNO | EPERM),  # mmap of huge pages
        (220, (0x3D0F00,), ALLOW),  # clone as for a thread
        (220, (17,), ERRNO | EPERM),  # clone as for a process
        (435, (), ERRNO | ENOSYS),  # clone3
    ],
)
def test_calls_on_aarch64(call: int, arguments: tuple[int, ...], action: int) -> None:
    assert decide(filter_program("aarch64"), call, AARCH64, *arguments) == action


def test_calls_of_another_architecture_end_the_program() -> None:
    for other in (0x40000003, AARCH64, 0, X86_64 & 0x7FFFFFFF):  # the first: 32-bit x86
        assert decide(filter_program("x86_64"), 0, other) == KILL
    assert decide(filter_program("aarch64"), 63, X86_64) == KILL


def test_exactly_the_table_is_allowed() -> None:
    for machine, details in MACHINES.items():
        program, numbers = filter_program(machine), set(allowed_calls(machine).values())
        by_argument = {details.clone, details.prctl, details.ioctl, details.fcntl, details.madvise}
        for number in range(1200):
            action = decide(program, number, details.audit)
            # With zeros: F_DUPFD, MADV_NORMAL, no huge pages.
            allowed = numbers | {details.fcntl, details.madvise, details.mmap}
            assert (action == ALLOW) == (number in allowed), (machine, number)
        by_argument |= {details.futex, details.mmap}
        assert not numbers & (by_argument | set(missing_calls(machine).values()))
        assert len(numbers) == len(allowed_calls(machine))
        assert len(program) // 8 <= 4096  # the kernel's limit


def test_this_machine_is_known() -> None:
    assert platform.machine() in MACHINES
