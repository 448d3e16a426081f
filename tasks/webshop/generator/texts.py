"""The texts of a product's pages: name, description and bullets."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tasks.seeding import pick
from tasks.webshop.generator.draw import between, happens, shuffled
from tasks.webshop.generator.tables import Department, Form, ProductKind, Role, Trait
from tasks.webshop.generator.wording import (
    capitalized,
    filled,
    listed,
    slots_of,
    spoken,
    title_case,
    with_article,
)

FEWEST_TITLE_WORDS = 6
MOST_TITLE_WORDS = 14
LONGEST_TITLE = 90
LONGEST_DESCRIPTION = 220
FEWEST_BULLETS = 3
MOST_BULLETS = 5

_TITLE_DRAWS = 200
_SUMMARY_CHANCE = 0.35
_SUBJECT_CHANCE = 0.4
_CLOSING_CHANCE = 0.4
_OPENINGS: Mapping[Role, str] = {
    "is": "",
    "of": "made of ",
    "with": "with ",
    "in": "in ",
    "for": "made for ",
}
_ROLE_GAPS: Mapping[str, Role] = {"pre": "is", "w": "with"}
"""Gaps of names that only traits of one role fit: before the noun, and after `with`."""
_TITLE_GAPS = ("t1", "t2", "t3")


@dataclass(frozen=True, slots=True)
class Design:
    """What a product is, before it is put into words.

    Attributes:
        department: Where it is sold.
        kind: What it is.
        brand: Who makes it.
        use: What it is said to be for.
        form: Its form.
        traits: Its traits.
    """

    department: Department
    kind: ProductKind
    brand: str
    use: str
    form: Form
    traits: tuple[Trait, ...]

    @property
    def attributes(self) -> tuple[str, ...]:
        """What a shopper may ask for."""
        return (self.form.name, *(trait.name for trait in self.traits))


def write_title(design: Design, rng: random.Random) -> str:
    """A name with some of the traits.

    Raises:
        ValueError: No pattern of the kind gives a name of the right length.
    """
    for _ in range(_TITLE_DRAWS):
        title = _title(pick(design.kind.titles, rng), design, rng)
        if (
            title is not None
            and len(title) <= LONGEST_TITLE
            and FEWEST_TITLE_WORDS <= len(title.split()) <= MOST_TITLE_WORDS
            and title.count(" for ") < 2
        ):
            return title
    raise ValueError(f"{design.kind.name}: no name of the right length in {_TITLE_DRAWS} draws")


def _title(pattern: str, design: Design, rng: random.Random) -> str | None:
    """A pattern filled at random; None if the product has too few traits for it."""
    left = shuffled(design.traits, rng)
    words = {
        "brand": design.brand,
        "line": pick(design.department.lines, rng),
        "use": title_case(design.use),
        "form": design.form.title,
    }
    slots = slots_of(pattern)
    for slot, role in _ROLE_GAPS.items():
        if slot in slots:
            fitting = next((trait for trait in left if trait.role == role), None)
            if fitting is None:
                return None
            left.remove(fitting)
            words[slot] = fitting.title
    gaps = [gap for gap in _TITLE_GAPS if gap in slots]
    if len(gaps) > len(left):
        return None
    # What it is for goes last: "Scent Free, for Dry Hair".
    chosen = sorted(left[: len(gaps)], key=lambda trait: trait.role == "for")
    words.update(zip(gaps, (trait.title for trait in chosen), strict=True))
    return filled(pattern, words)


def write_description(design: Design, title: str, rng: random.Random) -> str:
    """One to three sentences: what it is, mostly what the name leaves out, and a closing."""
    form = spoken(design.form.name)
    words = {
        "brand": design.brand,
        "a_brand": with_article(design.brand),
        "A_brand": capitalized(with_article(design.brand)),
        "use": design.use,
        "form": form,
        "Form": capitalized(form),
        "a_form": with_article(form),
        "A_form": capitalized(with_article(form)),
    }
    sentences = [filled(pick(design.kind.descriptions, rng), words)]
    silent = [trait for trait in design.traits if trait.name not in title.lower()]
    if happens(_SUMMARY_CHANCE, rng) and silent:
        told = shuffled(silent, rng)[: between(1, 2, rng)]
        sentences.append(_summary(told, design.kind.number == "many", rng))
    if happens(_CLOSING_CHANCE, rng):
        sentences.append(filled(pick(design.department.closings, rng), words))
    while len(" ".join(sentences)) > LONGEST_DESCRIPTION:
        sentences.pop()
    return " ".join(sentences)


def _summary(traits: Sequence[Trait], plural: bool, rng: random.Random) -> str:
    """Such as `It is leak proof and dishwasher safe, with a wide mouth`."""
    parts = []
    for role, opening in _OPENINGS.items():
        if phrases := [spoken(trait.phrase) for trait in traits if trait.role == role]:
            parts.append(opening + listed(phrases))
    adjectives = sum(trait.role == "is" for trait in traits)
    # One adjective alone is not a sentence.
    alone = adjectives == len(traits) == 1
    subject = ""
    if alone or (adjectives and happens(_SUBJECT_CHANCE, rng)):
        subject = "they are " if plural else "it is "
    return capitalized(subject + ", ".join(parts)) + "."


def write_bullets(
    design: Design, title: str, description: str, rng: random.Random
) -> tuple[str, ...]:
    """Three to five sentences that carry every attribute which the other texts leave out.

    The first one says what the name does not, for it is the one that the search finds.
    """
    above = f"{title} {description}".lower()
    traits: list[Trait] = shuffled((design.form, *design.traits), rng)
    needed = [trait for trait in traits if trait.name not in above]
    spare = [trait for trait in traits if trait.name in above]
    count = max(len(needed), between(FEWEST_BULLETS, MOST_BULLETS, rng))
    lines = [pick(trait.bullets, rng) for trait in (*needed, *spare)]
    details = shuffled(design.kind.details, rng)
    first, rest = lines[0], lines[1 : len(needed)]
    extra = shuffled([*lines[max(1, len(needed)) :], *details[:2]], rng)
    rest += extra[: count - 1 - len(rest)]
    return (first, *shuffled(rest, rng))
