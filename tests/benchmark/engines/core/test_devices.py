"""Names of devices."""

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
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert devices.cpu_name() == f"Fast: 9000, {instructions}"
    # This line is missing on ARM, and the file on other systems.
    file.write_text("processor\t: 0\nCPU part\t: 0xd40\n")
    on_arm = devices.cpu_name()
    file.unlink()
    assert on_arm == devices.cpu_name() == f"{platform.machine()}, {instructions}"
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    several = devices.cpu_name()
    assert several == f"{platform.machine()}, 4 threads, {instructions}"
    assert devices.threads(several) == 4 and devices.instructions(several) == instructions
    # Names come from other people's logs.
    for other in ("A CPU, AVX2", "A CPU, 0 threads, AVX2", "4 threads, AVX2", "NVIDIA H100", None):
        assert devices.threads(other) == 1
    assert devices.threads("A CPU, 99999 threads, AVX2") == 1


def test_only_what_can_be_left_out_is() -> None:
    assert devices.as_on("A CPU, AVX2") == {"ATEN_CPU_CAPABILITY": "avx2"}
    assert devices.as_on_text("A CPU, AVX2") == "ATEN_CPU_CAPABILITY=avx2"
    for other in ("A CPU, AVX512", "NVIDIA H100 80GB HBM3", "AVX2", "aarch64, DEFAULT", None, 3):
        assert devices.as_on(other) == {} and devices.as_on_text(other) == ""
    of_both = "OMP_NUM_THREADS=4 ATEN_CPU_CAPABILITY=avx2"
    assert devices.as_on_text("A CPU, 4 threads, AVX2") == of_both
    one, two = "A CPU, AVX512", "A CPU, 2 threads, AVX512"
    assert devices.as_on_text(two) == "OMP_NUM_THREADS=2" and not devices.as_on_text(two, two)
    assert devices.as_on_text(one, two) == "OMP_NUM_THREADS=1"
    assert devices.repeating(one)["OMP_NUM_THREADS"] == "1"
    assert devices.repeating(two)["OMP_NUM_THREADS"] == "2"


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("AMD EPYC 1, AVX2", "AMD EPYC 2, AVX2", True),
        ("AMD EPYC, AVX2", "Intel(R) Xeon(R), AVX2", False),
        ("AMD EPYC, AVX2", "AMD EPYC, AVX512", False),
        ("AMD EPYC, AVX2", "AMD EPYC, 2 threads, AVX2", False),
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3", True),
        ("NVIDIA H100 80GB HBM3", "NVIDIA H200", False),
        ("NVIDIA H200", "AMD EPYC, AVX2", False),
        (None, None, True),
    ],
)
def test_devices_that_compute_alike(one: object, other: object, expected: bool) -> None:
    assert devices.alike(one, other) is devices.alike(other, one) is expected


def test_what_a_cpu_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text("flags\t\t: fpu avx avx2 fma\n")
    monkeypatch.setattr(devices, "_CPUINFO", file)
    assert devices.lacking("A CPU, AVX512") == "AVX512"
    for other in ("A CPU, AVX2", "aarch64, DEFAULT", "NVIDIA H100 80GB HBM3", None):
        assert devices.lacking(other) is None


@pytest.mark.parametrize("maker", ["AMD EPYC", "Intel(R) Xeon(R) Processor", "Some"])
def test_a_cpu_of_another_maker_repeats_nothing(
    maker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text(f"model name\t: {maker}\nflags\t\t: fpu avx avx2 fma\n")
    monkeypatch.setattr(devices, "_CPUINFO", file)
    assert devices.obstacle("AMD EPYC, AVX512") == "with AVX512, which this CPU lacks"
    of_amd = devices.obstacle("AMD EPYC, AVX2")
    of_intel = "on a CPU by AMD, and this one is by Intel"
    assert of_amd == (of_intel if maker.startswith("Intel") else None)
    for other in (f"{maker}, AVX2", "NVIDIA H100 80GB HBM3", "aarch64, DEFAULT", None):
        assert devices.obstacle(other) is None


@pytest.mark.skipif(devices.lacking("A CPU, AVX512") is not None, reason="a CPU without AVX-512")
def test_torch_leaves_out_what_it_is_asked_to() -> None:
    said = "from benchmark.engines.core.devices import cpu_name; print(cpu_name())"
    for wanted in ("AVX2", "AVX512"):
        environment = devices.repeating(f"A CPU, {wanted}")
        made = subprocess.run(
            [sys.executable, "-c", said], env=environment, stdout=subprocess.PIPE, check=True
        )
        assert devices.instructions(made.stdout.decode().strip()) == wanted
