"""The facts of a state, indexed for texts and logic."""

from collections.abc import Iterable, Mapping

Arguments = tuple[str, ...]

_NONE: frozenset[Arguments] = frozenset()
_NOT = "not_"


class Facts:
    """What holds now.

    As in TextWorld's state, a fact that an action made false is also kept in the negative: the text
    grammar asks for `not_inreceptacle`.

    Args:
        held: Argument tuples by predicate.
        changing: Predicates that actions can change; all others are shared between copies.
    """

    __slots__ = ("_changing", "_held", "_indexes", "_ordered")

    def __init__(
        self, held: Mapping[str, Iterable[Arguments]], changing: frozenset[str] = frozenset()
    ) -> None:
        self._held: dict[str, set[Arguments]] = {name: set(facts) for name, facts in held.items()}
        self._changing = changing
        self._ordered: dict[str, list[Arguments]] = {}
        self._indexes: dict[tuple[str, int], dict[str, list[Arguments]]] = {}

    def copy(self) -> "Facts":
        """A state that changes by itself."""
        twin = Facts({}, self._changing)
        twin._held = {
            name: set(facts) if name.removeprefix(_NOT) in self._changing else facts
            for name, facts in self._held.items()
        }
        twin._ordered = dict(self._ordered)
        # Only of what no action changes, so it can be shared.
        twin._indexes = self._indexes
        return twin

    def holds(self, predicate: str, arguments: Arguments) -> bool:
        """Whether a fact is true."""
        return arguments in self._held.get(predicate, _NONE)

    def all(self, predicate: str) -> Iterable[Arguments]:
        """The facts of a predicate, in no particular order."""
        return self._held.get(predicate, _NONE)

    def ordered(self, predicate: str) -> list[Arguments]:
        """The facts of a predicate, sorted: the order in which texts list things."""
        facts = self._ordered.get(predicate)
        if facts is None:
            facts = self._ordered[predicate] = sorted(self._held.get(predicate, _NONE))
        return facts

    def with_argument(self, predicate: str, position: int, value: str) -> Iterable[Arguments]:
        """The facts of a predicate that have a value at a position.

        May be any superset for a predicate that actions change: those are few, and to scan them
        costs less than to keep an index.
        """
        if predicate in self._changing:
            return self._held.get(predicate, _NONE)
        index = self._indexes.get((predicate, position))
        if index is None:
            index = {}
            for fact in sorted(self._held.get(predicate, _NONE)):
                index.setdefault(fact[position], []).append(fact)
            # Copies in other threads share it: it is there as a whole or not at all.
            self._indexes[predicate, position] = index
        return index.get(value, ())

    def add(self, predicate: str, arguments: Arguments) -> None:
        """Make a fact true."""
        self._drop(_NOT + predicate, arguments)
        self._put(predicate, arguments)

    def remove(self, predicate: str, arguments: Arguments) -> None:
        """Make a fact false, and remember that it was made so."""
        self._drop(predicate, arguments)
        self._put(_NOT + predicate, arguments)

    def _put(self, predicate: str, arguments: Arguments) -> None:
        self._held.setdefault(predicate, set()).add(arguments)
        self._ordered.pop(predicate, None)

    def _drop(self, predicate: str, arguments: Arguments) -> None:
        if predicate in self._held:
            self._held[predicate].discard(arguments)
            self._ordered.pop(predicate, None)
