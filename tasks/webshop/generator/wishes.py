"""Samples a goal that a product fulfills, and words it in plain English."""

import random
from collections.abc import Mapping, Sequence

from tasks.seeding import pick
from tasks.webshop.data.goals import Goal
from tasks.webshop.data.products import Product
from tasks.webshop.generator.draw import between, happens, sample, weighted
from tasks.webshop.generator.noun_phrases import is_sort, noun_phrase, verbs, with_quantity
from tasks.webshop.generator.phrases import phrases, with_value
from tasks.webshop.generator.tables import ProductKind, Trait, kinds
from tasks.webshop.generator.wording import capitalized, filled, listed, slots_of

_ATTRIBUTE_COUNTS = (0.0, 0.25, 0.45, 0.3)
"""Probabilities of 0, 1, 2, ... attributes."""
_UNTOLD = 2.0
"""How much more often than others an attribute is asked for that the product's name leaves out."""
_ALL_OPTIONS_CHANCE = 0.85
"""Share of wishes that name a value for each option of the product."""
_NO_LIMIT_CHANCE = 0.2
_SLACK = (0.6, 0.3, 0.1)
"""Probabilities of 0, 1, 2 steps between the first one above the price and the limit."""
_AND_CHANCE = 0.3
_PREPOSITIONS = ("as ", "at ", "for ", "in ", "with ")


def draw_goal(product: Product, rng: random.Random) -> Goal:
    """Draw a wish that the product fulfills.

    Its attributes and option values stand in the instruction as they are. Only `rng.random()` is
    drawn from, whose sequence Python guarantees between versions.

    Args:
        product: One of the built-in catalogue.
        rng: Decides.

    Raises:
        UserError: A word table is not what it should be.
        ValueError: The product is of no kind of the tables, or has an attribute that its kind
            does not have.
    """
    if product.query not in kinds():
        raise ValueError(f"{product.asin} is not of the built-in catalogue: {product.query}")
    kind = kinds()[product.query][1]
    known: dict[str, Trait] = {**kind.forms, **kind.traits}
    if foreign := [name for name in product.attributes if name not in known]:
        raise ValueError(f"{product.asin} is not of the built-in catalogue: {', '.join(foreign)}")
    count = min(weighted(_ATTRIBUTE_COUNTS, rng), len(product.attributes))
    attributes = _attributes(product, count, rng)
    options = _options(product, rng)
    limit = None if happens(_NO_LIMIT_CHANCE, rng) else _limit(max(product.prices), rng)
    traits = [known[name] for name in attributes]
    instruction = _instruction(kind, traits, options, limit, rng)
    return Goal(product.asin, instruction, attributes, options, limit)


def _attributes(product: Product, count: int, rng: random.Random) -> tuple[str, ...]:
    """Attributes in the product's order, more often such that its name does not tell."""
    left = list(product.attributes)
    chosen = []
    for _ in range(count):
        weights = [1.0 if name in product.title.lower() else _UNTOLD for name in left]
        chosen.append(left.pop(weighted(weights, rng)))
    return tuple(name for name in product.attributes if name in chosen)


def _options(product: Product, rng: random.Random) -> dict[str, str]:
    """A value for each option of the product; now and then only for some."""
    names = tuple(product.options)
    if names and not happens(_ALL_OPTIONS_CHANCE, rng):
        names = tuple(sample(names, between(0, len(names) - 1, rng), rng))
    return {name: pick(product.options[name], rng) for name in names}


def _limit(price: float, rng: random.Random) -> float:
    """A round price above the product's, mostly close to it."""
    step = 5 if price < 50 else 10 if price < 150 else 20
    return float((int(price // step) + 1 + weighted(_SLACK, rng)) * step)


def _instruction(
    kind: ProductKind,
    traits: Sequence[Trait],
    options: Mapping[str, str],
    limit: float | None,
    rng: random.Random,
) -> str:
    """The wish in words, by one of the patterns that leave nothing out."""
    table = phrases()
    money = "" if limit is None else filled(pick(table.amounts, rng), {"amount": f"{limit:.0f}"})
    phrase = noun_phrase(kind, traits, False, rng)
    several = noun_phrase(kind, traits, True, rng)
    sorts = [trait for trait in traits if is_sort(trait)]
    others = [trait for trait in traits if not is_sort(trait)]
    pattern = pick([wish for wish in table.wishes if others or "must" not in slots_of(wish)], rng)
    spoken_of = several.tail if "plural" in slots_of(pattern) else phrase.tail
    asked = _option_phrases(options, bool(spoken_of) and "short" not in slots_of(pattern), rng)
    words = {
        "np": with_quantity(kind, phrase, rng),
        "plural": several.bare,
        "bare": phrase.bare,
        "Bare": capitalized(phrase.bare),
        "short": with_quantity(kind, noun_phrase(kind, sorts, False, rng), rng),
        "must": _must(kind, others, rng) if others else "",
        "options": asked,
        "named": "".join(f", {name}: {value}" for name, value in options.items()),
        "choices": _choices(options),
        "limit": f", {filled(pick(table.limits, rng), {'money': money})}" if money else "",
        "budget": f" {filled(pick(table.budgets, rng), {'money': money})}" if money else "",
        "money": money,
    }
    return filled(pattern, words)


def _must(kind: ProductKind, traits: Sequence[Trait], rng: random.Random) -> str:
    """A sentence of what the thing must be and have."""
    they = "they" if kind.number == "many" else "it"
    asked = listed(verbs(traits, ("be", "have", "come")))
    words = {"they": they, "They": capitalized(they), "verbs": asked}
    return " " + filled(pick(phrases().musts, rng), words)


def _option_phrases(options: Mapping[str, str], tail: bool, rng: random.Random) -> str:
    """The options after the noun; with a comma where they could be taken for part of its tail."""
    said = [
        with_value(pick(phrases().for_option(name, value).phrases, rng), value)
        for name, value in options.items()
    ]
    if not said:
        return ""
    close = said[0].startswith(_PREPOSITIONS) and not tail
    if len(said) == 2 and said[1].startswith(_PREPOSITIONS) and happens(_AND_CHANCE, rng):
        said = [" and ".join(said)]
    return (" " if close else ", ") + ", ".join(said)


def _choices(options: Mapping[str, str]) -> str:
    """The options as a sentence."""
    clauses = [
        with_value(phrases().for_option(name, value).clause, value)
        for name, value in options.items()
    ]
    return f" {capitalized(listed(clauses))}." if clauses else ""
