"""Builds the frozen panels: `python -m tasks.alfworld.make_panels [--manifest FILE]`.

The files are shipped; this is how they came about and how they can be checked. Running it again
gives the same bytes. The field's panels are made from a manifest, a CSV file with the columns
split, game, task_type and pddl_problem_sha256; without one, the shipped files stay as they are.
Which of its two wordings a task has stands in the games alone, so that of the evaluation panels is
looked up there; that of training games is left to the data at hand.
"""

import argparse
import csv
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

from tasks.alfworld.games import RealGame, all_there, read_game
from tasks.alfworld.generator import generate
from tasks.alfworld.goals import SHORT_NAMES, TASK_TYPES
from tasks.alfworld.household import Household, household_key
from tasks.alfworld.stream import PANELS, type_and_room
from tasks.alfworld.task import AlfworldTask
from tasks.panels import BUILTIN, INDEX, PanelEntry, panel_bytes, unmeasured_panel
from tasks.seeding import stable_seed
from tasks.trace import measured, trace_panel

DESCRIPTIONS = {
    BUILTIN: "144 generated households, 24 of each task type, in four kinds of rooms",
    "valid_seen": "140 games of the dataset in rooms that its training games have, too",
    "valid_unseen": "134 games of the dataset in rooms that its training games do not have",
    "train": "3553 training games of the dataset",
}
EVALUATION = ("valid_seen", "valid_unseen")
MAX_TURNS = 50
GAMES_PER_TYPE = 24
_DRAWS = 12
"""Households drawn per game, of which the one that asks for the least used things is taken."""
_MEASURED = ("random_success", "expert_success", "trace_sha256")
_BAND = 0.03
"""Half-width of the recorded band around the random policy's measured success."""


def builtin_entries() -> tuple[PanelEntry, ...]:
    """The built-in panel. Task types take turns, so that its first games are balanced too."""
    entries = []
    keys: set[str] = set()
    used: Counter[tuple[str, str, str]] = Counter()
    for number in range(GAMES_PER_TYPE * len(TASK_TYPES)):
        task_type, room = type_and_room(number)
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


def real_entries(manifest: Path, split: str) -> tuple[PanelEntry, ...]:
    """The games of a split, in the manifest's order."""
    with manifest.open(newline="", encoding="utf-8") as lines:
        rows = [row for row in csv.DictReader(lines) if row["split"] == split]
    return tuple(_real_entry(row) for row in rows)


def _real_entry(row: dict[str, str]) -> PanelEntry:
    data: dict[str, Any] = {
        "split": row["split"],
        "sha256": row["pddl_problem_sha256"],
        "text": None,
    }
    entry = PanelEntry(row["game"], row["task_type"], data)
    if row["split"] in EVALUATION:
        game = RealGame.of(entry)
        data["text"] = game.texts.index(read_game(game)[1])
    return entry


def write_panels(folder: Path, manifest: Path | None) -> None:
    """Make all panels and their index in a folder."""
    (folder / f"{BUILTIN}.jsonl").write_bytes(panel_bytes(builtin_entries()))
    if manifest is not None:
        for split in list(DESCRIPTIONS)[1:]:
            (folder / f"{split}.jsonl").write_bytes(panel_bytes(real_entries(manifest, split)))
    path = folder / INDEX
    shipped = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    index = {name: _facts(folder, name, shipped.get(name, {})) for name in DESCRIPTIONS}
    path.write_text(json.dumps(index, indent=2) + "\n", "utf-8")


def _facts(folder: Path, name: str, shipped: dict[str, Any]) -> dict[str, Any]:
    """What the index says of a panel.

    What the scripted players did is measured where the games are there. Where they are not, it
    stays as it is shipped, if the panel is still the same.
    """
    panel = unmeasured_panel("alfworld", folder, name, DESCRIPTIONS[name], MAX_TURNS)
    info = panel.info
    facts: dict[str, Any] = {
        "description": info.description,
        "episodes": info.episodes,
        "max_turns": info.max_turns,
        "sha256": info.sha256,
    }
    if name != BUILTIN and not all_there(RealGame.of(entry) for entry in panel.entries):
        same = shipped.get("sha256") == info.sha256
        return facts | ({key: shipped[key] for key in _MEASURED if key in shipped} if same else {})
    return facts | measured(trace_panel(AlfworldTask(), panel), _BAND)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Make the panels of ALFWorld.")
    parser.add_argument("--manifest", type=Path, help="CSV file that lists the data set's games")
    PANELS.mkdir(exist_ok=True)
    write_panels(PANELS, parser.parse_args().manifest)
