"""The scripted expert: knows the whole state and goes straight to the target.

It plays generated and real games alike. In a generated game it plays the walkthrough that the
generator kept, as long as the episode follows it; otherwise, and in real games, it decides again at
every turn from the facts of the state.
"""

from collections.abc import Iterator, Sequence

from tasks.alfworld.engine.facts import Facts
from tasks.alfworld.engine.names import kind_of
from tasks.alfworld.env import AlfworldEnv
from tasks.alfworld.goals import Goal

_TREATED = {"clean": "isclean", "heat": "ishot", "cool": "iscool"}
_LOST = "I do not know how to go on", "look"

Move = tuple[str, str]
"""Thought and command."""


class Expert:
    """An expert for one episode.

    Args:
        world: The episode's world; read, never changed.
        goal: What is asked.
        walkthrough: Commands that solve the game from the start; empty if none are known.
    """

    def __init__(self, world: AlfworldEnv, goal: Goal, walkthrough: Sequence[str] = ()) -> None:
        self._world = world
        self._goal = goal
        self._walkthrough = tuple(walkthrough)

    def move(self, done: Sequence[str]) -> Move:
        """Thought and next command.

        Args:
            done: All commands of the episode so far.
        """
        if tuple(done) == self._walkthrough[: len(done)] and len(done) < len(self._walkthrough):
            command = self._walkthrough[len(done)]
            return f"The next step is: {command}", command
        return _Decision(self._world, self._goal).move()


class _Decision:
    """One decision, from the facts of the state."""

    def __init__(self, world: AlfworldEnv, goal: Goal) -> None:
        self._facts: Facts = world.facts
        self._names = world.game.names
        self._goal = goal
        self._here = {location for _, location in self._facts.all("atlocation")}
        self._held = next((thing for _, thing in self._facts.all("holds")), None)

    def move(self) -> Move:
        """Thought and command."""
        held = self._held
        if held is None:
            return self._fetch()
        if self._kind(held) != self._goal.target:
            return self._put_away(held)
        if self._goal.looks:
            return self._light(held)
        if not self._treated(held):
            return self._treat(held)
        return self._deliver(held)

    def _fetch(self) -> Move:
        """Go to an object that is still needed and take it."""
        chosen = self._destination()
        sources = [
            (thing, receptacle)
            for thing, receptacle in self._facts.ordered("inreceptacle")
            if self._kind(thing) == self._goal.target
            and self._facts.holds("pickupable", (thing,))
            and not (receptacle == chosen and self._treated(thing))
        ]
        if not sources:
            return _LOST
        thing, source = min(sources, key=lambda pair: (self._cost(pair[1]), self._order(pair[0])))
        name = self._names[thing]
        return self._reach(source) or (
            f"I need {name}",
            f"take {name} from {self._names[source]}",
        )

    def _treat(self, held: str) -> Move:
        treatment = self._goal.treatment
        if treatment is None:
            return _LOST
        appliances = [item for item in self._receptacles() if self._is(item, treatment.appliance)]
        if not appliances:
            return _LOST
        appliance = min(appliances, key=lambda item: (self._distance(item), self._order(item)))
        name, station = self._names[held], self._names[appliance]
        return self._go(appliance) or (
            f"I must {treatment.verb} {name}",
            f"{treatment.verb} {name} with {station}",
        )

    def _deliver(self, held: str) -> Move:
        receptacle = self._destination()
        if receptacle is None:
            return _LOST
        name, place = self._names[held], self._names[receptacle]
        return self._reach(receptacle) or (f"{name} belongs here", f"move {name} to {place}")

    def _light(self, held: str) -> Move:
        for lamp, receptacle in self._facts.ordered("inreceptacle"):
            if self._kind(lamp) == self._goal.destination:
                return self._go(receptacle) or (
                    f"I look at {self._names[held]}",
                    f"use {self._names[lamp]}",
                )
        return _LOST

    def _put_away(self, held: str) -> Move:
        """Get rid of an object that is not needed."""
        places = [item for item in self._receptacles() if self._can_contain(item, held)]
        if not places:
            return _LOST
        place = min(places, key=lambda item: (self._cost(item), self._order(item)))
        name = self._names[held]
        return self._reach(place) or (
            f"I do not need {name}",
            f"move {name} to {self._names[place]}",
        )

    def _destination(self) -> str | None:
        """The receptacle that all objects go to: where most are already, then the nearest."""
        if self._goal.looks:
            return None
        places = [
            item
            for item in self._receptacles()
            if self._kind(item) == self._goal.destination and self._accepts_target(item)
        ]
        return min(
            places,
            key=lambda item: (-self._delivered(item), self._cost(item), self._order(item)),
            default=None,
        )

    def _delivered(self, receptacle: str) -> int:
        return sum(
            place == receptacle and self._kind(thing) == self._goal.target and self._treated(thing)
            for thing, place in self._facts.all("inreceptacle")
        )

    def _accepts_target(self, receptacle: str) -> bool:
        return any(
            self._kind(thing) == self._goal.target and self._can_contain(receptacle, thing)
            for thing, _ in self._facts.all("objecttype")
            if thing in self._names
        )

    def _can_contain(self, receptacle: str, thing: str) -> bool:
        types = [kind for item, kind in self._facts.all("objecttype") if item == thing]
        return any(
            self._facts.holds("cancontain", (place, kind))
            for item, place in self._facts.all("receptacletype")
            if item == receptacle
            for kind in types
        )

    def _treated(self, thing: str) -> bool:
        treatment = self._goal.treatment
        return treatment is None or self._facts.holds(_TREATED[treatment.verb], (thing,))

    def _reach(self, receptacle: str) -> Move | None:
        """The step that is still missing before one can reach into a receptacle."""
        if (step := self._go(receptacle)) is not None:
            return step
        if self._closed(receptacle):
            name = self._names[receptacle]
            return f"{name} is closed", f"open {name}"
        return None

    def _go(self, receptacle: str) -> Move | None:
        name = self._names[receptacle]
        return (f"I need {name}", f"go to {name}") if self._distance(receptacle) else None

    def _closed(self, receptacle: str) -> bool:
        return self._facts.holds("openable", (receptacle,)) and not self._facts.holds(
            "opened", (receptacle,)
        )

    def _cost(self, receptacle: str) -> int:
        """Commands before one can reach into it."""
        return self._distance(receptacle) + self._closed(receptacle)

    def _distance(self, receptacle: str) -> int:
        return int(
            not any(
                self._facts.holds("receptacleatlocation", (receptacle, location))
                for location in self._here
            )
        )

    def _receptacles(self) -> Iterator[str]:
        return (item for item, _ in self._facts.ordered("receptacleatlocation"))

    def _is(self, receptacle: str, kind: str) -> bool:
        return self._facts.holds("receptacletype", (receptacle, f"{kind.lower()}type"))

    def _kind(self, item: str) -> str:
        return kind_of(self._names[item])

    def _order(self, item: str) -> tuple[str, int]:
        """By kind and number, so that of equals the lowest number is taken."""
        kind, _, number = self._names[item].partition(" ")
        return kind, int(number or 0)
