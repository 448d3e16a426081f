"""Parses PDDL, and rejects invalid or unsupported input."""

import pytest

from tasks.alfworld.engine.game import rules
from tasks.alfworld.engine.pddl import PddlError, read_domain, read_expression, read_problem

DOMAIN = """
(define (domain shop) ; a comment
  (:requirements :typing)
  (:types item place)
  (:predicates (at ?i - item ?p - place) (sold ?i - item))
  (:functions (total-cost) - number)
  (:action sell :parameters (?i - item ?p - place)
     :precondition (and (at ?i ?p) (not (sold ?i)))
     :effect (and (sold ?i) (increase (total-cost) 1))))
"""
PROBLEM = """
(define (problem one) (:domain shop)
  (:objects Cup - item Shelf - place)
  (:init (at Cup Shelf) (= (total-cost) 0))
  (:goal (and (sold Cup))))
"""


def test_expressions() -> None:
    assert read_expression("(A (b ?C)) ; end") == ("a", ("b", "?c"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not one"),
        ("a", "not one"),
        ("(a) (b)", "not one"),
        ("(a", "not closed"),
        ("a)", "not opened"),
        ("(" * 100 + ")" * 100, "nested more than 64"),
        ("(café)", "ASCII"),
        ("(" + "a " * 2_000_001 + ")", "characters, but at most"),
    ],
)
def test_what_is_no_expression(text: str, reason: str) -> None:
    with pytest.raises(PddlError, match=reason):
        read_expression(text)


def test_a_domain() -> None:
    domain = read_domain(DOMAIN)
    assert domain.name == "shop"
    assert domain.types == {"object", "item", "place"}
    assert domain.predicates == {"at": ("item", "place"), "sold": ("item",)}
    (action,) = domain.actions
    assert [(item.name, item.type) for item in action.parameters] == [("i", "item"), ("p", "place")]


def test_a_comma_belongs_to_its_type() -> None:
    """As in Fast Downward; in the pinned domain, no object can therefore be examined in place."""
    text = "(define (domain d) (:predicates (p ?a - x, ?b - y)))"
    assert read_domain(text).predicates == {"p": ("x,", "y")}


def test_a_problem() -> None:
    problem = read_problem(PROBLEM, read_domain(DOMAIN))
    assert problem.objects == {"cup": "item", "shelf": "place"}
    assert problem.facts == {"at": {("cup", "shelf")}, "sold": frozenset()}
    assert problem.goal == ("and", ("sold", "cup"))


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("(define (problem one)", "(define (domain one)", "not a PDDL problem"),
        (":domain shop", ":domain farm", "of domain 'farm', not 'shop'"),
        ("Cup - item", "Cup - animal", "unknown type animal"),
        ("Cup - item", "Cup Cup - item", "cup is declared twice"),
        ("Cup - item", "Cup -", "unknown type"),
        ("Shelf - place)", "Shelf -)", "type is missing"),
        ("(at Cup Shelf)", "(at Cup Table)", "'table' is not declared"),
        ("(at Cup Shelf)", "(at Shelf Cup)", "'shelf' is of type place, not item"),
        ("(at Cup Shelf)", "(at Cup)", "at takes 2 arguments, the initial state has 1"),
        ("(at Cup Shelf)", "(flies Cup)", "unknown predicate 'flies'"),
        ("(at Cup Shelf)", "Cup", "parenthesis is missing before 'cup'"),
        ("(at Cup Shelf)", "((at) Cup)", "name is missing"),
        ("(:goal (and (sold Cup)))", "", "no goal"),
        ("(:init (at Cup Shelf) (= (total-cost) 0))", "", "no initial state"),
        ("(:goal", "(:constraints) (:goal", "section .:constraints. is not understood"),
    ],
)
def test_what_the_domain_rejects(old: str, new: str, reason: str) -> None:
    assert old in PROBLEM
    with pytest.raises(PddlError, match=reason):
        read_problem(PROBLEM.replace(old, new), read_domain(DOMAIN))


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("(:types item place)", "(:types cup - item)", "hierarchies are not understood"),
        ("(:requirements :typing)", "(:axiom)", "is not understood"),
        (":effect", ":result", "action sell is not understood"),
    ],
)
def test_domains_that_are_not_understood(old: str, new: str, reason: str) -> None:
    with pytest.raises(PddlError, match=reason):
        read_domain(DOMAIN.replace(old, new))


def test_the_pinned_domain() -> None:
    domain = rules().domain
    assert len(domain.actions) == 15
    assert domain.predicates["inreceptacle"] == ("object", "receptacle")
    assert {action.name for action in domain.actions} <= rules().grammar.actions
