"""A track that trains in seconds: two updates of eight short episodes of Sokoban."""

from typing import Any

from baselines.config.layers import deep_merge, resolve
from baselines.inits.registry import read_registry
from benchmark.track_schema import METHOD, Track

OWN = (
    "rollout.groups=2",
    "rollout.group_size=4",
    "rollout.max_turns=4",
    "rollout.max_tokens=32",
    "optimization.updates=2",
    "optimization.mini_batches=2",
    "optimization.warmup_updates=0",
    "kl.coef=0.01",
    "format_penalty=0.1",
    "unit=turn",
    # Validations play a whole panel, and these tests do not need them.
    "validation.panel=builtin",
    "validation.every=null",
    "checkpoint_every=1",
)


def small_track(changes: dict[str, Any] | None = None) -> dict[str, Any]:
    """The content of the track file, with changes applied."""
    settings = resolve("grpo", "tiny", ["sokoban"], OWN).model_dump(mode="json", exclude={*METHOD})
    del settings["optimization"]["learning_rate"]
    content = {
        "description": "Sokoban in seconds",
        "init": {"name": "tiny-sokoban", "sha256": read_registry()["tiny-sokoban"].sha256},
        "tasks": ["sokoban"],
        "learning_rate": {"grid": [1e-4, 1e-2], "seed": 1000, "updates": 2, "last": 1},
        "settings": settings,
    }
    return deep_merge(content, changes or {})


def small(changes: dict[str, Any] | None = None) -> Track:
    """The track."""
    return Track.model_validate({"name": "small", **small_track(changes)})
