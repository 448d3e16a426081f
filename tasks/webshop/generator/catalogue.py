"""Generates the catalogue: attributes, prices and options; `texts` puts them into words."""

import random
from itertools import count as numbers

from tasks.seeding import pick, stable_seed
from tasks.webshop.data.products import LEVELS, Product
from tasks.webshop.generator.draw import between, happens, sample, shuffled, weighted
from tasks.webshop.generator.tables import Department, Form, Option, ProductKind, Trait, kinds
from tasks.webshop.generator.texts import Design, write_bullets, write_description, write_title

_FIRST_NUMBER = 1000
_TRAIT_COUNTS = (0.0, 0.0, 0.1, 0.35, 0.35, 0.2)
"""Probabilities of 0, 1, 2, ... traits beside the form."""
_PLAIN_CHANCE = 0.06
"""Share of products that offer no choice though their kind does."""
_RANGE_CHANCE = 0.11
"""Share of products with a choice that have a lowest and a highest price."""
_BRAND_SHARE, _FORM_SHARE, _CHANCE_SHARE = 0.3, 0.45, 0.25
"""What a product's place between its kind's lowest and highest price comes from."""


def generate_catalogue(seed: int, count: int) -> tuple[Product, ...]:
    """Make a catalogue.

    Kinds take turns, so that each has about as many products, and a smaller catalogue is the
    beginning of a larger one of the same seed. Numbers, which ascend, and names are unique.

    Args:
        seed: Determines everything.
        count: Products.

    Raises:
        UserError: A word table is not what it should be.
        ValueError: `count` is negative, or a kind's patterns give no name of the right length.
    """
    if count < 0:
        raise ValueError(f"a catalogue cannot have {count} products")
    shelves = tuple(kinds().values())
    titles: set[str] = set()
    products = []
    for number in range(count):
        department, kind = shelves[number % len(shelves)]
        for attempt in numbers():
            parts = (seed, kind.name, number // len(shelves), attempt)
            rng = random.Random(stable_seed("webshop-catalogue", *parts))
            product = _product(str(_FIRST_NUMBER + number), department, kind, rng)
            if product.title not in titles:
                break
        titles.add(product.title)
        products.append(product)
    return tuple(products)


def _product(asin: str, department: Department, kind: ProductKind, rng: random.Random) -> Product:
    brand = pick(tuple(department.brands), rng)
    use = pick(kind.uses, rng)
    form = pick(tuple(kind.forms.values()), rng)
    design = Design(department, kind, brand, use, form, _traits(kind, form, rng))
    title = write_title(design, rng)
    description = write_description(design, title, rng)
    bullets = write_bullets(design, title, description, rng)
    options = _options(kind, form, rng)
    return Product(
        asin=asin,
        title=title,
        description=description,
        bullets=bullets,
        options=options,
        prices=_prices(design, bool(options), rng),
        attributes=design.attributes,
        category=department.category,
        query=kind.name,
        product_category=LEVELS.join((department.label, *kind.levels)),
    )


def _traits(kind: ProductKind, form: Form, rng: random.Random) -> tuple[Trait, ...]:
    """Traits that go with the form and with each other."""
    wanted = weighted(_TRAIT_COUNTS, rng)
    chosen: list[Trait] = []
    for trait in shuffled(tuple(kind.traits.values()), rng):
        excluded = any(trait.excludes(other) for other in chosen)
        if len(chosen) < wanted and trait.goes_with(form.name) and not excluded:
            chosen.append(trait)
    return tuple(chosen)


def _options(kind: ProductKind, form: Form, rng: random.Random) -> dict[str, tuple[str, ...]]:
    if happens(_PLAIN_CHANCE, rng):
        return {}
    pools = {option.name: option.values for option in kind.options.values()} | form.options
    return {
        option.name: _values(option, pools[option.name], rng)
        for option in kind.options.values()
        if pools[option.name] and happens(option.chance, rng)
    }


def _values(option: Option, pool: tuple[str, ...], rng: random.Random) -> tuple[str, ...]:
    """Some of the values; of a row, ones that are next to each other."""
    count = min(len(pool), between(option.fewest, option.most, rng))
    if option.row:
        start = between(0, len(pool) - count, rng)
        return pool[start : start + count]
    return tuple(sample(pool, count, rng))


def _prices(design: Design, choice: bool, rng: random.Random) -> tuple[float, ...]:
    """A price, or, where there is a choice, now and then the lowest and the highest.

    Where it lies between the kind's lowest and highest goes by what the product is.
    """
    low, high = design.kind.price
    place = (
        _BRAND_SHARE * design.department.brands[design.brand]
        + _FORM_SHARE * design.form.worth
        + _CHANCE_SHARE * rng.random()
    )
    price = _as_priced(low * (high / low) ** place, rng)
    if choice and happens(_RANGE_CHANCE, rng):
        highest = _as_priced(price * (1.15 + 0.45 * rng.random()), rng)
        if highest > price:
            return (price, highest)
    return (price,)


def _as_priced(price: float, rng: random.Random) -> float:
    """The price as shops write it: just below, or at, a whole number of dollars."""
    cents = pick((0.99, 0.99, 0.95, 0.49, 0.0) if price < 100 else (0.99, 0.95, 0.0, 0.0), rng)
    return round(max(1.0, float(int(price))) + cents, 2)
