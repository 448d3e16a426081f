"""Keeps an episode where its prefix cache is: one of several places that answer requests."""

from collections.abc import Sequence
from typing import Final, Generic, Protocol, TypeVar

MEMORY: Final = 65_536
"""Episodes whose place is remembered; older ones are forgotten first."""


class Place(Protocol):
    """What answers requests."""

    @property
    def load(self) -> int:
        """Requests that it is answering."""


AnyPlace = TypeVar("AnyPlace", bound=Place)


class Homes(Generic[AnyPlace]):
    """Remembers where each episode is played."""

    def __init__(self) -> None:
        self._homes: dict[int, AnyPlace] = {}

    def choose(self, affinity: int, places: Sequence[AnyPlace]) -> AnyPlace:
        """Where a request goes: its episode's place, or the idlest one if that has far too much.

        Args:
            affinity: The episode.
            places: That can answer, at least one.
        """
        idlest = min(places, key=lambda one: one.load)
        home = self._homes.pop(affinity, None)
        if home is None or home not in places or home.load > 2 * idlest.load + 8:
            home = idlest
        self._homes[affinity] = home
        if len(self._homes) > MEMORY:
            del self._homes[next(iter(self._homes))]
        return home
