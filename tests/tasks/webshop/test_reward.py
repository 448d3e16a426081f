"""Rewards of purchases, by default and in the original, by hand."""

from typing import Any

import pytest

from tasks.webshop.nouns import ContentWords
from tasks.webshop.reward import Reward, judge, type_factor, values_meant
from tests.tasks.webshop.worlds import goal, product

MUG = product()
RED_8 = {"color": "red", "size": "8"}


def bought(
    chosen: dict[str, str],
    price: float = 9.5,
    as_original: bool = False,
    wanted: dict[str, Any] | None = None,
    **changes: Any,
) -> Reward:
    """Judge the purchase of the mug, changed or not."""
    return judge(
        goal(**(wanted or {})),
        MUG,
        product(**changes),
        chosen,
        price,
        ContentWords(),
        as_original,
    )


def test_all_that_was_asked_for() -> None:
    assert bought(RED_8) == Reward(1.0, 1.0, 1, 1, 2, 2, price=True)


@pytest.mark.parametrize(
    ("chosen", "price", "changes", "value"),
    [
        ({"color": "red"}, 9.5, {}, 3 / 4),
        ({}, 9.5, {}, 2 / 4),
        (RED_8 | {"color": "blue"}, 9.5, {}, 3 / 4),
        (RED_8, 10.0, {}, 1.0),
        (RED_8, 10.01, {}, 3 / 4),
        (RED_8, 9.5, {"attributes": (), "bullets": ("Tin",)}, 3 / 4),
        # A mention in a text counts like an attribute; so does slightly different wording.
        (RED_8, 9.5, {"attributes": ()}, 1.0),
        (RED_8, 9.5, {"attributes": ("safe in the dishwasher",), "bullets": ()}, 1.0),
        (RED_8, 9.5, {"query": "cups", "product_category": "x"}, 1.0),
        (RED_8, 9.5, {"query": "hats", "product_category": "x", "title": "Tin Hat"}, 1.0),
        (RED_8, 9.5, {"query": "hats", "product_category": "x", "title": "Hat"}, 0.0),
    ],
)
def test_parts(chosen: dict[str, str], price: float, changes: dict[str, Any], value: float) -> None:
    assert bought(chosen, price, **changes).value == pytest.approx(value)


def test_without_a_limit_any_price_is_right() -> None:
    assert bought(RED_8, 1e6, wanted={"price_upper": None}).value == 1.0


def test_the_types_factor() -> None:
    # Of the wanted name's three content words "tin mug red rim": four.
    def factor(title: str, as_original: bool, **changes: Any) -> float:
        other = {"query": "hats", "product_category": "Clothing \u203a Hats"}
        return type_factor(
            product(title="tin mug red rim " + "long " * 8),
            product(title=title, **(other | changes)),
            ContentWords(),
            as_original,
        )

    assert factor("mug hat tin", True) == 0.5  # 2 of 12
    assert factor("mug tin rim", True) == 1.0  # 3 of 12, more than 0.2
    assert factor("mug", True) == 0.1  # 1 of 12, less than 0.1
    assert factor("hat", True) == 0.0
    # The original lowers even what matches by query or category.
    assert factor("hat", True, query="mugs") == 0.0
    assert factor("hat", False, query="mugs") == 1.0
    assert factor("mug", True, product_category="Home \u203a Kitchen \u203a Pans") == 0.1
    assert factor("mug tin", True, product_category="Home \u203a Kitchen \u203a Pans") == 1.0
    assert factor("hat", False, product_category="Home \u203a Kitchen \u203a Mugs") == 1.0
    assert factor("hat", False, product_category="Home \u203a Kitchen \u203a Pans") == 0.0
    # A name without nouns provides no information.
    assert type_factor(product(title="1 2"), product(query="x"), ContentWords(), True) == 1.0


def test_the_original_compares_options_as_pairs() -> None:
    # The bought value becomes "tan", which is not a word of the pair ("shape", "rectangular").
    shape = {"shape": "rectangular"}
    assert bought(shape, as_original=True, wanted={"options": shape}).options == 0
    assert bought(shape, wanted={"options": shape}).options == 1
    # The option's name is one of the compared words.
    wish = {"options": {"size": "8"}}
    assert bought({"style": "size"}, as_original=True, wanted=wish).options == 1
    assert bought({"style": "size"}, wanted=wish).options == 0


def test_the_original_finds_colors_inside_words() -> None:
    wish = {"options": ("fashion grey",)}
    # "fashion" contains "ash", which comes before "grey".
    assert bought({"color": "ash"}, as_original=True, wanted=wish).options == 1
    assert bought({"color": "grey"}, as_original=True, wanted=wish).options == 0
    changes: dict[str, Any] = {"options": {"color": ("ash", "fashion grey")}}
    assert bought({"color": "fashion grey"}, wanted=wish, **changes).options == 1
    assert bought({"color": "ash"}, wanted=wish, **changes).options == 0


@pytest.mark.parametrize(
    ("value", "wish", "similar"),
    [
        ("caf\u00e9", "caf", 1),  # 100
        ("\u00e9", "\u00e9", 0),  # 0: nothing is left
        ("\u7ea2\u8272", "\u7ea2\u8272", 1),  # 100
        ("a1-w\u00a0one", "a1 w one", 0),  # 80
        ("style_1", "style 1", 0),  # 71
        ("_", "_", 1),  # 100
    ],
)
def test_the_original_drops_some_characters(value: str, wish: str, similar: int) -> None:
    """Ratios of thefuzz 0.19.0, which drops U+0080 to U+00FF and keeps underscores."""
    wanted = {"options": (wish,)}
    assert bought({"color": value}, as_original=True, wanted=wanted).options == similar


@pytest.mark.parametrize(
    ("wish", "meant"),
    [
        ("navy", ["navy blue"]),
        ("Blue  Navy", ["navy blue"]),
        ("red", ["red"]),
        ("light green", []),
        ("x-large", ["x-large"]),
        ("large", ["large"]),
        ("small", []),
        ("pack of 4", ["pack of 4"]),
        ("4", ["pack of 4"]),
        ("1.5", []),
        ("", []),
        ("-", []),
    ],
)
def test_what_people_mean(wish: str, meant: list[str]) -> None:
    """The value with the same meaning; otherwise those that contain all words of the wish."""
    options = {
        "color": ("navy blue", "light blue", "dark red", "red"),
        "size": ("large", "x-large", "xx-large"),
        "count": ("pack of 4", "pack of 15"),
    }
    assert [value for _, value in values_meant(wish, product(options=options))] == meant


def test_a_wish_of_people_is_met_by_what_it_means() -> None:
    changes: dict[str, Any] = {"options": {"color": ("red", "dark red"), "size": ("8",)}}
    wish = {"options": ("red",)}
    assert bought({"color": "red"}, wanted=wish, **changes).options == 1
    assert bought({"color": "dark red"}, wanted=wish, **changes).options == 0
    only_dark: dict[str, Any] = {"options": {"color": ("dark red",)}}
    assert bought({"color": "dark red"}, wanted=wish, **only_dark).options == 1


def test_products_of_no_known_category_or_query_are_not_of_one_type() -> None:
    unknown = product(title="Chocolate", query="", product_category="")
    shirt = product(title="Shirt", query="", product_category="")
    assert type_factor(shirt, unknown, ContentWords(), compat=False) == 0.0
    assert type_factor(shirt, product(title="Shirt", query="x"), ContentWords(), False) == 1.0
