"""Panels, and the goals of their entries.

The built-in panel holds its goals. Of the public data a panel pins which wish of which product is
asked for and a hash of the goal that it gives; the texts come from the user's files. The panels of
the full set could not be pinned yet (the project had no access to its files): their entries are
computed from the files, and their hash, which the protocol contains, with them.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from tasks.errors import UserError
from tasks.panels import INDEX, Panel, PanelEntry, panel_bytes, read_index, read_panel
from tasks.texts import digest_text
from tasks.webshop.data.catalogue import Catalogue
from tasks.webshop.data.catalogues import BUILTIN, FULL, SMALL, how_to_get, open_catalogue
from tasks.webshop.data.goal_table import goal_sha256, in_test_order, people_goal, template_goal
from tasks.webshop.data.goals import Goal

PANELS = Path(__file__).parent / "panels"

TEST_GOALS = {SMALL: 200, FULL: 500}
"""Goals of the test panels of the public data, one of a product."""
TRAIN = "_train"
"""Ends the names of panels to train on."""


def catalogue_name(panel: str) -> str:
    """The catalogue that a panel is played in."""
    return panel.removesuffix(TRAIN)


def open_panel(task: str, name: str) -> Panel:
    """Read a panel and make sure that its goals are the pinned ones here.

    Raises:
        UserError: No such panel, its data is missing, or it is other data.
    """
    infos = read_index(PANELS)
    if catalogue_name(name) == FULL and name in infos:
        catalogue = open_catalogue(FULL)
        entries = full_entries(catalogue, name)
        digest = hashlib.sha256(catalogue.sha256.encode() + panel_bytes(entries)).hexdigest()
        return Panel(task, replace(infos[name], sha256=digest), entries)
    panel = read_panel(task, PANELS, name)
    pinned = json.loads((PANELS / INDEX).read_text("utf-8"))[name]["catalogue_sha256"]
    catalogue = open_catalogue(catalogue_name(name))
    if catalogue.sha256 != pinned:
        raise UserError(
            f"{task}/{name}: these {len(catalogue)} products differ from the panel's "
            f"(SHA-256 of the fields in use is {digest_text(catalogue.sha256)}, but the panel pins "
            f"{digest_text(pinned)}); {how_to_get(catalogue_name(name))}"
        )
    for entry in panel.entries:
        goal_of(entry)
    return panel


def goal_of(entry: PanelEntry) -> Goal:
    """What an entry asks for.

    Raises:
        UserError: The wish is another one than the panel pins.
    """
    data = entry.data
    if data["catalogue"] == BUILTIN:
        return Goal(
            data["asin"],
            data["instruction"],
            tuple(data["attributes"]),
            dict(data["options"]),
            data["price_upper"],
        )
    goal = _public_goal(open_catalogue(data["catalogue"]), data)
    if goal_sha256(goal) != data["sha256"]:
        raise UserError(f"goal {entry.id} differs from the pinned one; the data has changed")
    return goal


def goal_data(goal: Goal) -> dict[str, Any]:
    """The data of an entry of the built-in catalogue, whose goals name their options."""
    assert isinstance(goal.options, Mapping)
    return {
        "catalogue": BUILTIN,
        "asin": goal.asin,
        "instruction": goal.instruction,
        "attributes": list(goal.attributes),
        "options": dict(goal.options),
        "price_upper": goal.price_upper,
    }


def public_entry(catalogue: Catalogue, name: str, asin: str, wish: str, number: int) -> PanelEntry:
    """The entry for one wish of a public product.

    Args:
        catalogue: What the product is in.
        name: Of the catalogue.
        asin: The product.
        wish: `template` or `people`.
        number: Which of these.
    """
    data: dict[str, Any] = {"catalogue": name, "asin": asin, wish: number}
    data["sha256"] = goal_sha256(_public_goal(catalogue, data))
    return PanelEntry(f"{asin}-{number}", catalogue.product(asin).category, data)


def full_entries(catalogue: Catalogue, name: str) -> tuple[PanelEntry, ...]:
    """The entries of a panel of the full set: the first wish of a product that people wrote.

    Raises:
        UserError: There are not enough wishes.
    """
    info, training = read_index(PANELS)[name], name.endswith(TRAIN)
    first = TEST_GOALS[FULL] if training else 0
    # What the smaller data set tests is not trained on here, and vice versa.
    other = read_panel("webshop", PANELS, SMALL if training else SMALL + TRAIN).entries
    kept_out = {entry.data["asin"] for entry in other}
    listings = in_test_order(catalogue.listings_for_people())
    asins = (listing.product.asin for listing in listings[first:])
    chosen = list(islice((asin for asin in asins if asin not in kept_out), info.episodes))
    if len(chosen) < info.episodes:
        raise UserError(
            f"webshop/{name}: these files have goals written by people for "
            f"{len(listings)} products, but {first + info.episodes} are needed: they "
            "are not the full set"
        )
    return tuple(public_entry(catalogue, FULL, asin, "people", 0) for asin in chosen)


def _public_goal(catalogue: Catalogue, data: Mapping[str, Any]) -> Goal:
    try:
        listing = catalogue.listing(data["asin"])
        price = catalogue.price(listing.product)
        if "template" in data:
            return template_goal(listing, data["template"], price)
        return people_goal(listing, data["people"], price)
    except (KeyError, IndexError) as error:
        raise UserError(f"{data['catalogue']} has no such goal for {data['asin']}") from error
