"""The page of `arlarena-bench doctor`, human-readable and as JSON."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from baselines.doctor.machine import Diagnosis, Machine
from baselines.doctor.needs import Needs
from baselines.doctor.smoke import Smoke

_SHOWN = ("kl_init/mean", "engine/k3", "engine/abs_max", "policy/grad_norm")


def as_json(
    machine: Machine, needs: Needs | None, smoke: Smoke | None, problems: Sequence[Diagnosis]
) -> dict[str, Any]:
    """All findings as JSON."""
    ran = None
    if smoke is not None:
        speeds = {
            "generated_tokens_per_s": smoke.generated_per_s,
            "trained_tokens_per_s": smoke.trained_per_s,
        }
        ran = asdict(smoke) | speeds
    return {
        "problems": [asdict(one) for one in problems],
        "machine": asdict(machine),
        "needs": None if needs is None else asdict(needs),
        "smoke": ran,
    }


def page(
    machine: Machine, needs: Needs | None, smoke: Smoke | None, problems: Sequence[Diagnosis]
) -> str:
    """All findings as human-readable text."""
    lines = ["arlarena-bench doctor", "", *_machine_lines(machine)]
    if needs is not None:
        lines += ["", *needs.text.splitlines()]
    if smoke is not None:
        lines += ["", *_smoke_lines(smoke)]
    lines.append("")
    for one in problems:
        lines.append(f"{'PROBLEM' if one.fatal else 'warning'}: {one.what}")
    if not any(one.fatal for one in problems):
        lines.append("no problem was found")
    return "\n".join(lines)


def _machine_lines(machine: Machine) -> Iterator[str]:
    yield f"system     {machine.system}, {machine.cores} cores"
    shared = machine.shared_memory
    told = "no /dev/shm" if shared is None else f"{shared:.1f} GiB free in /dev/shm"
    yield f"memory     {machine.memory:.1f} GiB, {machine.available:.1f} GiB available, {told}"
    yield "disk       " + ", ".join(f"{n} {free:.0f} GiB free" for n, free in machine.disk.items())
    if not machine.gpus:
        yield "GPUs       none"
    for number, gpu in enumerate(machine.gpus):
        yield f"GPU {number}      {gpu.name}, {gpu.memory:.1f} GiB, {gpu.free:.1f} GiB free"
    cuda = {"torch": machine.torch_cuda or "none", "vLLM": machine.vllm_cuda or "none"}
    built = ", ".join(f"{name} {version}" for name, version in cuda.items())
    yield f"CUDA       driver {machine.driver or 'none'}; built for: {built}"
    yield f"compiler   {machine.compiler or 'none'}"
    yield f"engine     {machine.engine}"
    yield "versions   " + ", ".join(f"{n} {version}" for n, version in machine.versions.items())


def _smoke_lines(smoke: Smoke) -> Iterator[str]:
    """Describe the results of the two updates."""
    begun = "" if smoke.start_s is None else f", ready after {smoke.start_s:.1f} s"
    kind = " ".join(str(smoke.engine[n]) for n in ("kind", "device", "dtype") if n in smoke.engine)
    yield f"smoke run  two updates of a tiny model, engine {kind or 'did not start'}{begun}"
    if smoke.weight_sync is not None:
        given = smoke.weight_sync
        packed = given.tensors - given.seen
        unseen = f" ({packed} more are packed and cannot be compared)" if packed else ""
        yield (
            f"weights    {given.seen} tensors arrive and go back, by checksum{unseen}; "
            f"{given.gib * 1024:.1f} MiB in {given.seconds:.3f} s"
        )
    for number, line in enumerate(smoke.updates, 1):
        numbers = ", ".join(f"{n} {_number(line, n)}" for n in _SHOWN)
        yield f"update {number}   {numbers}"
    if smoke.updates:
        speeds = {"generated": smoke.generated_per_s, "trained": smoke.trained_per_s}
        yield "speed      " + ", ".join(
            f"{name} {speed:,.0f} tokens/s" for name, speed in speeds.items() if speed is not None
        )
    if smoke.peaks:
        yield (
            "peaks      " + ", ".join(f"{n} {size:.2f}" for n, size in smoke.peaks.items()) + " GiB"
        )


def _number(line: Mapping[str, Any], name: str) -> str:
    value = line.get(name)
    return "not measured" if value is None else f"{value:.3g}"
