"""Lifted joins: finds where a condition holds in a state, without grounding the problem.

TextWorld has Fast Downward ground every problem first (half a second, thousands of operators),
although a turn asks only for the few dozen actions that apply now. Here a condition is joined with
the facts of the state directly, in an order that is planned once a game. What applies is defined by
PDDL's semantics, so it is the same.
"""

from collections.abc import Callable, Iterator, Sequence

from tasks.alfworld.engine.facts import Arguments, Facts
from tasks.alfworld.engine.logic import EQUAL, Atom, Conjunction, Literal
from tasks.alfworld.engine.pddl import Domain, PddlError, Problem

Variables = list[str]
"""Values by slot; a slot is written before it is read."""

Step = Callable[[Facts, Variables], Iterator[None]]
"""Writes slots and yields once for every way to do so."""

_ANY = "object"


class Join:
    """Finds all values of variables for which a conjunction holds.

    Args:
        conjunction: What must hold.
        wanted: Variables whose values are asked for; others are only needed on the way.
        problem: Objects and initial facts; what has few facts at the start is joined first.
        domain: Types of predicates.

    Raises:
        PddlError: The conjunction names an object that the problem does not declare.
    """

    def __init__(
        self, conjunction: Conjunction, wanted: Sequence[str], problem: Problem, domain: Domain
    ) -> None:
        self._problem = problem
        self._domain = domain
        self._types = conjunction.types
        self._wanted = len(wanted)
        needed = dict.fromkeys(
            [*wanted, *(name for item in conjunction.literals for name in item.atom.variables)]
        )
        self._slots = {name: slot for slot, name in enumerate(needed)}
        self._steps = self._plan(conjunction)

    def bindings(self, facts: Facts) -> Iterator[Arguments]:
        """Values of the wanted variables; the same values may come more than once."""
        variables = [""] * len(self._slots)
        for _ in self._run(0, facts, variables):
            yield tuple(variables[: self._wanted])

    def holds(self, facts: Facts) -> bool:
        """Whether there are any values."""
        return any(True for _ in self._run(0, facts, [""] * len(self._slots)))

    def _run(self, number: int, facts: Facts, variables: Variables) -> Iterator[None]:
        if number == len(self._steps):
            yield
            return
        for _ in self._steps[number](facts, variables):
            yield from self._run(number + 1, facts, variables)

    def _plan(self, conjunction: Conjunction) -> tuple[Step, ...]:
        """Tests as soon as their variables are bound, then whatever binds the fewest values."""
        steps: list[Step] = []
        bound: set[str] = set()
        waiting = list(conjunction.literals)
        while waiting or len(bound) < len(self._slots):
            tests = [literal for literal in waiting if bound.issuperset(literal.atom.variables)]
            atoms = [literal for literal in waiting if _binds(literal)]
            if tests:
                steps.extend(self._test(literal) for literal in tests)
                waiting = [literal for literal in waiting if literal not in tests]
            elif atoms:
                best = min(atoms, key=lambda literal: self._fan_out(literal.atom, bound))
                steps.append(self._match(best.atom, bound))
                bound.update(best.atom.variables)
                waiting.remove(best)
            else:
                name = next(name for name in self._slots if name not in bound)
                steps.append(self._enumerate(name))
                bound.add(name)
        return tuple(steps)

    def _fan_out(self, atom: Atom, bound: set[str]) -> int:
        """About how many facts will fit: one where an argument is known already."""
        size = len(self._problem.facts[atom.predicate])
        known = any(name in bound or not name.startswith("?") for name in atom.arguments)
        return min(size, 1) if known else size

    def _test(self, literal: Literal) -> Step:
        parts = tuple((self._slot(name), name) for name in literal.atom.arguments)
        predicate, positive = literal.atom.predicate, literal.positive

        def arguments(variables: Variables) -> Arguments:
            return tuple([name if slot is None else variables[slot] for slot, name in parts])

        def compare(facts: Facts, variables: Variables) -> Iterator[None]:
            del facts
            first, second = arguments(variables)
            if (first == second) is positive:
                yield

        def test(facts: Facts, variables: Variables) -> Iterator[None]:
            if facts.holds(predicate, arguments(variables)) is positive:
                yield

        return compare if predicate == EQUAL else test

    def _match(self, atom: Atom, bound: set[str]) -> Step:
        """Try all facts that fit what is bound, and bind the rest."""
        predicate = atom.predicate
        free = [
            (position, name)
            for position, name in enumerate(atom.arguments)
            if name.startswith("?") and name not in bound
        ]
        # Facts are of their predicates' types exactly: a variable of another type finds none.
        declared = self._domain.predicates[predicate]
        if any(self._types[name] not in {declared[position], _ANY} for position, name in free):
            return _nothing
        # A variable that occurs twice is bound at its first place and compared at the other.
        writes = tuple(
            (position, self._slots[name])
            for position, name in free
            if atom.arguments.index(name) == position
        )
        reads = tuple(
            (position, self._slot(name), name)
            for position, name in enumerate(atom.arguments)
            if (position, name) not in free or atom.arguments.index(name) != position
        )
        known = [item for item in reads if item[2] not in dict.fromkeys(name for _, name in free)]

        def match(facts: Facts, variables: Variables) -> Iterator[None]:
            if known:
                position, slot, name = known[0]
                value = name if slot is None else variables[slot]
                candidates = facts.with_argument(predicate, position, value)
            else:
                candidates = facts.all(predicate)
            for fact in candidates:
                for position, slot in writes:
                    variables[slot] = fact[position]
                for position, where, name in reads:
                    if fact[position] != (name if where is None else variables[where]):
                        break
                else:
                    yield

        return match

    def _enumerate(self, name: str) -> Step:
        slot, kind = self._slots[name], self._types[name]
        values = sorted(
            item for item, declared in self._problem.objects.items() if kind in {declared, _ANY}
        )

        def each(facts: Facts, variables: Variables) -> Iterator[None]:
            del facts
            for value in values:
                variables[slot] = value
                yield

        return each

    def _slot(self, name: str) -> int | None:
        """The variable's slot; None for an object."""
        if name.startswith("?"):
            return self._slots[name]
        if name not in self._problem.objects:
            raise PddlError(f"{name!r} is used but not declared")
        return None


def _binds(literal: Literal) -> bool:
    return literal.positive and literal.atom.predicate != EQUAL


def _nothing(facts: Facts, variables: Variables) -> Iterator[None]:
    del facts, variables
    yield from ()
