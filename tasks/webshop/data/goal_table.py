"""Goals from a listing's templates, made as in the original but with pinned random choices.

The original draws price limits from the global random generator, in an order that depends on all
that was loaded before, so that every process has other goals. Here a draw depends on the product's
number alone.
"""

import math
import random
from collections.abc import Iterator
from itertools import islice, product

from tasks.seeding import canonical_json, sha256_text, stable_seed
from tasks.webshop.data.goals import Goal
from tasks.webshop.data.listings import Listing, Wish

_LIMITS = range(10, 1000, 10)
"""Price limits, in dollars."""
_DRAWN = 2
_NEAREST_LIMITS = 4
"""Of the limits above a price, the lowest so many are drawn from."""


def template_goals(listing: Listing) -> int:
    """How many goals a listing's template gives: one for every choice of all options."""
    if listing.template is None:
        return 0
    return math.prod(len(values) for values in listing.product.options.values())


def template_goal(listing: Listing, number: int, price: float) -> Goal:
    """One of the goals of a listing's template.

    Args:
        listing: With a template.
        number: From 0 to `template_goals` - 1: the last option in alphabetical order runs fastest.
        price: What the product costs, in dollars.

    Raises:
        IndexError: There is no such goal.
    """
    assert listing.template is not None
    if number < 0:
        raise IndexError(number)
    options = sorted(listing.product.options.items())
    choices = product(*(values for _, values in options))
    chosen = next(islice(choices, number, None), None)
    if chosen is None:
        raise IndexError(number)
    named = dict(zip((name for name, _ in options), chosen, strict=True))
    limit = price_limit(price, random.Random(stable_seed("webshop-limit", listing.product.asin)))
    with_options = ", and ".join(f"{name}: {value}" for name, value in named.items())
    text = listing.template.instruction + (f" with {with_options}" if named else "")
    return Goal(
        listing.product.asin,
        text + _clause(limit),
        listing.template.attributes,
        named,
        limit,
    )


def people_goal(listing: Listing, number: int, price: float) -> Goal:
    """The goal of one of the wishes that people wrote.

    Args:
        listing: With such wishes.
        number: Of the wish, from 0.
        price: What the product costs, in dollars.

    Raises:
        IndexError: There is no such wish.
    """
    wish: Wish = listing.people[number]
    seed = stable_seed("webshop-people-limit", listing.product.asin, number)
    limit = price_limit(price, random.Random(seed))
    return Goal(
        listing.product.asin,
        wish.instruction.strip(".") + _clause(limit),
        wish.attributes,
        wish.options,
        limit,
    )


def price_limit(price: float, rng: random.Random) -> float | None:
    """Draw a limit: the higher one of two of the nearest; None where there are not two."""
    above = [limit for limit in _LIMITS if limit > price][:_NEAREST_LIMITS]
    if len(above) < _DRAWN:
        return None
    drawn = [above.pop(int(rng.random() * len(above))) for _ in range(_DRAWN)]
    return float(max(drawn))


def goal_sha256(goal: Goal) -> str:
    """Hash of a goal; panels pin it, so that other data is noticed."""
    options = (
        list(goal.options) if isinstance(goal.options, tuple) else sorted(goal.options.items())
    )
    parts = [goal.asin, goal.instruction, list(goal.attributes), options, goal.price_upper]
    return sha256_text(canonical_json(parts))


def in_test_order(listings: Iterator[Listing]) -> list[Listing]:
    """Listings in the order in which they are taken for tests: by a hash of their numbers."""
    return sorted(listings, key=lambda listing: stable_seed("webshop-test", listing.product.asin))


def _clause(limit: float | None) -> str:
    return "" if limit is None else f", and price lower than {limit:.2f} dollars"
