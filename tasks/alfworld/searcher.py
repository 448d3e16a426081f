"""A scripted player that uses only the prompt.

The expert knows where everything is; a model that is cloned from it would learn to guess. This
player looks for things: it goes from receptacle to receptacle in the order in which the commands
are listed, opens what is closed, takes what is asked for, treats it and brings it where it belongs.
Every decision follows from the task, the last command and the listed commands, all of which stand
in the prompt, so a model without any other memory can learn it. The inits are cloned from it.
A thought names what is wanted before it says whether it is here: what a small model has just
written is what it can look for in the list.
"""

import random
from collections.abc import Sequence

from tasks.alfworld.engine.names import kind_of
from tasks.alfworld.goals import Goal

Move = tuple[str, str]
"""Thought and command."""

_GO, _OPEN, _TAKE, _MOVE, _USE, _EXAMINE = "go to ", "open ", "take ", "move ", "use ", "examine "
_NUMBERS = 3
"""Highest number that a thing gets by mistake."""


class Searcher:
    """Decides from what is listed.

    Args:
        goal: What is asked.
        last: The last command; empty at the start.
        admissible: The commands that are listed now.
    """

    def __init__(self, goal: Goal, last: str, admissible: Sequence[str]) -> None:
        self._goal = goal
        self._last = last
        self._admissible = tuple(admissible)
        self._ways = tuple(name.removeprefix(_GO) for name in self._with(_GO))
        # Only what is held and the receptacles at hand can be examined.
        close = [name.removeprefix(_EXAMINE) for name in self._with(_EXAMINE)]
        kinds = {kind_of(name) for name in self._ways}
        movable = {_object(command) for command in self._with(_MOVE)}
        self._held = next(
            (name for name in close if name in movable or kind_of(name) == goal.target), None
        ) or next((name for name in close if kind_of(name) not in kinds and len(close) > 1), None)
        self._here = tuple(name for name in close if name != self._held)

    def move(self) -> Move:
        """Thought and command."""
        if self._held is None:
            return self._seek()
        if kind_of(self._held) != self._goal.target:
            return self._put_away(self._held)
        if self._goal.looks:
            return self._light(self._held)
        return self._bring(self._held)

    def stroll(self) -> Move:
        """Thought and command of a player who walks on, whatever is here to be taken or opened."""
        wanted = self._goal.target if self._held is None else self._goal.destination
        return self._onward(f"I want {wanted}, not")

    def slip(self, rng: random.Random) -> str | None:
        """The command of a player who sees what is not there; None with no receptacle at hand.

        Takes the target from here, or brings what is held to where it belongs, wherever that is.
        """
        if not self._here:
            return None
        number = 1 + int(rng.random() * _NUMBERS)
        if self._held is None:
            return f"{_TAKE}{self._goal.target} {number} from {self._here[-1]}"
        return f"{_MOVE}{self._held} to {self._goal.destination} {number}"

    def _seek(self) -> Move:
        target = self._goal.target
        for command in self._with(_TAKE):
            name, place = command.removeprefix(_TAKE).split(" from ")
            # What lies there already counts, unless it still has to be treated.
            delivered = kind_of(place) == self._goal.destination and self._goal.treatment is None
            if kind_of(name) == target and not delivered:
                return f"I want {name}, it is here", command
        for command in self._with(_OPEN):
            return f"I want {target}, {command.removeprefix(_OPEN)} is closed", command
        return self._onward(f"I want {target}, not")

    def _bring(self, held: str) -> Move:
        treatment = self._goal.treatment
        if treatment is not None and not self._last.startswith(f"{treatment.verb} "):
            for command in self._with(f"{treatment.verb} {held} "):
                return f"I must {treatment.verb} {held}", command
            if self._last.startswith(_TAKE):
                return self._go_to(treatment.appliance.lower(), f"I must {treatment.verb} {held}")
        destination = self._goal.destination
        for command in self._with(f"{_MOVE}{held} "):
            if kind_of(_place(command)) == destination:
                return f"{held} belongs here", command
        for command in self._with(_OPEN):
            if kind_of(command.removeprefix(_OPEN)) == destination:
                return f"{held} belongs here", command
        return self._go_to(destination, f"I bring {held}")

    def _light(self, held: str) -> Move:
        for command in self._with(_USE):
            if kind_of(command.removeprefix(_USE)) == self._goal.destination:
                return f"I look at {held}", command
        return self._onward(f"I want {self._goal.destination}, not")

    def _put_away(self, held: str) -> Move:
        for command in self._with(f"{_MOVE}{held} "):
            return f"I do not need {held}", command
        return self._onward(f"No place for {held}")

    def _go_to(self, kind: str, thought: str) -> Move:
        """To the first receptacle of a kind."""
        for name in self._ways:
            if kind_of(name) == kind:
                return thought, f"{_GO}{name}"
        return self._onward(f"I want {kind}, not")

    def _onward(self, thought: str) -> Move:
        """To the receptacle that is listed next after those at hand, round and round."""
        last = self._here[-1] if self._here else None
        behind = 0 if last is None else self._admissible.index(f"{_EXAMINE}{last}")
        following = [command for command in self._admissible[behind:] if command.startswith(_GO)]
        way = next(iter(following or self._with(_GO)), None)
        if way is None:
            return thought, "look"
        place = "here" if last is None else f"at {last}"
        return f"{thought} {place}, next is {way.removeprefix(_GO)}", way

    def _with(self, start: str) -> list[str]:
        return [command for command in self._admissible if command.startswith(start)]


def _object(command: str) -> str:
    return command.removeprefix(_MOVE).split(" to ")[0]


def _place(command: str) -> str:
    return command.split(" to ")[1]
