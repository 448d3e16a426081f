"""The training stream: infinite, randomly accessible, without the households of the panel."""

import json
import random
from functools import cache
from pathlib import Path

from tasks.alfworld.generator import generate
from tasks.alfworld.goals import TASK_TYPES
from tasks.alfworld.household import Household, household_key
from tasks.alfworld.rooms import rooms_of
from tasks.seeding import stable_seed

PANELS = Path(__file__).parent / "panels"
BUILTIN = PANELS / "builtin.jsonl"


@cache
def panel_keys() -> frozenset[str]:
    """The `household_key` of every household of the built-in panel."""
    lines = BUILTIN.read_text("utf-8").splitlines()
    return frozenset(household_key(Household.from_data(json.loads(line)["data"])) for line in lines)


def type_and_room(index: int) -> tuple[str, str]:
    """Task type and room kind of number `index` of a balanced sequence.

    Task types take turns; so do, within a task type, the room kinds where it is asked.
    """
    task_type = TASK_TYPES[index % len(TASK_TYPES)]
    rooms = rooms_of(task_type)
    return task_type, rooms[index // len(TASK_TYPES) % len(rooms)]


def training_household(index: int, seed: int = 0) -> Household:
    """Household number `index` of the stream `seed`; never the same problem as one of the panel.

    Raises:
        ValueError: The index is negative.
    """
    if index < 0:
        raise ValueError(f"index must not be negative, got {index}")
    task_type, room = type_and_room(index)
    attempt = 0
    while True:
        rng = random.Random(stable_seed("alfworld-training", seed, index, attempt))
        household = generate(task_type, room, rng)
        if household_key(household) not in panel_keys():
            return household
        attempt += 1
