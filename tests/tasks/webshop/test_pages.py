"""The shop's pages by default: their texts, their links, and the effect of each action."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.webshop import compat, pages
from tasks.webshop.data.catalogue import Catalogue, build
from tasks.webshop.data.listings import Listing
from tasks.webshop.data.products import Product
from tasks.webshop.visit import Place, Visit
from tests.tasks.webshop.worlds import goal, product

ODD = product(
    "B00000000X",
    title="<b>Tin</b>  Hat\nLarge",
    description="",
    bullets=("", "  Shiny "),
    options={"color": ("red", "buy now"), "trim": ("red", "one  [two]")},
    prices=(5.0, 7.0),
)


def mugs(count: int) -> list[Product]:
    """Mugs with different ids."""
    return [product(f"B{number:09d}", title=f"Tin Mug {number}") for number in range(1, count + 1)]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Catalogue:
    folder = tmp_path_factory.mktemp("shop") / "catalogue"
    build([Listing(one) for one in [*mugs(23), ODD]], folder)
    return Catalogue(folder)


def visit_after(shop: Catalogue, *actions: str) -> Visit:
    """A visit after some actions, all of them valid."""
    visit = Visit(shop, goal())
    for action in actions:
        assert pages.act(visit, pages.page_of(visit), action), action
    return visit


def seen(shop: Catalogue, *actions: str) -> tuple[str, list[str]]:
    """Text and clicks of the page after some actions."""
    page = pages.page_of(visit_after(shop, *actions))
    assert page.shown == page.observation
    return page.observation, list(page.clicks)


def test_the_start(shop: Catalogue) -> None:
    page = pages.page_of(Visit(shop, goal()))
    assert page.searchable
    assert (page.observation, list(page.clicks)) == ("You are at the search page.", [])


def test_results(shop: Catalogue) -> None:
    text, clicks = seen(shop, "search[mug]")
    lines = text.splitlines()
    assert lines[0] == 'Found for "mug": page 1 of 3, 23 products'
    assert lines[1] == "b000000001: Tin Mug 1, $9.50"
    assert len(lines) == 11
    assert clicks == [f"b{number:09d}" for number in range(1, 11)] + ["next >", "back to search"]


def test_turning_pages(shop: Catalogue) -> None:
    text, clicks = seen(shop, "search[mug]", "click[next >]", "click[next >]")
    assert text.splitlines()[0] == 'Found for "mug": page 3 of 3, 23 products'
    assert clicks == [f"b{number:09d}" for number in (21, 22, 23)] + ["< prev", "back to search"]
    assert seen(shop, "search[mug]", "click[next >]", "click[< prev]") == seen(shop, "search[mug]")


def test_nothing_found(shop: Catalogue) -> None:
    for query in ("zeppelin", "the", "\U0001f600", "\u6f22\u5b57", "<script>"):
        text, clicks = seen(shop, f"search[{query}]")
        assert text == f'Found for "{query}": nothing'
        assert clicks == ["back to search"]


def test_a_long_query_is_cut_on_the_page(shop: Catalogue) -> None:
    text, _ = seen(shop, f"search[{'mug ' * 25_000}]")
    assert text.splitlines()[0].startswith('Found for "mug mug')
    assert len(text.splitlines()[0]) < 130


def test_an_item_shows_what_was_chosen(shop: Catalogue) -> None:
    item = ("search[mug]", "click[b000000001]")
    text, clicks = seen(shop, *item)
    assert text == "Tin Mug 1\nPrice: $9.50\ncolor: not chosen\nsize: not chosen"
    buttons = ["buy now", "description", "features", "< prev", "back to search"]
    assert clicks == ["red", "blue", "8", "12", *buttons]
    text, _ = seen(shop, *item, "click[red]", "click[12]", "click[blue]")
    assert text.splitlines()[2:] == ["color: blue", "size: 12"]


def test_choices_last_on_sub_pages_and_not_beyond_the_product(shop: Catalogue) -> None:
    chosen = ("search[mug]", "click[b000000001]", "click[red]")
    for page in ("description", "features"):
        text, _ = seen(shop, *chosen, f"click[{page}]", "click[< prev]")
        assert "color: red" in text
    text, _ = seen(shop, *chosen, "click[< prev]", "click[b000000001]")
    assert "color: not chosen" in text


def test_sub_pages(shop: Catalogue) -> None:
    item = ("search[mug]", "click[b000000001]")
    text, clicks = seen(shop, *item, "click[description]")
    assert text == "Tin Mug 1\nA mug for the camp fire."
    assert clicks == ["< prev", "back to search"]
    text, _ = seen(shop, *item, "click[features]")
    assert text == "Tin Mug 1\nHolds 12 ounces\nDishwasher safe"


def test_odd_texts(shop: Catalogue) -> None:
    """Markup stays text, whitespace collapses, ambiguous values are prefixed with their option."""
    item = ("search[hat]", "click[b00000000x]")
    text, clicks = seen(shop, *item)
    assert text.splitlines()[0] == "<b>Tin</b> Hat Large"
    assert clicks[:4] == ["color: red", "color: buy now", "trim: red", "one [two]"]
    visit = visit_after(shop, *item, "click[trim: red]", "click[color: buy now]")
    assert visit.chosen == {"trim": "red", "color": "buy now"}
    assert visit_after(shop, *item, "click[one [two]]").chosen == {"trim": "one  [two]"}
    assert seen(shop, *item, "click[description]")[0].endswith("\nThere is nothing here.")
    assert seen(shop, *item, "click[features]")[0].endswith("Hat Large\nShiny")


def test_a_range_of_prices_is_one_price_that_stays(shop: Catalogue) -> None:
    price = shop.price(ODD)
    assert 5.0 < price < 7.0
    assert price == round(price, 2) == shop.price(ODD)
    assert f"Price: ${price:.2f}" in seen(shop, "search[hat]", "click[b00000000x]")[0]


def test_buying_ends_the_visit(shop: Catalogue) -> None:
    visit = visit_after(shop, "search[mug]", "click[b000000002]", "click[buy now]")
    assert visit.place is Place.DONE
    assert visit.looked_at.title == "Tin Mug 2"
    page = pages.page_of(visit)
    assert (page.observation, page.clicks) == ("You bought Tin Mug 2.", {})


@pytest.mark.parametrize(
    "action",
    [
        "search[]",
        "search[ ]",
        "search",
        "search[mug",
        "search mug",
        "click[search]",
        "click[buy now]",
        "click[mug]",
        "click[]",
        "[mug]",
        "buy now",
        "",
        "click[next >] now",
        "\ud800",
    ],
)
def test_what_the_page_does_not_offer_does_nothing(shop: Catalogue, action: str) -> None:
    visit = Visit(shop, goal())
    assert not pages.act(visit, pages.page_of(visit), action)
    assert visit == Visit(shop, goal())


@pytest.mark.parametrize("action", ["search[mug]", "click[next >]", "click[reviews]"])
def test_a_search_needs_the_search_page(shop: Catalogue, action: str) -> None:
    visit = visit_after(shop, "search[hat]", "click[b00000000x]")
    assert not pages.act(visit, pages.page_of(visit), action)


def original(shop: Catalogue, *actions: str) -> tuple[Visit, Any]:
    """A visit to the original's shop after some actions."""
    visit = Visit(shop, goal())
    for action in actions:
        assert compat.act(visit, compat.page_of(visit), action), action
    return visit, compat.page_of(visit)


