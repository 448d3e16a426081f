"""The public 1,000 products, the original's environments for them, and our own small catalogue."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tasks.webshop.data.files import DataFiles
from tasks.webshop.data.goals import Goal
from tasks.webshop.data.products import Product

RECORDINGS = os.environ.get("WEBSHOP_RECORDINGS")
needs_recordings = pytest.mark.skipif(
    RECORDINGS is None,
    reason="WEBSHOP_RECORDINGS does not name a folder with recordings of the original WebShop",
)


def recordings() -> Path:
    """The folder with the recordings and the public files."""
    assert RECORDINGS is not None
    return Path(RECORDINGS)


def public_files() -> DataFiles:
    """The public files of the 1,000 products."""
    names = ("items_shuffle_1000.json", "items_ins_v2_1000.json", "items_human_ins.json")
    return DataFiles(*(recordings() / name for name in names))


def recorded(name: str) -> list[dict[str, Any]]:
    """The lines of a recording."""
    return [json.loads(line) for line in (recordings() / name).read_text("utf-8").splitlines()]


def recorded_goal(data: dict[str, Any]) -> Goal:
    """A goal in the original's form: synthetic ones name their options, human ones do not."""
    options = data["goal_options"]
    return Goal(
        data["asin"],
        data["instruction_text"],
        tuple(data["attributes"]),
        options if isinstance(options, dict) else tuple(options),
        data["price_upper"],
    )


def product(asin: str = "B000000001", **changes: Any) -> Product:
    """A product for tests."""
    facts: dict[str, Any] = {
        "title": "Tin Mug, Red Rim",
        "description": "A mug for the camp fire.",
        "bullets": ("Holds 12 ounces", "Dishwasher safe"),
        "options": {"color": ("red", "blue"), "size": ("8", "12")},
        "prices": (9.5,),
        "attributes": ("dishwasher safe",),
        "category": "kitchen",
        "query": "mugs",
        "product_category": "Home \u203a Kitchen \u203a Mugs",
    }
    return Product(asin=asin, **{**facts, **changes})


def goal(**changes: Any) -> Goal:
    """A wish for that product."""
    facts: dict[str, Any] = {
        "asin": "B000000001",
        "instruction": "a dishwasher safe mug in red, size 8, under 10 dollars",
        "attributes": ("dishwasher safe",),
        "options": {"color": "red", "size": "8"},
        "price_upper": 10.0,
    }
    return Goal(**{**facts, **changes})
