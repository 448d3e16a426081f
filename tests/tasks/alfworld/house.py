"""A second, smaller implementation of the rules: executes a household's commands without PDDL.

It shares only the household itself with the generator, so walkthroughs are checked by rules that
were written independently of those that generated them.
"""

import re
from collections import Counter

from tasks.alfworld.household import Household, type_of

OPENS = {"Cabinet", "Drawer", "Fridge", "Microwave", "Safe"}
DONE_WITH = {"clean": "SinkBasin", "heat": "Microwave", "cool": "Fridge"}
STATE = {
    "pick_clean_then_place_in_recep": "clean",
    "pick_heat_then_place_in_recep": "heat",
    "pick_cool_then_place_in_recep": "cool",
}


class House:
    """The commands of a walkthrough; any other command raises AssertionError."""

    def __init__(self, household: Household) -> None:
        self.household = household
        self.where = {thing.id: thing.inside for thing in household.objects}
        self.place = {item.id: item.location for item in household.receptacles}
        self.ids = self._ids()
        self.here = 0
        self.held: str | None = None
        self.opened: set[str] = set()
        self.done: set[tuple[str, str]] = set()

    def _ids(self) -> dict[str, str]:
        """By displayed name: the last id of a type is number 1."""
        ids, counts = {}, Counter[str]()
        for identifier in sorted([*self.where, *self.place], reverse=True):
            name = type_of(identifier).lower()
            counts[name] += 1
            ids[f"{name} {counts[name]}"] = identifier
        return ids

    def play(self, command: str) -> None:
        verb, first, second = self._parse(command)
        if verb == "go to":
            self.here = self.place[first]
        elif verb == "open":
            assert type_of(first) in OPENS
            assert self._reachable(first)
            assert first not in self.opened
            self.opened.add(first)
        elif verb == "take":
            assert self._accessible(second)
            assert self.held is None
            assert self.where[first] == second
            self.held, self.where[first] = first, ""
        elif verb == "move":
            assert self._accessible(second)
            assert self.held == first
            self.held, self.where[first] = None, second
        elif verb in DONE_WITH:
            assert type_of(second) == DONE_WITH[verb]
            assert self._reachable(second)
            assert self.held == first
            self.done.add((verb, first))
        else:
            assert verb == "use"
            assert type_of(first) == "DeskLamp"
            assert self._reachable(self.where[first])
            self.done.add(("use", first))

    @property
    def won(self) -> bool:
        target, destination = self.household.target, self.household.destination
        task_type = self.household.task_type
        if task_type == "look_at_obj_in_light":
            lit = any(
                verb == "use" and self._reachable(self.where[lamp]) for verb, lamp in self.done
            )
            return lit and self.held is not None and type_of(self.held) == target
        state = STATE.get(task_type)
        counts = Counter(
            inside
            for thing, inside in self.where.items()
            if type_of(thing) == target
            and inside
            and type_of(inside) == destination
            and (state is None or (state, thing) in self.done)
        )
        needed = 2 if task_type == "pick_two_obj_and_place" else 1
        return max(counts.values(), default=0) >= needed

    def _parse(self, command: str) -> tuple[str, str, str]:
        match = re.fullmatch(r"(go to|\w+) (\w+ \d+)(?: (?:from|to|with) (\w+ \d+))?", command)
        assert match is not None, command
        return match[1], self.ids[match[2]], self.ids[match[3]] if match[3] else ""

    def _reachable(self, receptacle: str) -> bool:
        return self.place[receptacle] == self.here

    def _accessible(self, receptacle: str) -> bool:
        closed = type_of(receptacle) in OPENS and receptacle not in self.opened
        return self._reachable(receptacle) and not closed
