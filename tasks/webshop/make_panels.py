"""Builds the frozen catalogue and panels: `python -m tasks.webshop.make_panels`.

The files are shipped; this is how they came about and how they can be checked. Running it again
gives the same bytes. The panels of the public data are made where `$WEBSHOP_DATA` has the files;
elsewhere the shipped ones stay as they are.
"""

import json
import random
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tasks.panels import INDEX, PanelEntry, panel_bytes, unmeasured_panel
from tasks.seeding import stable_seed
from tasks.trace import measured, trace_panel
from tasks.webshop.data.catalogues import (
    BUILTIN,
    BUILTIN_FILE,
    FULL,
    SMALL,
    builtin_products,
    is_there,
    open_catalogue,
)
from tasks.webshop.data.goal_table import in_test_order, template_goals
from tasks.webshop.data.goals import Goal
from tasks.webshop.data.products import Product
from tasks.webshop.generator.catalogue import generate_catalogue
from tasks.webshop.generator.wishes import draw_goal
from tasks.webshop.nouns import CONTENT_WORDS, find_tagger
from tasks.webshop.panel_goals import (
    PANELS,
    TEST_GOALS,
    TRAIN,
    catalogue_name,
    goal_data,
    public_entry,
)
from tasks.webshop.reward import judge
from tasks.webshop.task import WebShopTask

PRODUCTS = 1600
SEED = 0
TESTED_PER_DEPARTMENT = 16
MAX_TURNS = 15
SMALL_TRAINING_GOALS = 8
"""Goals of one product in the training panel of the 1,000 public products, at most."""
FULL_TRAINING_GOALS = 5000

DESCRIPTIONS = {
    BUILTIN: "256 goals in a generated shop of 1600 products, 16 of each department",
    SMALL: "200 goals in the public shop of 1000 products",
    SMALL + TRAIN: "the goals for the other products of this shop, up to 8 of each",
    FULL: "500 goals of people in the public shop of 1.18 million products",
    FULL + TRAIN: "5000 goals of people for other products of this shop",
}
_BAND = 0.03
"""Half-width of the recorded band around the random policy's measured success."""


def catalogue_bytes() -> bytes:
    """The built-in catalogue's file: one product a line."""
    products = generate_catalogue(SEED, PRODUCTS)
    return "".join(json.dumps(product.to_data()) + "\n" for product in products).encode()


def builtin_entries() -> tuple[PanelEntry, ...]:
    """The built-in panel. Departments take turns, so that its first wishes are balanced, too."""
    departments: dict[str, list[Product]] = defaultdict(list)
    for product in builtin_products():
        departments[product.category].append(product)
    entries = []
    for number in range(TESTED_PER_DEPARTMENT):
        for name, products in sorted(departments.items()):
            products.sort(key=lambda product: stable_seed("webshop-test", product.asin))
            product = products[number]
            goal = _fair_goal(product)
            identifier = f"{name.replace(' ', '-')}-{number:02d}"
            entries.append(PanelEntry(identifier, name, goal_data(goal)))
    return tuple(entries)


def _fair_goal(product: Product) -> Goal:
    """A wish that no product of another kind fulfills, even if it had the options."""
    rng = random.Random(stable_seed("webshop-goal", product.asin))
    tagger = find_tagger(CONTENT_WORDS)
    while True:
        goal = draw_goal(product, rng)
        assert isinstance(goal.options, Mapping)
        others = (other for other in builtin_products() if other.query != product.query)
        rewards = (judge(goal, product, o, goal.options, 0.0, tagger, compat=False) for o in others)
        if all(reward.value < 1.0 for reward in rewards):
            return goal


def small_entries(training: bool) -> tuple[PanelEntry, ...]:
    """A panel of the 1,000 public products: wishes from templates, split by product."""
    catalogue = open_catalogue(SMALL)
    listings = in_test_order(catalogue.listings_with_template())
    chosen = listings[TEST_GOALS[SMALL] :] if training else listings[: TEST_GOALS[SMALL]]
    entries = []
    for listing in chosen:
        numbers = range(template_goals(listing))
        order = sorted(numbers, key=lambda n: stable_seed("webshop-wish", listing.product.asin, n))
        for number in order[: SMALL_TRAINING_GOALS if training else 1]:
            asin = listing.product.asin
            entries.append(public_entry(catalogue, SMALL, asin, "template", number))
    return tuple(entries)


def write_panels() -> None:
    """Make the catalogue, all panels and their index."""
    folder = PANELS
    BUILTIN_FILE.write_bytes(catalogue_bytes())
    path = folder / INDEX
    shipped = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    made = {BUILTIN: builtin_entries()}
    if is_there(SMALL):
        made[SMALL] = small_entries(training=False)
        made[SMALL + TRAIN] = small_entries(training=True)
    for name, entries in made.items():
        (folder / f"{name}.jsonl").write_bytes(panel_bytes(entries))
    index = {name: _facts(folder, name, shipped.get(name, {})) for name in DESCRIPTIONS}
    path.write_text(json.dumps(index, indent=2) + "\n", "utf-8")


def _facts(folder: Path, name: str, shipped: dict[str, Any]) -> dict[str, Any]:
    """What the index says of a panel; measured where its catalogue is here, else as shipped."""
    if catalogue_name(name) == FULL:
        episodes = FULL_TRAINING_GOALS if name.endswith(TRAIN) else TEST_GOALS[FULL]
        # Only the data knows the hash; reading the panel computes it.
        return _index_entry(name, episodes, "")
    panel = unmeasured_panel("webshop", folder, name, DESCRIPTIONS[name], MAX_TURNS)
    facts = _index_entry(name, panel.info.episodes, panel.info.sha256)
    if not is_there(catalogue_name(name)):
        if shipped.get("sha256") != panel.info.sha256:
            raise SystemExit(f"{name} differs from the panel in the index, and its data is missing")
        return shipped
    facts["catalogue_sha256"] = open_catalogue(catalogue_name(name)).sha256
    if not name.endswith(TRAIN):
        facts |= measured(trace_panel(WebShopTask(), panel), _BAND)
    return facts


def _index_entry(name: str, episodes: int, sha256: str) -> dict[str, Any]:
    return {
        "description": DESCRIPTIONS[name],
        "episodes": episodes,
        "max_turns": MAX_TURNS,
        "sha256": sha256,
    }


if __name__ == "__main__":
    write_panels()
