"""Routes each episode to the place that has its prefix cache, among several that answer."""

from collections.abc import Sequence
from typing import Final, Generic, Protocol, TypeVar

MEMORY: Final = 65_536
"""Number of episodes whose place is remembered; the oldest are forgotten first."""


class Place(Protocol):
    """Something that answers requests."""

    @property
    def load(self) -> int:
        """Number of requests in flight."""


AnyPlace = TypeVar("AnyPlace", bound=Place)


class Homes(Generic[AnyPlace]):
    """Remembers where each episode is played."""

    def __init__(self) -> None:
        self._homes: dict[int, AnyPlace] = {}

    def choose(self, affinity: int, places: Sequence[AnyPlace]) -> AnyPlace:
        """Choose a request's place: its episode's, or the least loaded if that is overloaded.

        Args:
            affinity: The episode.
            places: The available places, at least one.
        """
        idlest = min(places, key=lambda one: one.load)
        home = self._homes.pop(affinity, None)
        if home is None or home not in places or home.load > 2 * idlest.load + 8:
            home = idlest
        self._homes[affinity] = home
        if len(self._homes) > MEMORY:
            del self._homes[next(iter(self._homes))]
        return home
