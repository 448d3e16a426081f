"""Conditions, effects and joins, compared with an exhaustive search over all values."""

from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tasks.alfworld.engine.facts import Facts
from tasks.alfworld.engine.join import Join
from tasks.alfworld.engine.logic import (
    alternatives_of,
    changing_predicates,
    schemas_of,
)
from tasks.alfworld.engine.pddl import Domain, PddlError, Problem, read_domain, read_expression

DOMAIN = read_domain(
    "(define (domain d) (:types thing spot) (:predicates"
    " (on ?a - thing ?b - spot) (near ?a - spot ?b - spot) (red ?a - thing)))"
)
OBJECTS = {"a": "thing", "b": "thing", "c": "thing", "x": "spot", "y": "spot"}
THINGS, SPOTS = ("a", "b", "c"), ("x", "y")

CONDITIONS = [
    "(on ?t ?s)",
    "(and (on ?t ?s) (red ?t))",
    "(and (on ?t ?s) (not (red ?t)))",
    "(and (red ?t) (not (on ?t ?s)))",
    "(and (not (red ?t)) (not (near ?s ?s)))",
    "(or (and (on ?t ?s) (red ?t)) (near ?s x))",
    "(and (on ?t ?s) (or (red ?t) (near ?s ?s)))",
    "(exists (?u - thing) (and (on ?u ?s) (not (= ?u ?t))))",
    "(and (on ?t ?s) (exists (?z - spot) (and (near ?s ?z) (exists (?t - thing) (on ?t ?z)))))",
    "(and (on a ?s) (= ?t b))",
    "()",
]


def _truth(
    expression: object, values: dict[str, str], facts: dict[str, set[tuple[str, ...]]]
) -> bool:
    """The semantics of PDDL, by brute force."""
    match expression:
        case ():
            return True
        case ("and", *parts):
            return all(_truth(part, values, facts) for part in parts)
        case ("or", *parts):
            return any(_truth(part, values, facts) for part in parts)
        case ("not", part):
            return not _truth(part, values, facts)
        case ("exists", (name, "-", kind), part):
            return any(
                _truth(part, {**values, str(name): item}, facts)
                for item, own in OBJECTS.items()
                if own == kind
            )
        case (predicate, *words):
            arguments = tuple(values.get(str(word), str(word)) for word in words)
            if predicate == "=":
                return arguments[0] == arguments[1]
            return arguments in facts[str(predicate)]
    raise AssertionError(expression)


_FACTS = st.fixed_dictionaries(
    {
        "on": st.sets(st.tuples(st.sampled_from(THINGS), st.sampled_from(SPOTS))),
        "near": st.sets(st.tuples(st.sampled_from(SPOTS), st.sampled_from(SPOTS))),
        "red": st.sets(st.tuples(st.sampled_from(THINGS))),
    }
)


@example(
    condition="(and (on ?t ?s) (or (red ?t) (near ?s ?s)))",
    start={"on": {("a", "x")}, "near": set(), "red": set()},
    now={"on": {("a", "x")}, "near": {("y", "x")}, "red": set()},
)
@given(condition=st.sampled_from(CONDITIONS), start=_FACTS, now=_FACTS)
def test_joins_find_what_is_true(
    condition: str,
    start: dict[str, set[tuple[str, ...]]],
    now: dict[str, set[tuple[str, ...]]],
) -> None:
    """The plan is made for the initial state, but must be correct in any later state."""
    expression = read_expression(condition)
    problem = Problem(
        OBJECTS, {name: frozenset(facts) for name, facts in start.items()}, expression
    )
    types = {"?t": "thing", "?s": "spot"}
    forms = alternatives_of(expression, types, DOMAIN)
    facts = Facts(now, frozenset({"on"}))
    found = {
        values
        for form in forms
        for values in Join(form, ("?t", "?s"), problem, DOMAIN).bindings(facts)
    }
    expected = {
        (thing, spot)
        for thing, spot in product(THINGS, SPOTS)
        if _truth(expression, {"?t": thing, "?s": spot}, now)
    }
    assert found == expected


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("(flies ?t)", "unknown predicate 'flies'"),
        ("(on ?t)", "on takes 2 arguments, not 1"),
        ("(= ?t)", "= takes 2 arguments, not 1"),
        ("(forall (?t - thing) (red ?t))", "not understood"),
        ("(imply (red ?t) (red ?t))", "not understood"),
        ("(red ?x)", "red is asked of \\?x, which is undefined"),
        ("(not (red ?x))", "red is asked of \\?x, which is undefined"),
        ("(not (and (red ?t) (red a)))", "not an atom or a negated atom"),
        ("(not (or (red ?t) (red a)))", "not an atom or a negated atom"),
        ("(and " + "(or (red ?t) (red a))" * 7 + ")", "more than 64 alternatives"),
    ],
)
def test_conditions_that_are_not_understood(condition: str, reason: str) -> None:
    with pytest.raises(PddlError, match=reason):
        alternatives_of(read_expression(condition), {"?t": "thing"}, DOMAIN)


