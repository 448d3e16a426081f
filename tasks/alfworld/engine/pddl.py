"""Parses PDDL: the domain of the pinned package and the problems of single games.

Only what this domain uses is understood (typing, ADL preconditions, conditional effects, action
costs); anything else is refused rather than guessed at. Names are lower-cased, as Fast Downward's
parser does.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tasks.texts import cut

LONGEST_TEXT = 4_000_000
"""Characters of a problem; the largest real one has about 120,000."""

_DEEPEST = 64
_TOKEN = re.compile(r"[()]|[^\s()]+")
_COMMENT = re.compile(r";[^\n]*")

Expression: TypeAlias = "str | tuple[Expression, ...]"


class PddlError(ValueError):
    """A text is not PDDL, or says something that the domain does not allow."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A typed variable, without its question mark."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Action:
    """An action schema; precondition and effect are still expressions."""

    name: str
    parameters: tuple[Parameter, ...]
    precondition: Expression
    effect: Expression


@dataclass(frozen=True, slots=True)
class Domain:
    """A PDDL domain.

    Attributes:
        name: Its name.
        types: All types; every type is a subtype of `object` and of nothing else.
        predicates: Parameter types of each predicate.
        actions: In the text's order.
    """

    name: str
    types: frozenset[str]
    predicates: Mapping[str, tuple[str, ...]]
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """A PDDL problem that was checked against its domain.

    Attributes:
        objects: Type of each object.
        facts: What holds at the start: the argument tuples of each predicate.
        goal: The goal's expression.
    """

    objects: Mapping[str, str]
    facts: Mapping[str, frozenset[tuple[str, ...]]]
    goal: Expression


def read_expression(text: str) -> Expression:
    """Read one parenthesised expression.

    Raises:
        PddlError: The text is too long, not balanced, nested too deeply or not one expression.
    """
    if len(text) > LONGEST_TEXT:
        raise PddlError(f"{len(text)} characters, but at most {LONGEST_TEXT} are read")
    if not text.isascii():
        raise PddlError("it has characters that are not ASCII")
    stack: list[list[Expression]] = [[]]
    for word in _TOKEN.findall(_COMMENT.sub("", text).lower()):
        if word == "(":
            if len(stack) > _DEEPEST:
                raise PddlError(f"parentheses are nested more than {_DEEPEST} deep")
            stack.append([])
        elif word == ")":
            if len(stack) == 1:
                raise PddlError("a parenthesis is closed that was not opened")
            closed = tuple(stack.pop())
            stack[-1].append(closed)
        else:
            stack[-1].append(word)
    if len(stack) != 1:
        raise PddlError("a parenthesis is not closed")
    if len(stack[0]) != 1 or isinstance(stack[0][0], str):
        raise PddlError("it is not one parenthesised expression")
    return stack[0][0]


def read_domain(text: str) -> Domain:
    """Read a domain.

    Raises:
        PddlError: It is not a domain, or uses what is not understood here.
    """
    sections = list(_sections(read_expression(text), "domain"))
    name = sections[0]
    types: set[str] = {"object"}
    predicates: dict[str, tuple[str, ...]] = {}
    actions = []
    for section in sections[1:]:
        match section:
            case (":requirements", *_) | (":functions", *_):
                pass
            case (":types", *names):
                for typed in typed_list(tuple(names)):
                    if typed.type != "object":
                        raise PddlError(f"type {typed.name}: hierarchies are not understood")
                    types.add(typed.name)
            case (":predicates", *signatures):
                for signature in signatures:
                    head, *parameters = _tuple(signature)
                    predicates[_word(head)] = tuple(
                        parameter.type for parameter in typed_list(tuple(parameters))
                    )
            case (":action", str(action), *rest):
                actions.append(_action(action, tuple(rest)))
            case _:
                raise PddlError(f"section {_shown(section)} is not understood")
    return Domain(_word(name), frozenset(types), predicates, tuple(actions))


