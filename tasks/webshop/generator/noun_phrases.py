"""Noun phrases for a kind of product with the requested attributes."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from tasks.seeding import pick
from tasks.webshop.generator.draw import happens
from tasks.webshop.generator.tables import Form, ProductKind, Trait
from tasks.webshop.generator.wording import listed, with_article

_BEFORE_CHANCE = 0.7
"""Share of adjectives and materials that stand before the noun if they may."""
_MOST_BEFORE = 2
_CONTRACTION_CHANCE = 0.4


@dataclass(frozen=True, slots=True)
class NounPhrase:
    """A kind of product with what is asked of it.

    Attributes:
        head: The noun with what stands before it, without article.
        tail: What follows the noun, with a space before it; may be empty.
    """

    head: str
    tail: str

    @property
    def bare(self) -> str:
        """Without article."""
        return self.head + self.tail


def noun_phrase(
    kind: ProductKind, traits: Sequence[Trait], plural: bool, rng: random.Random
) -> NounPhrase:
    """Put traits before and after the noun.

    Args:
        kind: What is asked for.
        traits: What it must be or have.
        plural: Whether to speak of several of what can be counted.
        rng: Decides what stands where.
    """
    sorts = [trait for trait in traits if is_sort(trait)]
    of = [trait for trait in traits if trait.role == "of"]
    adjectives = [trait for trait in traits if trait.role == "is" and not is_sort(trait)]
    before = [trait for trait in adjectives if happens(_BEFORE_CHANCE, rng)][:_MOST_BEFORE]
    material = [trait for trait in of if happens(_BEFORE_CHANCE, rng)]
    noun = kind.name if plural else kind.noun
    words = [", ".join(trait.name for trait in before)]
    words += [trait.name for trait in (*material, *sorts)]
    head = " ".join(word for word in (*words, noun) if word)
    placed = (*sorts, *before, *material)
    rest = [trait for trait in traits if trait not in placed]
    return NounPhrase(head, _tail(rest, plural or kind.number == "many", rng))


def is_sort(trait: Trait) -> bool:
    """Whether a trait says what sort of its kind a thing is, as in `dark roast coffee`."""
    return isinstance(trait, Form) and trait.role == "is"


def with_quantity(kind: ProductKind, phrase: NounPhrase, rng: random.Random) -> str:
    """The phrase with its article, or with how much of it is wanted."""
    if kind.number == "one":
        return with_article(phrase.bare)
    starts = ["some "] if kind.number == "mass" else [""]
    if kind.unit:
        starts = [with_article(kind.unit) + " ", with_article(kind.unit) + " ", ""]
    return pick(starts, rng) + phrase.bare


def _tail(traits: Sequence[Trait], plural: bool, rng: random.Random) -> str:
    """With an adjective, a relative clause; else prepositions."""
    if not traits:
        return ""
    if any(trait.role == "is" for trait in traits):
        clause = listed(
            verbs(traits, ("are", "have", "come") if plural else ("is", "has", "comes"))
        )
        if clause.startswith("is ") and happens(_CONTRACTION_CHANCE, rng):
            return f" that's {clause.removeprefix('is ')}"
        return f" that {clause}"
    parts = []
    for role, opening in (("of", "made of"), ("in", "in"), ("with", "with"), ("for", "for")):
        if said := [trait.phrase for trait in traits if trait.role == role]:
            parts.append(f" {opening} {listed(said)}")
    return "".join(parts)


def verbs(traits: Sequence[Trait], forms: tuple[str, str, str]) -> list[str]:
    """What a thing is or has, as verbs: `be leak proof and bpa free`, `have a wide mouth`.

    Args:
        traits: What it is or has.
        forms: The verbs be, have and come as they are used.
    """
    be, have, come = forms
    said = {
        f"{be} ": [trait.name for trait in traits if trait.role == "is"],
        f"{be} made of ": [trait.phrase for trait in traits if trait.role == "of"],
        f"{have} ": [trait.phrase for trait in traits if trait.role == "with"],
        f"{come} in ": [trait.phrase for trait in traits if trait.role == "in"],
        f"{be} suitable for ": [trait.phrase for trait in traits if trait.role == "for"],
    }
    return [opening + listed(names) for opening, names in said.items() if names]
