"""The real games and the recorded transitions, if the machine has them."""

import json
import os
from pathlib import Path
from typing import Any

import pytest


def transitions() -> list[dict[str, Any]]:
    """The unmodified engine's recorded transitions, one dict per real game; skips if missing."""
    shared = os.environ.get("ARLARENA_SHARED")
    path = Path(shared or ".") / "data" / "alfworld" / "transitions.jsonl"
    if shared is None or not path.is_file():
        pytest.skip("needs the recorded ALFWorld transitions: set ARLARENA_SHARED")
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def data_folder() -> Path:
    """The folder of the real games; skips the test if missing."""
    folder = os.environ.get("ALFWORLD_DATA")
    if folder is None or not (Path(folder) / "json_2.1.1" / "valid_unseen").is_dir():
        pytest.skip("needs ALFWorld's games: set ALFWORLD_DATA")
    return Path(folder)
