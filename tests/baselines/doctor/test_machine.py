"""Problems of a machine, as messages; GPUs are described by hand, since this machine has none."""

import sysconfig
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from baselines.doctor.machine import (
    Gpu,
    Machine,
    c_compiler,
    driver_in,
    findings,
    linked_cuda,
    memory_in,
    read_machine,
)

H100 = Gpu("NVIDIA H100 80GB HBM3", 79.2, 78.6)
GOOD = Machine(
    system="Linux 6.8 x86_64",
    cores=16,
    memory=128.0,
    available=120.0,
    shared_memory=64.0,
    disk={"runs": 500.0, "temporary files": 100.0},
    gpus=(H100,),
    driver="580.65.06",
    torch_cuda="13.0",
    vllm_cuda=13,
    engine="vllm",
    compiler="/usr/bin/gcc",
    headers=sysconfig.get_path("include"),
    versions={},
)


def test_this_machine_is_good() -> None:
    machine = read_machine(Path("runs"), "transformers")
    assert machine.memory > machine.available > 0 and machine.cores >= 1
    assert machine.versions["torch"] and machine.disk["runs"] > 0
    assert [one.what for one in findings(machine) if one.fatal] == []


@pytest.mark.parametrize(
    ("machine", "fatal", "said"),
    [
        (
            replace(GOOD, driver="570.86.15", gpus=()),
            True,
            "built for CUDA 13, which needs driver 580 or later; this one is 570.86.15: update the "
            "driver, or, for data center GPUs, install NVIDIA's package cuda-compat-13-0",
        ),
        (replace(GOOD, torch_cuda=None, gpus=()), True, "but torch is a CPU build"),
        (replace(GOOD, vllm_cuda=12), True, "torch is built for CUDA 13 and vLLM for CUDA 12"),
        (replace(GOOD, gpus=()), True, "torch sees no GPU: check CUDA_VISIBLE_DEVICES"),
        (replace(GOOD, vllm_cuda=None), False, "transformers generates, slowly"),
        (replace(GOOD, gpus=(), driver=None), False, "built for CUDA and finds no NVIDIA driver"),
        (replace(GOOD, compiler=None), True, "no C compiler (gcc, clang or $CC)"),
        (replace(GOOD, headers="/nowhere"), True, "no Python.h in /nowhere"),
        (
            replace(GOOD, gpus=(H100, replace(H100, free=20.0))),
            False,
            "GPU 1 has 20.0 of 79.2 GiB free: another process uses it",
        ),
        (replace(GOOD, disk={"runs": 0.5}), False, "only 0.5 GiB of disk are free for runs"),
    ],
)
def test_what_does_not_fit_is_named(machine: Machine, fatal: bool, said: str) -> None:
    assert [one.what for one in findings(GOOD)] == []
    first = findings(machine)[0]
    assert said in first.what and first.fatal is fatal


def test_an_old_driver_with_which_torch_sees_gpus_is_no_problem() -> None:
    assert findings(replace(GOOD, driver="570.86.15")) == []


def test_a_gpu_that_another_process_has_alone_has_nothing_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def look(number: int) -> tuple[int, int]:
        if number == 1:
            raise RuntimeError("CUDA error: out of memory")
        return 70 * 2**30, 80 * 2**30

    for name, value in {
        "is_available": True,
        "device_count": 2,
        "get_device_name": "NVIDIA H100",
        "get_device_properties": SimpleNamespace(total_memory=80 * 2**30),
    }.items():
        monkeypatch.setattr(torch.cuda, name, lambda *_, value=value: value)
    monkeypatch.setattr(torch.cuda, "mem_get_info", look)
    found = read_machine(Path("runs"), "transformers").gpus
    assert found == (Gpu("NVIDIA H100", 80.0, 70.0), Gpu("NVIDIA H100", 80.0, 0.0))


def test_without_vllm_nothing_is_compiled() -> None:
    bare = replace(GOOD, compiler=None, vllm_cuda=None)
    assert not any("compiler" in one.what for one in findings(bare))


def test_the_compiler_that_is_named_has_to_be_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    assert c_compiler() is None
    clang = tmp_path / "clang"
    clang.touch(0o755)
    assert c_compiler() == str(clang)
    monkeypatch.setenv("CC", "gcc-13")
    assert c_compiler() is None


def test_linux_says_its_memory() -> None:
    said = "MemTotal:       24684084 kB\nMemAvailable:   16777216 kB\nHugePages_Total:       0\n"
    assert memory_in(said)["MemAvailable"] == 16.0


def test_the_driver_says_its_version() -> None:
    said = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\nGCC"
    assert driver_in(said) == "580.65.06"
    assert driver_in("GCC version: 13.2.0") is None


@pytest.mark.vllm
def test_the_installed_vllm_is_for_cpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("vllm")
    assert linked_cuda() is None
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm/__init__.py").touch()
    (tmp_path / "vllm/_C.abi3.so").write_bytes(b"\x7fELF\0libcudart.so.12\0")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(__import__("sys").modules, "vllm", raising=False)
    assert linked_cuda() == 12


def test_a_vllm_of_another_version_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "vllm-0.20.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: vllm\nVersion: 0.20.0\nRequires-Dist: torch==2.11.0\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    found = [one.what for one in findings(GOOD) if one.fatal]
    assert any("arlarena-bench is made for vllm==0.32.0, and vllm 0.20.0" in one for one in found)
    assert any("vllm is made for torch==2.11.0, and torch 2.13" in one for one in found)
