"""The file system inside the bubblewrap sandbox: an interpreter, a few libraries, nothing else."""

import base64
import dataclasses
import importlib.metadata
import importlib.util
import json
import os
import platform
import sys
import sysconfig
from functools import cache
from pathlib import Path

from tasks.errors import UserError
from tasks.tir_math.sandbox.base import Limits
from tasks.tir_math.sandbox.program import PRELUDE
from tasks.tir_math.sandbox.seccomp import MACHINES, filter_program

LIBRARIES = ("numpy", "sympy", "mpmath")
"""Packages that programs can import beside the standard library; the last is what sympy needs."""

WARM_MODULES = (
    *("numpy", "numpy.fft", "numpy.linalg", "numpy.polynomial", "numpy.random"),
    *("sympy", "sympy.abc"),
    *("collections", "dataclasses", "datetime", "decimal", "fractions", "functools", "heapq"),
    *("itertools", "math", "operator", "random", "re", "statistics", "string", "time", "typing"),
)
"""What is imported before there is a program: what programs use most."""

_ZYGOTE = Path(__file__).with_name("zygote.py")
_ENVIRONMENT = {
    "HOME": "/tmp",  # noqa: S108 - of the sandbox
    "LANG": "C.UTF-8",
    # Otherwise each thread reserves 64 MiB of address space, up to eight times the machine's cores.
    "MALLOC_ARENA_MAX": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PATH": "/usr/bin",
    "PYTHONHASHSEED": "0",
}
_NAMESPACES = (
    *("--unshare-all", "--die-with-parent", "--new-session"),
    *("--hostname", "sandbox", "--clearenv"),
    # What the zygote needs to make namespaces and to give its rights up, inside its own only.
    *("--cap-drop", "ALL", "--cap-add", "CAP_SYS_ADMIN", "--cap-add", "CAP_SETPCAP"),
)


def command(bubblewrap: str) -> list[str]:
    """A command that runs what is appended to it, the interpreter first, in the sandbox.

    Raises:
        UserError: A library is missing.
    """
    variables = [part for item in _ENVIRONMENT.items() for part in ("--setenv", *item)]
    return [
        bubblewrap,
        *_NAMESPACES,
        *variables,
        *_system(),
        *_interpreter(),
        *_libraries(),
        *("--ro-bind", str(_ZYGOTE), "/zygote.py"),
        *("--proc", "/proc", "--dir", "/tmp", "--dir", "/dev"),  # noqa: S108 - of the sandbox
        *_devices(),
        *("--chdir", "/", "--remount-ro", "/"),
        "--",
    ]


def interpreter() -> str:
    """The interpreter that programs run in: this one, outside of its virtual environment."""
    return os.path.realpath(getattr(sys, "_base_executable", sys.executable))


def zygote_arguments(channel: int, limits: Limits, modules: tuple[str, ...]) -> list[str]:
    """What to append to `command()` to start a zygote.

    Args:
        channel: Descriptor of its socket.
        limits: What it allows a program.
        modules: What it imports beforehand.

    Raises:
        UserError: There is no filter of system calls for this machine.
    """
    machine = platform.machine()
    if machine not in MACHINES:
        raise UserError(
            f"the sandbox knows the system calls of {' and '.join(MACHINES)}, but "
            f"this machine is {machine}; use --set tir_math.sandbox=http with a "
            "server on another machine"
        )
    config = {
        "modules": modules,
        "limits": dataclasses.asdict(limits),
        "filter": base64.b64encode(filter_program(machine)).decode(),
        "prelude": PRELUDE,
    }
    # Without `site`, no file, without a buffer: what is printed before a program is killed counts.
    options = ("-S", "-s", "-P", "-B", "-u", "-X", "utf8")
    return [interpreter(), *options, "/zygote.py", str(channel), json.dumps(config)]


@cache
def versions() -> dict[str, str]:
    """Versions of the interpreter (major and minor) and the libraries.

    Raises:
        UserError: A library is missing.
    """
    found = {"python": f"{sys.version_info.major}.{sys.version_info.minor}"}
    for name in LIBRARIES:
        _folder(name)
        found[name] = importlib.metadata.version(name)
    return found


def _system() -> list[str]:
    """The libraries of the system, which the interpreter is linked with."""
    binds = ["--ro-bind", "/usr/lib", "/usr/lib"]
    binds += ["--ro-bind-try", "/usr/lib64", "/usr/lib64"]
    binds += ["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]
    for path in (Path("/lib"), Path("/lib64")):
        if path.is_symlink():
            binds += ["--symlink", str(path.readlink()), str(path)]
        elif path.exists():
            binds += ["--ro-bind", str(path), str(path)]
    return binds


def _interpreter() -> list[str]:
    """The interpreter and the standard library, without packages that were installed beside it."""
    binds = ["--ro-bind", interpreter(), interpreter()]
    library = Path(sys.base_prefix, "lib")
    if library != Path("/usr/lib"):
        binds += ["--ro-bind", str(library), str(library)]
    standard = Path(sysconfig.get_path("stdlib"))
    packages = {standard / "site-packages", standard / "dist-packages"}
    packages.add(Path("/usr/lib/python3/dist-packages"))
    for folder in sorted(packages):
        if folder.is_dir():
            binds += ["--tmpfs", str(folder), "--remount-ro", str(folder)]
    return binds


def _libraries() -> list[str]:
    binds = []
    for name in LIBRARIES:
        folder = _folder(name)
        binds += ["--ro-bind", str(folder), f"/packages/{name}"]
        compiled = folder.with_name(f"{name}.libs")  # where wheels keep what they link with
        if compiled.is_dir():
            binds += ["--ro-bind", str(compiled), f"/packages/{compiled.name}"]
    return binds


def _folder(name: str) -> Path:
    """Where a package lies; it is not imported."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise UserError(f"the sandbox needs the package {name}; install it: pip install {name}")
    return Path(spec.submodule_search_locations[0])


def _devices() -> list[str]:
    """The machine's own devices; the filter of system calls keeps their modes and times."""
    names = ("/dev/null", "/dev/zero", "/dev/urandom")
    return [part for name in names for part in ("--dev-bind", name, name)]
