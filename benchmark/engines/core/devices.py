"""Names CPUs, and says how one CPU can reproduce another's results.

In float32, a CPU's results depend on the number of threads, which changes the summation order, and
on its vector instructions. torch can be limited to fewer: an EPYC with AVX-512 limited to AVX2
trained to exactly the same weights as an EPYC without AVX-512, about 2% slower. A Xeon limited to
AVX2 did not: in two of three seeds the first two updates differed, in one of these the first loss
in its ninth digit, also with `MKL_CBWR=AVX2` and `MKL_CBWR=COMPATIBLE`.

NumPy cannot be limited to AVX2 this way: with AVX-512, its float64 `exp` has different last digits.
This affects numbers in logs (`kl_old/`, `ratio/`, `engine/`), but not weights.

Importing this does not import torch.
"""

import os
import platform
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

DEVICE_NAME: Final = "device_name"
"""Engine fact with its device's name: from `cpu_name`, or the GPU's name."""
DETERMINISTIC: Final = "deterministic"
"""Engine fact that its batches depend only on the requests."""
LIMIT: Final = "ATEN_CPU_CAPABILITY"
"""Environment variable: the highest instruction set that torch may use."""
THREADS: Final = "OMP_NUM_THREADS"
"""Environment variable: torch's number of threads."""
_OF_MKL: Final = "MKL_NUM_THREADS"
"""The same for MKL; a lower value limits torch, too."""
AVX2: Final[Mapping[str, str]] = MappingProxyType({LIMIT: "avx2"})
_FLAGS: Final = {"AVX2": "avx2", "AVX512": "avx512bw"}
"""torch's names of x86 vector instruction sets, and a CPU flag for each."""
_MAKERS: Final = ("AMD", "Intel")
_SEPARATOR: Final = ", "
_CPUINFO: Final = Path("/proc/cpuinfo")
_MODEL: Final = "model name"
_SEVERAL: Final = re.compile(r", ([1-9][0-9]{0,2}) threads, [^,]+\Z")


def cpu_name() -> str:
    """The processor, the threads if several, and the vector instructions: `AMD EPYC, AVX512`."""
    import torch

    count = torch.get_num_threads()
    several = () if count == 1 else (f"{count} threads",)
    return _SEPARATOR.join((_processor(), *several, torch.backends.cpu.get_cpu_capability()))


def instructions(name: object) -> str | None:
    """The vector instructions in a name from `cpu_name`; None for a GPU's name, or for none."""
    _, separator, last = str(name).rpartition(_SEPARATOR)
    return last if separator else None


def threads(name: object) -> int:
    """The threads in a name from `cpu_name`; 1 if it names none, or a thousand or more."""
    found = _SEVERAL.search(str(name))
    return int(found[1]) if found else 1


def use_threads(count: int | None) -> None:
    """Set this process's number of compute threads; call it before torch is loaded.

    If torch is already loaded, some of its libraries keep their own number: two threads set then
    trained to different weights than two from the beginning. A preloaded OpenMP keeps its own.

    Args:
        count: Threads; None for the environment's value, or else one: small models are slower with
            more as soon as anything else runs on the machine.
    """
    if count is None and THREADS in os.environ:
        return
    os.environ[THREADS] = str(count or 1)
    os.environ.pop(_OF_MKL, None)
    if "torch" in sys.modules:
        import torch

        torch.set_num_threads(count or 1)


def lacking(name: object) -> str | None:
    """The vector instructions in another CPU's `cpu_name`, if this CPU lacks them."""
    wanted = instructions(name)
    return wanted if wanted in _FLAGS and _FLAGS[wanted] not in _cpuinfo().split() else None


def obstacle(name: object) -> str | None:
    """Why this CPU cannot reproduce another's results bit for bit, as the end of a sentence.

    Args:
        name: The other CPU's `cpu_name`. A name of something else is not an obstacle.
    """
    if (missing := lacking(name)) is not None:
        return f"with {missing}, which this CPU lacks"
    there, here = _maker(name), _maker(_processor())
    if there is None or here is None or there == here:
        return None
    return f"on a CPU by {there}, and this one is by {here}"


def as_on(name: object, here: object = None) -> Mapping[str, str]:
    """Environment variables that make torch compute as on another CPU.

    AVX-512 needs none, since nothing is limited.

    Args:
        name: The other CPU's `cpu_name`.
        here: This CPU's; None for one thread, the default of this project's commands.
    """
    count = threads(name)
    several = {} if count == threads(here) else {THREADS: str(count)}
    return {**several, **(AVX2 if instructions(name) == "AVX2" else {})}


def as_on_text(name: object, here: object = None) -> str:
    """The same in shell syntax; empty if there are none."""
    return " ".join(f"{variable}={value}" for variable, value in as_on(name, here).items())


def alike(one: object, other: object) -> bool:
    """Whether two devices, named by their engines, compute the same bits as far as is known."""
    kinds = [(instructions(name), threads(name)) for name in (one, other)]
    makers = {_maker(one), _maker(other)} - {None}
    return one == other or (kinds[0] == kinds[1] and kinds[0][0] is not None and len(makers) < 2)


def unrepeatable(began: object, here: object) -> str | None:
    """Why a run resumed elsewhere cannot be reproduced bit for bit, and what would change that.

    Args:
        began: The `cpu_name` of the CPU where it started.
        here: That of the CPU where it is resumed.

    Returns:
        The end of a sentence; None if it can be reproduced, or one of them is not a CPU.
    """
    kinds = instructions(began), instructions(here)
    if None in kinds:
        return None
    why = obstacle(began)
    if why is None and alike(began, here):
        return None
    variables = as_on_text(began, here) if why is None else ""
    remedy = f", unless you stop it and set {variables}" if variables else ""
    return f"it cannot be repeated bit for bit{remedy}"


def repeating(name: object) -> dict[str, str]:
    """The environment of a command that reproduces another CPU's results.

    Args:
        name: Its `cpu_name`. With any other name, this process's instruction set stays.
    """
    whole = {**os.environ, THREADS: "1"}
    whole.pop(_OF_MKL, None)
    if instructions(name) is not None:
        whole.pop(LIMIT, None)
    return {**whole, **as_on(name)}


def _processor() -> str:
    facts = (line.partition(":") for line in _cpuinfo().splitlines())
    models = (value.strip() for key, _, value in facts if key.strip() == _MODEL)
    return next(models, platform.machine())


def _maker(name: object) -> str | None:
    return next((maker for maker in _MAKERS if str(name).startswith(maker)), None)


def _cpuinfo() -> str:
    return _CPUINFO.read_text() if _CPUINFO.is_file() else ""
