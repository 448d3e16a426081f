"""Prompts with images in in-process vLLM."""

import asyncio
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmark.engines.vllm.engine import VllmEngine
from tasks.errors import UserError
from tests.support.engines.tiny_vision import tiny_vision_model
from tests.support.training.ranks import ROOT

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("vllm") is None, reason="vllm is not installed"),
]

ON_CPUS = Path(sys.prefix) / "opt/torchvision"
"""The Makefile installs torchvision there, where nothing imports it by accident."""


@pytest.mark.skipif(
    find_spec("torchvision") is None and not ON_CPUS.is_dir(), reason=f"{ON_CPUS} is not there"
)
def test_it_agrees_with_the_transformers_engine(tmp_path: Path) -> None:
    paths, own = [str(ROOT)], {}
    if find_spec("torchvision") is None:
        paths.append(str(ROOT / "tests/support/engines/torchvision_on_cpus"))
        own = {"TORCHVISION_FILES": str(ON_CPUS)}
    script = Path(__file__).with_name("images_agree.py")
    made = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "model")],
        env=os.environ | own | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr


@pytest.mark.skipif(find_spec("torchvision") is not None, reason="torchvision is installed")
def test_a_missing_torchvision_is_named(tmp_path: Path) -> None:
    folder = tiny_vision_model(tmp_path / "model")

    async def start() -> None:
        async with VllmEngine(folder):
            pass

    with pytest.raises(UserError, match="torchvision, which is not installed; install the build"):
        asyncio.run(start())
