"""Makes the frozen panel: `python -m tasks.alfworld.make_panels`.

The file is shipped; this is how it came about and how it can be checked. Running it again gives
the same bytes.
"""

import random
from collections import Counter

from tasks.alfworld.generator import generate
from tasks.alfworld.goals import SHORT_NAMES, TASK_TYPES
from tasks.alfworld.household import Household, household_key
from tasks.alfworld.stream import BUILTIN, kind_of
from tasks.base import PanelEntry
from tasks.panels import panel_bytes
from tasks.seeding import stable_seed

DESCRIPTION = "144 generated households, 24 of each task type, spread over four kinds of rooms"
GAMES_PER_TYPE = 24
_DRAWS = 12
"""Households drawn per game, of which the one that asks for the least used things is taken."""


def builtin_entries() -> tuple[PanelEntry, ...]:
    """The built-in panel. Task types take turns, so that its first games are balanced too."""
    entries = []
    keys: set[str] = set()
    used: Counter[tuple[str, str, str]] = Counter()
    for number in range(GAMES_PER_TYPE * len(TASK_TYPES)):
        task_type, room = kind_of(number)
        drawn = [
            generate(task_type, room, random.Random(stable_seed("alfworld-panel", number, draw)))
            for draw in range(_DRAWS)
        ]
        fresh = [household for household in drawn if household_key(household) not in keys]
        household = min(fresh, key=lambda household: sum(used[part] for part in _parts(household)))
        used.update(_parts(household))
        keys.add(household_key(household))
        identifier = f"{SHORT_NAMES[task_type]}-{number // len(TASK_TYPES):03d}"
        entries.append(PanelEntry(identifier, task_type, household.to_data()))
    return tuple(entries)


def _parts(household: Household) -> tuple[tuple[str, str, str], ...]:
    """What the panel is to vary: per task type, what is moved and where to, and the wording."""
    task_type = household.task_type
    return (
        (task_type, "target", household.target),
        (task_type, "destination", household.destination),
        (task_type, "text", f"{household.text} {household.room}"),
    )


if __name__ == "__main__":
    BUILTIN.parent.mkdir(exist_ok=True)
    BUILTIN.write_bytes(panel_bytes(builtin_entries()))