def read_problem(text: str, domain: Domain) -> Problem:
    """Read a problem and check it against its domain.

    Raises:
        PddlError: It is not a problem, names another domain, or uses an object, type or predicate
            that is not declared or does not fit.
    """
    objects: dict[str, str] = {}
    facts: dict[str, set[tuple[str, ...]]] = {name: set() for name in domain.predicates}
    goal: Expression | None = None
    started = False
    for section in list(_sections(read_expression(text), "problem"))[1:]:
        match section:
            case (":domain", str(name)):
                if name != domain.name:
                    raise PddlError(f"it is of domain {name!r}, not {domain.name!r}")
            case (":objects", *names):
                _declare(typed_list(tuple(names)), objects, domain)
            case (":init", *atoms):
                started = True
                for atom in atoms:
                    fact = _fact(atom, objects, domain)
                    if fact is not None:
                        facts[fact[0]].add(fact[1])
            case (":goal", expression):
                goal = expression
            case (":metric", *_) | (":requirements", *_):
                pass
            case _:
                raise PddlError(f"section {_shown(section)} is not understood")
    if goal is None or not started:
        raise PddlError("it has no goal" if goal is None else "it has no initial state")
    return Problem(objects, {name: frozenset(held) for name, held in facts.items()}, goal)


def typed_list(words: tuple[Expression, ...]) -> Iterator[Parameter]:
    """Read `a b - type c - type`; what has no type is an `object`.

    A comma belongs to the word that it stands behind, as in Fast Downward's reader: the package's
    domain has a quantifier over `?l - location, ?r - receptacle`, and as no object is of the type
    `location,`, nothing that merely lies there can be examined.
    """
    waiting: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "-":
            kind = next(rest, None)
            if not isinstance(kind, str):
                raise PddlError("a type is missing after '-'")
            yield from (Parameter(name, kind) for name in waiting)
            waiting = []
        else:
            waiting.append(_word(word).lstrip("?"))
    yield from (Parameter(name, "object") for name in waiting)


def _sections(expression: Expression, kind: str) -> Iterator[Expression]:
    """The name and then the sections of a `(define (kind name) ...)`."""
    match expression:
        case ("define", (str(found), str(name)), *sections) if found == kind:
            yield name
            yield from sections
        case _:
            raise PddlError(f"it is not a PDDL {kind}")


def _action(name: str, parts: tuple[Expression, ...]) -> Action:
    fields = dict(zip(parts[::2], parts[1::2], strict=True))
    unknown = fields.keys() - {":parameters", ":precondition", ":effect"}
    if unknown or ":effect" not in fields:
        raise PddlError(f"action {name} is not understood")
    return Action(
        name,
        tuple(typed_list(_tuple(fields.get(":parameters", ())))),
        fields.get(":precondition", ()),
        fields[":effect"],
    )


def _declare(names: Iterator[Parameter], objects: dict[str, str], domain: Domain) -> None:
    for typed in names:
        if typed.type not in domain.types:
            raise PddlError(f"object {typed.name} has the unknown type {typed.type}")
        if typed.name in objects:
            raise PddlError(f"object {typed.name} is declared twice")
        objects[typed.name] = typed.type


def _fact(
    atom: Expression, objects: Mapping[str, str], domain: Domain
) -> tuple[str, tuple[str, ...]] | None:
    """Check one atom of the initial state; costs and distances give None."""
    head, *arguments = _tuple(atom)
    if head == "=":
        return None
    name = _word(head)
    names = tuple(_word(argument) for argument in arguments)
    if name not in domain.predicates:
        raise PddlError(f"the initial state has the unknown predicate {name!r}")
    types = domain.predicates[name]
    if len(names) != len(types):
        raise PddlError(f"{name} takes {len(types)} arguments, the initial state has {len(names)}")
    for argument, wanted in zip(names, types, strict=True):
        if argument not in objects:
            raise PddlError(f"{name} of the initial state: {argument!r} is not declared")
        if objects[argument] != wanted:
            raise PddlError(
                f"{name} of the initial state: {argument!r} is of type {objects[argument]}, "
                f"not {wanted}"
            )
    return name, names


def _tuple(expression: Expression) -> tuple[Expression, ...]:
    if isinstance(expression, str):
        raise PddlError(f"a parenthesis is missing before {expression!r}")
    return expression


def _word(expression: Expression) -> str:
    if not isinstance(expression, str):
        raise PddlError(f"a name is missing before {_shown(expression)}")
    return expression


def _shown(expression: Expression) -> str:
    text = expression if isinstance(expression, str) else f"({' '.join(map(_shown, expression))})"
    return cut(text, 40, "...")
