"""Configurations for tests, and the error line for an invalid one."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from baselines.algorithms.clipping.cispo import CISPO
from baselines.algorithms.clipping.gspo import GSPO
from baselines.algorithms.clipping.ppo import PPOClip
from baselines.config.layers import resolve
from baselines.config.schema import TrainConfig
from tasks.errors import UserError

TASKS = ("sokoban", "alfworld", "webshop", "tir_math")
ENVIRONMENTS = TASKS[:3]


@cache
def shipped(recipe: str, scale: str, task: str) -> TrainConfig:
    return resolve(recipe, scale, [task])


def paper(recipe: str, task: str) -> TrainConfig:
    return shipped(recipe, "paper", task)


def fault(*own: str, recipe: str = "sampo", scale: str = "tiny", task: str = "sokoban") -> str:
    """The single error line for an invalid choice."""
    with pytest.raises(UserError) as caught:
        resolve(recipe, scale, [task], own)
    (line,) = str(caught.value).splitlines()
    return line


def clip(config: TrainConfig) -> tuple[float, float]:
    """Upper and lower limit, in the table's order."""
    clipping = config.clipping
    assert isinstance(clipping, PPOClip | GSPO | CISPO)
    return clipping.clip_high, clipping.clip_low


def write(path: Path, content: Any) -> str:
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return str(path)
