"""The training stream: wishes for products of the built-in catalogue that no test asks for."""

import random
from functools import cache

from tasks.base import PanelEntry
from tasks.panels import read_panel
from tasks.seeding import stable_seed
from tasks.webshop.catalogues import BUILTIN, builtin_products
from tasks.webshop.generator.wishes import draw_goal
from tasks.webshop.panel_goals import PANELS, goal_data
from tasks.webshop.products import Product


def training_entry(index: int, seed: int) -> PanelEntry:
    """Entry number `index` of the stream `seed`."""
    products = _training_products()
    rng = random.Random(stable_seed("webshop-training", seed, index))
    product = products[int(rng.random() * len(products))]
    return PanelEntry(f"train-{seed}-{index}", product.category, goal_data(draw_goal(product, rng)))


@cache
def _training_products() -> tuple[Product, ...]:
    tested = {entry.data["asin"] for entry in read_panel("webshop", PANELS, BUILTIN).entries}
    return tuple(product for product in builtin_products() if product.asin not in tested)
