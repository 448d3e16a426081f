"""Recorded results of ARLArena's released algorithms, if the machine has them."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

Case = dict[str, Any]


def read(name: str) -> Case:
    """Read a file of recorded results; skips the test if it is missing."""
    folder = os.environ.get("LOSS_VECTORS")
    if folder is None:
        pytest.skip("needs the recorded losses and advantages: set LOSS_VECTORS to their folder")
    content: Case = json.loads((Path(folder) / name).read_text("utf-8"))
    return content


def cases(name: str) -> list[Case]:
    """The cases of a file, five of each kind."""
    found: list[Case] = read(name)["cases"]
    assert len(found) == 5
    return found


def matrix(values: Sequence[Any]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def numbers(names: Sequence[str]) -> Tensor:
    """Integer ids for names, in order of first appearance."""
    known = list(dict.fromkeys(names))
    return torch.tensor([known.index(name) for name in names])


def close(actual: Tensor | float, expected: Any, tolerance: float) -> None:
    """Assert equality within a tolerance that is both relative and absolute."""
    torch.testing.assert_close(
        torch.as_tensor(actual, dtype=torch.float64),
        torch.as_tensor(expected, dtype=torch.float64),
        rtol=tolerance,
        atol=tolerance,
    )
