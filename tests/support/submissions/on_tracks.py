"""Submissions whose logs come from runs on a track."""

from collections.abc import Callable

from baselines.tracks.registry import resolve_on_track
from tests.support.submissions.small import INITS, SEEDS, Copy
from tests.support.training.logs import Line
from tests.support.training.small_track import small

# Like the invented logs: 20 updates of 128 episodes, validated after each, from an init with
# another hash.
TRACK = small(
    {
        "init": {"sha256": INITS["tiny-sokoban"]},
        "settings": {
            "rollout": {"groups": 16, "group_size": 8},
            "optimization": {"updates": 20},
            "validation": {"every": 1},
        },
    }
)
Change = Callable[[Line], object]


def on_track(copy: Copy, change: Change = lambda line: None, seed: int | None = None) -> Copy:
    """Make a submission's logs look like runs on a track, with changes to one's first line."""
    configuration = resolve_on_track(TRACK, "grpo", 1e-4).model_dump(mode="json")
    for each in SEEDS:

        def rewrite(lines: list[Line], each: int = each) -> None:
            own = {"configuration": {**configuration, "tasks": {"sokoban": {}}}}
            lines[0] |= {**own, "track": TRACK.claim.model_dump()}
            for line in lines:
                if line["kind"] == "update":
                    line["policy/learning_rate"] = 1e-4
            if seed in (None, each):
                change(lines[0])

        copy.log(rewrite, each)
    return copy
