"""The training stream: goals for products of the built-in catalogue that no test asks for."""

import random
from collections.abc import Mapping
from functools import cache

from tasks.panels import PanelEntry, read_panel
from tasks.seeding import canonical_json, stable_seed
from tasks.webshop.data.catalogues import BUILTIN, builtin_products
from tasks.webshop.data.goals import Goal
from tasks.webshop.data.products import Product
from tasks.webshop.generator.wishes import draw_goal
from tasks.webshop.panel_goals import PANELS, goal_data, goal_of


def training_entry(index: int, seed: int) -> PanelEntry:
    """Entry number `index` of the stream `seed`."""
    products = _training_products()
    rng = random.Random(stable_seed("webshop-training", seed, index))
    while True:
        product = products[int(rng.random() * len(products))]
        goal = draw_goal(product, rng)
        if wish_key(product, goal) not in _tested_wishes():
            return PanelEntry(f"train-{seed}-{index}", product.category, goal_data(goal))


def wish_key(product: Product, goal: Goal) -> str:
    """What is asked for, whatever product was meant, however it is said, whatever it may cost."""
    assert isinstance(goal.options, Mapping)
    return canonical_json([product.query, sorted(goal.attributes), sorted(goal.options.items())])


@cache
def _training_products() -> tuple[Product, ...]:
    tested = {entry.data["asin"] for entry in _panel()}
    return tuple(product for product in builtin_products() if product.asin not in tested)


@cache
def _tested_wishes() -> frozenset[str]:
    products = {product.asin: product for product in builtin_products()}
    return frozenset(wish_key(products[e.data["asin"]], goal_of(e)) for e in _panel())


def _panel() -> tuple[PanelEntry, ...]:
    return read_panel("webshop", PANELS, BUILTIN).entries
