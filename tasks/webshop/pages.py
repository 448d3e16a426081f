"""The default pages, and the actions on them."""

import re
from collections import Counter

from tasks.response import normalize_action
from tasks.texts import cut
from tasks.webshop.visit import (
    PAGE_SIZE,
    Button,
    Click,
    Link,
    OptionChoice,
    Page,
    Place,
    Visit,
    buttons_of,
)

_ACTION = re.compile(r"(search|click) ?\[(.*)\]", re.DOTALL)
_BUTTONS = frozenset(button.value for button in Button)
_SUB_PAGES = (Button.DESCRIPTION, Button.FEATURES)
"""There are no reviews to be read."""


def act(visit: Visit, page: Page, action: str) -> bool:
    """Do what an action says, if the page offers it.

    Args:
        visit: Where the shopper is.
        page: What is seen there.
        action: In lower case, white space collapsed.

    Returns:
        Whether it was done.
    """
    match = _ACTION.fullmatch(action)
    if match is None:
        return False
    text = match[2].strip()
    if match[1] == "search":
        if not page.searchable or not text:
            return False
        visit.search(text)
        return True
    click = page.clicks.get(text)
    if click is None:
        return False
    visit.click(click)
    return True


def page_of(visit: Visit) -> Page:
    """The page that a visit is on."""
    match visit.place:
        case Place.START:
            return _page("You are at the search page.", {}, searchable=True)
        case Place.RESULTS:
            return _results(visit)
        case Place.ITEM:
            return _item(visit)
        case Place.DONE:
            return _page(f"You bought {_line(visit.looked_at.title)}.", {})
        case _:
            return _sub_page(visit)


def _results(visit: Visit) -> Page:
    pages = -(-len(visit.hits) // PAGE_SIZE)
    found = f"page {visit.number} of {pages}, {len(visit.hits)} products" if pages else "nothing"
    lines = [f"Found for {_quoted(visit.query)}: {found}"]
    clicks: dict[str, Click] = {}
    for product in visit.listed:
        price = visit.catalogue.price(product)
        lines.append(f"{product.asin.lower()}: {_line(product.title)}, {price_text(price)}")
        clicks[product.asin.lower()] = Link(product.asin)
    turns = [Button.PREVIOUS] if visit.number > 1 else []
    turns += [Button.NEXT] if visit.number < pages else []
    return _page("\n".join(lines), clicks | buttons_of(*turns, Button.BACK))


def _item(visit: Visit) -> Page:
    product = visit.looked_at
    lines = [_line(product.title), f"Price: {price_text(visit.catalogue.price(product))}"]
    lines += [f"{option}: {visit.chosen.get(option, 'not chosen')}" for option in product.options]
    # Values that differ in white space alone are one to an action.
    counts = Counter(
        name for values in product.options.values() for name in set(map(normalize_action, values))
    )
    clicks: dict[str, Click] = {}
    for option, values in product.options.items():
        for value in values:
            # A value that something else is called, too, is named with its option.
            name = normalize_action(value)
            if counts[name] > 1 or name in _BUTTONS:
                name = normalize_action(f"{option}: {value}")
            clicks.setdefault(name, OptionChoice(option, value))
    buttons = buttons_of(Button.BUY, *_SUB_PAGES, Button.PREVIOUS, Button.BACK)
    return _page("\n".join(lines), clicks | buttons)


def _sub_page(visit: Visit) -> Page:
    product = visit.looked_at
    lines = (product.description,) if visit.place is Place.DESCRIPTION else product.bullets
    text = "\n".join(_line(line) for line in lines if line.strip()) or "There is nothing here."
    return _page(f"{_line(product.title)}\n{text}", buttons_of(Button.PREVIOUS, Button.BACK))


def _page(text: str, clicks: dict[str, Click], searchable: bool = False) -> Page:
    return Page(text, text, searchable, clicks)


def _line(text: str) -> str:
    """A text of a product on one line."""
    return " ".join(text.split())


def price_text(price: float) -> str:
    """A price with its cents: `$14.00`."""
    return f"${price:.2f}"


def _quoted(query: str) -> str:
    """A query for the page: a model may have searched for anything."""
    return f'"{cut(query, 80, "...")}"'
