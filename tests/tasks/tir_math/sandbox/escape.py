"""Definition of a malicious program for the escape suite.

Placeholders `@NAME@` in a program are replaced: OUTSIDE (a folder of the harness with
`canary.txt`),
REPOSITORY, TCP and UDP (ports on the loopback interface), UNIX and ABSTRACT (addresses of unix
sockets), PID (of the harness), DESCRIPTOR (one that the harness has open on the canary).
"""

from dataclasses import dataclass

from tasks.tir_math.sandbox.base import Status

TOOLS = """\
import ctypes, os, sys, platform
libc = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"
def attempt(what, *arguments):
    try:
        result = what(*arguments)
    except BaseException as error:
        print("refused:", type(error).__name__)
    else:
        print("HARM:" if result else "nothing:", repr(result)[:300])
def call(x86, arm, *arguments):  # a system call that must fail
    return libc.syscall(x86 if X86 else arm, *arguments) >= 0
def write(path, text="harm"):
    with open(path, "w") as file:
        return file.write(text)
"""


@dataclass(frozen=True, slots=True)
class Escape:
    """A program that attempts something forbidden.

    Attributes:
        name: What it attempts.
        source: Its code, without `TOOLS`. It prints `tried` if it runs to its end.
        ends: The possible ways in which it may end.
        tried: Whether it runs to its end.
    """

    name: str
    source: str
    ends: tuple[Status, ...] = ("ok",)
    tried: bool = True


def stopped(name: str, source: str, *ends: Status) -> Escape:
    """A program that does not run to its end."""
    return Escape(name, source, ends, tried=False)