def test_the_originals_oddities(shop: Catalogue) -> None:
    """Every line of the README's table, with `compat` and by default."""
    # `Next >` has no limit.
    _, page = original(shop, "search[mug]", *["click[next >]"] * 7)
    assert "Page 8 (Total results: 23)" in page.observation
    assert list(page.clicks) == ["back to search", "< prev", "next >"]
    # Searches are possible everywhere; names of actions are case-sensitive, texts are not.
    visit, _ = original(shop, "search[mug]", "click[B000000001]", "search[hat]")
    assert visit.place is Place.RESULTS
    assert not compat.act(visit, compat.page_of(visit), "Click[Back to Search]")
    # `click[search]` is offered but does nothing.
    visit, page = original(shop)
    assert list(page.clicks) == ["search"]
    assert not compat.act(visit, page, "click[search]")
    # An ambiguous name means the last match, even instead of a button.
    visit, page = original(shop, "search[hat]", "click[b00000000x]", "click[red]", "click[buy now]")
    assert visit.chosen == {"trim": "red", "color": "buy now"}
    # Prices are ranges without cents; choices are not shown.
    assert "Price: $5.0 to $7.0 [SEP] Rating: N.A." in page.observation
    assert "not chosen" not in page.observation


def test_markup_is_shown_as_the_original_shows_it(shop: Catalogue) -> None:
    _, page = original(shop, "search[hat]", "click[b00000000x]")
    assert "[SEP] <b>Tin</b>  Hat\nLarge [SEP]" in page.observation
    _, page = original(shop, "search[hat]", "click[b00000000x]", "click[features]")
    assert page.observation.endswith("< Prev [SEP]  [SEP] Shiny")


@pytest.mark.parametrize(
    ("action", "name", "text"),
    [
        ("a[b]", "a", "b"),
        ("a[b] c", "a", "b"),
        ("a[b][c]", "a[b]", "c"),
        ("a[b]c]", "a", "b]c"),
        ("a[[b]", "a[", "b"),
        ("[[b]", "[", "b"),
        ("a[]]", "a", "]"),
        ("a[b]\n[c]", "a", "b"),
        ("a[]", None, None),
        ("[b]", None, None),
        ("a[b", None, None),
        ("a]b[", None, None),
        ("", None, None),
    ],
)
def test_actions_are_split_as_the_original_does(
    action: str, name: str | None, text: str | None
) -> None:
    match = re.match(r"(.+)\[(.+)\]", action)
    assert (match and match[1], match and match[2]) == (name, text)
    assert compat.split(action) == ((name, text) if name is not None else None)


@given(st.text(alphabet="a[]\n", max_size=12))
def test_all_actions_are_split_as_the_original_does(action: str) -> None:
    match = re.match(r"(.+)\[(.+)\]", action)
    assert compat.split(action) == (match and (match[1], match[2]))


def test_long_actions_are_split_at_once() -> None:
    assert compat.split("search" + "[" * 1_000_000) is None
