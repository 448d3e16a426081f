"""Names of objects in texts and commands: `cabinet 3` for `cabinet_bar__minus_00_dot_36`."""

from collections import Counter
from collections.abc import Iterable, Mapping

_SEPARATOR = "_bar_"
_BASIN = "basin"


def display_names(ids: Iterable[str]) -> Mapping[str, str]:
    """Name all things of a game as the package does.

    A thing's kind is what stands before the first `_bar_` (with `basin` added for basins); those of
    a kind are numbered in the order of their ids, the highest number first. What has no `_bar_` in
    its id is called by it, with a space behind.
    """
    ordered = sorted(set(ids))
    kinds = {name: _kind(name) for name in ordered if _SEPARATOR in name}
    left = Counter(kinds.values())
    names = {}
    for name in ordered:
        if name not in kinds:
            names[name] = f"{name} "
            continue
        kind = kinds[name]
        names[name] = f"{kind} {left[kind]}"
        left[kind] -= 1
    return names


def _kind(name: str) -> str:
    kind = name.split(_SEPARATOR, 1)[0]
    return kind + _BASIN if _BASIN in name else kind


def kind_of(name: str) -> str:
    """The kind in a displayed name: `apple` of `apple 2`."""
    return name.split(" ", maxsplit=1)[0]
