"""What a number of places can do at best with episodes whose turns depend on each other."""

import heapq
from collections.abc import Iterable


def place_share(turns: Iterable[int], places: int) -> float:
    """Share of full use that list scheduling reaches, if every turn takes equally long.

    Episodes start in the given order as places become free. Toward the end places stay empty,
    however little the harness itself costs: a rollout is that much slower than the same requests
    offered without dependence on each other, where throughput follows the number in flight.

    Args:
        turns: Turns of every episode, in the order in which they start.
        places: Episodes in flight.
    """
    lengths = list(turns)
    free = [0] * places
    for length in lengths:
        heapq.heappush(free, heapq.heappop(free) + length)
    return sum(lengths) / (places * max(free))
