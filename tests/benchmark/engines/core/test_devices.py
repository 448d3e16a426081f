"""What a device is called."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmark.engines.core import devices


def test_the_processor_and_its_instructions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text("processor\t: 0\nmodel name\t: Fast: 9000\n\nmodel name\t: no\n")
    monkeypatch.setattr(devices, "_CPUINFO", file)
    instructions = torch.backends.cpu.get_cpu_capability()
    assert devices.cpu_name() == f"Fast: 9000, {instructions}"
    # ARM has no such line, other systems no such file.
    file.write_text("processor\t: 0\nCPU part\t: 0xd40\n")
    on_arm = devices.cpu_name()
    file.unlink()
    assert on_arm == devices.cpu_name() == f"{platform.machine()}, {instructions}"


def test_instructions_can_be_left_out() -> None:
    assert devices.as_on("A CPU, AVX2") == {"ATEN_CPU_CAPABILITY": "avx2"}
    for other in ("A CPU, AVX512", "NVIDIA H100 80GB HBM3", "AVX2 inside", None, 3):
        assert devices.as_on(other) == {}
    said = "from benchmark.engines.core.devices import cpu_name; print(cpu_name())"
    environment = os.environ | devices.as_on("A CPU, AVX2")
    made = subprocess.run(
        [sys.executable, "-c", said], env=environment, capture_output=True, text=True, check=True
    )
    if torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512"):
        assert made.stdout.endswith(", AVX2\n")
    else:
        assert made.stdout == f"{devices.cpu_name()}\n"
