"""Normalizes PDDL conditions and effects for joins with a state."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from tasks.alfworld.engine.facts import Arguments
from tasks.alfworld.engine.pddl import Action, Domain, Expression, PddlError, typed_list

EQUAL = "="
MOST_FORMS = 64
"""Alternatives of one condition; those of the pinned domain have two."""

_COST = "increase"


@dataclass(frozen=True, slots=True)
class Atom:
    """A predicate with variables or objects (`?o`, `agent1`) as arguments; `=` compares."""

    predicate: str
    arguments: Arguments

    @property
    def variables(self) -> tuple[str, ...]:
        """Those of the arguments that are variables."""
        return tuple(name for name in self.arguments if name.startswith("?"))


@dataclass(frozen=True, slots=True)
class Literal:
    """An atom that must hold or must not."""

    atom: Atom
    positive: bool


@dataclass(frozen=True, slots=True)
class Conjunction:
    """Literals that must all be so, over typed variables (`?o` -> type)."""

    literals: tuple[Literal, ...]
    types: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Effect:
    """A fact that an action makes true or false, where its condition holds."""

    literal: Literal
    condition: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class Schema:
    """An action in a form that can be joined.

    Attributes:
        name: Lower case.
        parameters: Names with their question marks.
        alternatives: It applies where one of these holds.
        effects: What it does.
    """

    name: str
    parameters: tuple[str, ...]
    alternatives: tuple[Conjunction, ...]
    effects: tuple[Effect, ...]

    @property
    def can_be_idle(self) -> bool:
        """Whether there may be arguments for which it makes true only what it asks for."""
        asked = {
            literal.atom.predicate
            for form in self.alternatives
            for literal in form.literals
            if literal.positive
        }
        return len(self.alternatives) == 1 and all(
            effect.literal.atom.predicate in asked and not effect.condition
            for effect in self.effects
        )


def schemas_of(domain: Domain) -> tuple[Schema, ...]:
    """Bring all actions of a domain into their form.

    Raises:
        PddlError: A construct that is not understood here.
    """
    return tuple(_schema(action, domain) for action in domain.actions)


def alternatives_of(
    expression: Expression, types: Mapping[str, str], domain: Domain
) -> tuple[Conjunction, ...]:
    """The disjunctive normal form of a condition; variables of `exists` become free ones.

    Raises:
        PddlError: A construct that is not understood here, or an unknown predicate.
    """
    fresh = dict(types)
    return tuple(
        Conjunction(literals, fresh) for literals in _normal_form(expression, {}, fresh, domain)
    )


def changing_predicates(schemas: Sequence[Schema]) -> frozenset[str]:
    """Predicates that some action changes."""
    return frozenset(
        effect.literal.atom.predicate for schema in schemas for effect in schema.effects
    )


def _schema(action: Action, domain: Domain) -> Schema:
    types = {f"?{parameter.name}": parameter.type for parameter in action.parameters}
    return Schema(
        action.name,
        tuple(types),
        alternatives_of(action.precondition, types, domain),
        tuple(_effects(action.effect, (), types, domain)),
    )


def _effects(
    expression: Expression,
    condition: tuple[Literal, ...],
    types: dict[str, str],
    domain: Domain,
) -> Iterator[Effect]:
    match expression:
        case ("and", *parts):
            for part in parts:
                yield from _effects(part, condition, types, domain)
        case ("when", tested, effect):
            asked = _single(tested, {}, types, domain)
            yield from _effects(effect, (*condition, asked), types, domain)
        case (str(head), *_) if head == _COST:
            pass  # what an action costs matters to planners only
        case _:
            yield Effect(_single(expression, {}, types, domain), condition)


def _single(
    expression: Expression, renamed: Mapping[str, str], types: dict[str, str], domain: Domain
) -> Literal:
    """An atom or its negation."""
    match _normal_form(expression, renamed, types, domain):
        case [(literal,)]:
            return literal
        case _:
            raise PddlError(f"{str(expression)[:60]} is not an atom or a negated atom")


def _normal_form(
    expression: Expression, renamed: Mapping[str, str], types: dict[str, str], domain: Domain
) -> list[tuple[Literal, ...]]:
    """Disjunction of conjunctions; `types` receives the variables of `exists` under new names."""
    match expression:
        case ():
            return [()]
        case ("and", *parts):
            branches = [_normal_form(part, renamed, types, domain) for part in parts]
            if prod(map(len, branches)) > MOST_FORMS:
                raise PddlError(f"a condition has more than {MOST_FORMS} alternatives")
            return [sum(choice, ()) for choice in product(*branches)]
        case ("or", *parts):
            return [form for part in parts for form in _normal_form(part, renamed, types, domain)]
        case ("exists", tuple(names), part):
            own = dict(renamed)
            for parameter in typed_list(names):
                variable = f"?{parameter.name}"
                own[variable] = f"{variable}.{len(types)}"
                types[own[variable]] = parameter.type
            return _normal_form(part, own, types, domain)
        case ("not", part):
            literal = _single(part, renamed, types, domain)
            return [(Literal(literal.atom, not literal.positive),)]
        case (str(predicate), *arguments):
            words = [word for word in arguments if isinstance(word, str)]
            if len(words) == len(arguments):
                values = tuple([renamed.get(word, word) for word in words])
                return [(Literal(_atom(predicate, values, types, domain), True),)]
    raise PddlError(f"condition {str(expression)[:60]} is not understood")


def _atom(predicate: str, arguments: Arguments, types: Mapping[str, str], domain: Domain) -> Atom:
    for name in arguments:
        if name.startswith("?") and name not in types:
            raise PddlError(f"{predicate} is asked of {name}, which is undefined")
    if predicate != EQUAL and predicate not in domain.predicates:
        raise PddlError(f"unknown predicate {predicate!r}")
    expected = 2 if predicate == EQUAL else len(domain.predicates[predicate])
    if len(arguments) != expected:
        raise PddlError(f"{predicate} takes {expected} arguments, not {len(arguments)}")
    return Atom(predicate, arguments)
