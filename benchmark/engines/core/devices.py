"""What a device is called, so that a result says where it was computed.

Importing this does not import torch.
"""

import platform
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

AVX2: Final[Mapping[str, str]] = MappingProxyType(
    {"ATEN_CPU_CAPABILITY": "avx2"} if platform.machine() == "x86_64" else {}
)
"""Environment variables with which torch leaves AVX-512 out where there is any.

An EPYC with AVX-512 then trained to the very weights of one without, 2% slower.
"""
_SEPARATOR: Final = ", "
_CPUINFO: Final = Path("/proc/cpuinfo")
_MODEL: Final = "model name"


def cpu_name() -> str:
    """The processor and the vector instructions that torch uses: `AMD EPYC, AVX512`.

    Sums are added in the order of these instructions, so another one rounds differently.
    """
    import torch

    model = platform.machine()
    if _CPUINFO.is_file():
        facts = (line.partition(":") for line in _CPUINFO.read_text().splitlines())
        model = next((value.strip() for key, _, value in facts if key.strip() == _MODEL), model)
    return f"{model}{_SEPARATOR}{torch.backends.cpu.get_cpu_capability()}"


def as_on(name: object) -> Mapping[str, str]:
    """Environment variables with which torch computes here as on another CPU.

    Instructions can be left out, not added: what AVX-512 computed, only AVX-512 computes again.

    Args:
        name: What `cpu_name` called the other one; anything else is passed over.
    """
    return AVX2 if str(name).rpartition(_SEPARATOR)[2] == "AVX2" else {}