def test_an_object_that_is_not_declared() -> None:
    (form,) = alternatives_of(read_expression("(on ?t z)"), {"?t": "thing"}, DOMAIN)
    problem = Problem(OBJECTS, {name: frozenset() for name in DOMAIN.predicates}, ())
    with pytest.raises(PddlError, match="'z' is used but not declared"):
        Join(form, ("?t",), problem, DOMAIN)


def test_effects() -> None:
    domain = read_domain(
        "(define (domain d) (:predicates (p ?a) (q ?a) (r ?a)) (:action swap :parameters (?a)"
        " :precondition (p ?a) :effect (and (not (p ?a)) (q ?a) (when (r ?a) (not (r ?a)))"
        " (increase (total-cost) 5))))"
    )
    (schema,) = schemas_of(domain)
    shown = [
        (
            effect.literal.positive,
            effect.literal.atom.predicate,
            [literal.atom.predicate for literal in effect.condition],
        )
        for effect in schema.effects
    ]
    assert shown == [(False, "p", []), (True, "q", []), (False, "r", ["r"])]
    assert changing_predicates([schema]) == {"p", "q", "r"}
    assert not schema.can_be_idle


def _domain_with(effect: str) -> Domain:
    return read_domain(
        "(define (domain d) (:predicates (at ?p)) (:action go :parameters (?from ?to)"
        f" :precondition (at ?from) :effect {effect}))"
    )


def test_actions_that_may_change_nothing() -> None:
    (schema,) = schemas_of(_domain_with("(and (not (at ?from)) (at ?to))"))
    assert schema.can_be_idle


def test_facts_remember_what_was_made_false() -> None:
    facts = Facts({"on": [("b", "x"), ("a", "x")], "red": [("a",)]}, frozenset({"on"}))
    twin = facts.copy()
    twin.remove("on", ("a", "x"))
    twin.remove("on", ("c", "x"))
    assert twin.ordered("on") == [("b", "x")]
    assert twin.ordered("not_on") == [("a", "x"), ("c", "x")]
    assert facts.ordered("on") == [("a", "x"), ("b", "x")]
    twin.add("on", ("c", "x"))
    assert twin.ordered("on") == [("b", "x"), ("c", "x")]
    assert not twin.holds("not_on", ("c", "x"))
    assert list(facts.with_argument("red", 0, "a")) == [("a",)]
    assert list(facts.with_argument("red", 0, "b")) == []


def test_an_index_is_seen_as_a_whole_or_not_at_all() -> None:
    """Copies in other threads share the index; one reads while another builds it."""
    found: list[list[tuple[str, ...]]] = []
    armed: list[bool] = []

    class Looking(str):
        """An argument that reads the index whenever it is hashed."""

        __slots__ = ()

        def __hash__(self) -> int:
            if armed and not found:
                found.append([])
                found[0] = list(facts.copy().with_argument("red", 0, "b"))
            return str.__hash__(self)

    facts = Facts({"red": [("b",), (Looking("a"),)]})
    armed.append(True)
    assert list(facts.with_argument("red", 0, "b")) == [("b",)]
    assert found == [[("b",)]]
