"""What a CPU is called, and how another one computes what it computed.

On one thread in float32, what a CPU computes depends on its vector instructions. torch can leave
some of them out: an EPYC with AVX-512 that was kept to AVX2 trained to the very weights of an EPYC
without AVX-512, about 2% slower. A Xeon kept to AVX2 did not: in two of three seeds the first two
updates differed, in one of these the first loss in its ninth digit, also with `MKL_CBWR=AVX2` and
`MKL_CBWR=COMPATIBLE`.

Importing this does not import torch.
"""

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

DEVICE_NAME: Final = "device_name"
"""Where an engine says what its device is called: by `cpu_name`, or the GPU's name."""
LIMIT: Final = "ATEN_CPU_CAPABILITY"
"""Environment variable: the most that torch is to use."""
AVX2: Final[Mapping[str, str]] = MappingProxyType({LIMIT: "avx2"})
_FLAGS: Final = {"AVX2": "avx2", "AVX512": "avx512bw"}
"""torch's names of x86's vector instructions, and a flag of CPUs that have them."""
_MAKERS: Final = ("AMD", "Intel")
_SEPARATOR: Final = ", "
_CPUINFO: Final = Path("/proc/cpuinfo")
_MODEL: Final = "model name"


def cpu_name() -> str:
    """The processor and the vector instructions that torch uses: `AMD EPYC, AVX512`."""
    import torch

    return f"{_processor()}{_SEPARATOR}{torch.backends.cpu.get_cpu_capability()}"


def instructions(name: object) -> str | None:
    """The vector instructions in a name by `cpu_name`; None in a GPU's name, or in none."""
    _, separator, last = str(name).rpartition(_SEPARATOR)
    return last if separator else None


def lacking(name: object) -> str | None:
    """The vector instructions of another CPU, by its `cpu_name`, if this one lacks them."""
    wanted = instructions(name)
    return wanted if wanted in _FLAGS and _FLAGS[wanted] not in _cpuinfo().split() else None


def obstacle(name: object) -> str | None:
    """Why this CPU cannot repeat to the bit what another one computed, as the end of a sentence.

    Args:
        name: The other one's `cpu_name`. What names no CPU is not an obstacle.
    """
    if (missing := lacking(name)) is not None:
        return f"with {missing}, which this CPU lacks"
    there, here = _maker(name), _maker(_processor())
    if there is None or here is None or there == here:
        return None
    return f"on a CPU by {there}, and this one is by {here}"


def as_on(name: object) -> Mapping[str, str]:
    """Environment variables with which torch computes as on another CPU, by its `cpu_name`.

    They are none but for AVX2: of AVX-512 nothing is left out.
    """
    return AVX2 if instructions(name) == "AVX2" else {}


def as_on_text(name: object) -> str:
    """The same for a shell; empty if there are none."""
    return " ".join(f"{variable}={value}" for variable, value in as_on(name).items())


def repeating(name: object) -> dict[str, str]:
    """The environment of a command that repeats on one thread what another CPU computed.

    Args:
        name: Its `cpu_name`. What names no CPU leaves this process's choice of instructions.
    """
    # Threads add in another order.
    whole = {**os.environ, "OMP_NUM_THREADS": "1"}
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
