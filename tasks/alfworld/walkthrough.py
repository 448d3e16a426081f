"""The shortest natural solution of a household with known contents."""

import itertools
from collections.abc import Iterator, Mapping

from tasks.alfworld.engine.package import constants
from tasks.alfworld.goals import LOOK, PICK_TWO, TREATMENTS
from tasks.alfworld.household import Household, Receptacle, Thing, displayed_names


class _Walk:
    """Collects commands and leaves out those that the situation makes needless."""

    def __init__(self, household: Household, names: Mapping[str, str]) -> None:
        self.commands: list[str] = []
        self._receptacles = {item.id: item for item in household.receptacles}
        self._names = names
        self._location = 0
        self._opened: set[str] = set()

    def go(self, receptacle: Receptacle) -> None:
        if receptacle.location != self._location:
            self.commands.append(f"go to {self._names[receptacle.id]}")
            self._location = receptacle.location

    def reach_into(self, receptacle: Receptacle) -> None:
        self.go(receptacle)
        if receptacle.type in constants().openable and receptacle.id not in self._opened:
            self.commands.append(f"open {self._names[receptacle.id]}")
            self._opened.add(receptacle.id)

    def take(self, thing: Thing) -> None:
        self.reach_into(self._receptacles[thing.inside])
        self.commands.append(f"take {self._names[thing.id]} from {self._names[thing.inside]}")

    def treat(self, verb: str, thing: Thing, appliance: Receptacle) -> None:
        self.go(appliance)
        self.commands.append(f"{verb} {self._names[thing.id]} with {self._names[appliance.id]}")

    def put(self, thing: Thing, receptacle: Receptacle) -> None:
        self.reach_into(receptacle)
        self.commands.append(f"move {self._names[thing.id]} to {self._names[receptacle.id]}")

    def use(self, lamp: Thing) -> None:
        self.go(self._receptacles[lamp.inside])
        self.commands.append(f"use {self._names[lamp.id]}")


def shortest_walkthrough(household: Household) -> tuple[str, ...]:
    """The fewest commands that take, treat and put down what is asked.

    All choices of objects, appliances and destinations are compared; among equals the lowest
    numbers win. Nothing is opened that need not be: appliances work while they are closed.
    """
    names = displayed_names(household)
    walks: list[tuple[str, ...]] = []
    for choice in _choices(household, names):
        walk = _Walk(household, names)
        _carry_out(household, walk, *choice)
        walks.append(tuple(walk.commands))
    return min(walks, key=len)


_Choice = tuple[tuple[Thing, ...], tuple[Receptacle, ...]]


def _choices(household: Household, names: Mapping[str, str]) -> Iterator[_Choice]:
    """All (targets in order, receptacles in order of use) of the task."""

    def number(entry: Thing | Receptacle) -> int:
        return int(names[entry.id].split()[1])

    def of_type(name: str) -> list[Receptacle]:
        return sorted((item for item in household.receptacles if item.type == name), key=number)

    targets = sorted((t for t in household.objects if t.type == household.target), key=number)
    if household.task_type == LOOK:
        yield from (((target,), ()) for target in targets)
        return
    stations = [of_type(household.destination)]
    treatment = TREATMENTS.get(household.task_type)
    if treatment is not None:
        stations.insert(0, of_type(treatment.appliance))
    wanted = 2 if household.task_type == PICK_TWO else 1
    yield from itertools.product(
        itertools.permutations(targets, wanted), itertools.product(*stations)
    )


def _carry_out(
    household: Household,
    walk: _Walk,
    targets: tuple[Thing, ...],
    stations: tuple[Receptacle, ...],
) -> None:
    treatment = TREATMENTS.get(household.task_type)
    for target in targets:
        walk.take(target)
        if treatment is not None:
            walk.treat(treatment.verb, target, stations[0])
        if stations:
            walk.put(target, stations[-1])
    if household.task_type == LOOK:
        walk.use(next(thing for thing in household.objects if thing.type == household.destination))
