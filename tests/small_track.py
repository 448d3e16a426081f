"""A track that trains in seconds: two updates of eight short episodes of Sokoban."""

from typing import Any

import yaml

from baselines import tracks

SHIPPED = tracks.TRACKS / "sokoban-standard.yaml"


def small_track() -> dict[str, Any]:
    """The content of its file."""
    content: dict[str, Any] = yaml.safe_load(SHIPPED.read_text())
    settings = content["settings"]
    settings["rollout"] |= {"groups": 2, "group_size": 4, "max_turns": 4, "max_tokens": 32}
    settings["optimisation"] |= {"updates": 2, "mini_batches": 2, "warmup_updates": 0}
    settings["kl"]["coef"] = 0.01
    # Validations play all of a panel, and these tests do not need them.
    settings["validation"]["every"] = None
    settings["checkpoint_every"] = 1
    rule = {"grid": [1e-4, 1e-2], "seed": 1000, "updates": 2, "last": 1}
    return content | {"description": "Small", "learning_rate": rule}
