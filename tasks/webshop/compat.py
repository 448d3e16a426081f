"""The original's pages and actions, character by character: for `compat=on`.

The order of what can be clicked, the spelling of the last page and what is not shown (which options
are chosen, for one) are the original's. Source: recordings of the original text environment, which
the tests compare with.
"""

import json
from collections.abc import Iterable

from tasks.webshop.data.products import Product
from tasks.webshop.visit import (
    SUB_PAGES,
    Button,
    Click,
    Link,
    OptionChoice,
    Page,
    Place,
    Visit,
    buttons_of,
)

SEPARATOR = " [SEP] "

_HTML_SPACE = " \t\n\r\f"
_TITLES = {
    Button.SEARCH: "Search",
    Button.BACK: "Back to Search",
    Button.PREVIOUS: "< Prev",
    Button.NEXT: "Next >",
    Button.DESCRIPTION: "Description",
    Button.FEATURES: "Features",
    Button.REVIEWS: "Reviews",
    Button.BUY: "Buy Now",
}
_ESCAPED = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "'": "\\u0027"}


def act(visit: Visit, page: Page, action: str) -> bool:
    """Do what an action says.

    A search is possible on every page. Names of actions are case-sensitive, texts are not.

    Returns:
        Whether anything was done.
    """
    parts = split(action)
    if parts is None:
        return False
    name, text = parts[0], parts[1].lower()
    if name == "search":
        visit.search(text)
        return True
    click = page.clicks.get(text) if name == "click" else None
    if click is None or click is Button.SEARCH:
        return False
    visit.click(click)
    return True


def split(action: str) -> tuple[str, str] | None:
    """The name and the text of an action `name[text]`; None if it is not of this form.

    It is split as the original's greedy regular expression does, but in linear time.
    """
    line = action.split("\n", 1)[0]
    end = line.rfind("]")
    start = line.rfind("[", 1, max(end - 1, 0))
    return None if start < 0 else (line[:start], line[start + 1 : end])


def page_of(visit: Visit, reward: float | None = None) -> Page:
    """The page that a visit is on.

    Args:
        visit: Where the shopper is.
        reward: Of the purchase, on the last page.
    """
    head = ["Instruction:", visit.goal.instruction]
    if visit.place is Place.START:
        body = [_TITLES[Button.SEARCH]]
        clicks: dict[str, Click] = {Button.SEARCH.value: Button.SEARCH}
        return _page(["WebShop", *head], body, clicks, searchable=True)
    if visit.place is Place.DONE:
        return _page([], _last_page(visit, reward), {}, searchable=False)
    if visit.place is Place.RESULTS:
        products = visit.listed
        more = [Button.PREVIOUS, Button.NEXT] if visit.number > 1 else [Button.NEXT]
        body = [
            _TITLES[Button.BACK],
            f"Page {visit.number} (Total results: {len(visit.hits)})",
            *(_TITLES[button] for button in more),
        ]
        for product in products:
            body += [product.asin, product.title, price_text(product)]
        clicks = buttons_of(Button.BACK, *more)
        clicks |= {product.asin.lower(): Link(product.asin) for product in products}
        return _page(head, body, clicks)
    way_back = (Button.BACK, Button.PREVIOUS)
    product = visit.looked_at
    if visit.place is not Place.ITEM:
        body = [*(_TITLES[button] for button in way_back), *_sub_page(visit.place, product)]
        return _page(head, body, buttons_of(*way_back))
    pages = tuple(SUB_PAGES)
    body = [_TITLES[button] for button in way_back]
    clicks = buttons_of(*way_back, *pages, Button.BUY)
    for option, values in product.options.items():
        body += [option, *values]
        clicks |= {value: OptionChoice(option, value) for value in values}
    body += [product.title, f"Price: {price_text(product)}", "Rating: N.A."]
    body += [_TITLES[button] for button in (*pages, Button.BUY)]
    return _page(head, body, clicks)


def price_text(product: Product) -> str:
    """The price as the original prints it: `$14.0`, `$9.5 to $12.0`."""
    return " to ".join(f"${price}" for price in product.prices)


def _sub_page(place: Place, product: Product) -> Iterable[str]:
    if place is Place.DESCRIPTION:
        return (product.description,)
    # The original never loads any reviews.
    # The page's own spaces stand around each line.
    return (f" {bullet} " for bullet in product.bullets) if place is Place.FEATURES else ()


def _last_page(visit: Visit, reward: float | None) -> list[str]:
    options = json.dumps(visit.chosen, sort_keys=True)
    for character, escaped in _ESCAPED.items():
        options = options.replace(character, escaped)
    bought = ["asin", visit.looked_at.asin, "options", options]
    unset = ("attrs", "category", "query", "product category")
    unknown = [part for name in unset for part in (name, "None")]
    target = ["asin", "options", "attrs", "price upper", "instuction text", "category"]
    return [
        *("Thank you for shopping with us!", "Your code:", "None"),
        *("(Paste it in your MTurk interface.)", "Purchased", *bought, *unknown),
        *("Target", *target, "product category", "query", "Goal", "None", "Reward"),
        *("Your score (min 0.0, max 1.0)", str(reward), "Reward Details", "None"),
    ]


def _page(
    head: list[str], body: Iterable[str], clicks: dict[str, Click], searchable: bool = False
) -> Page:
    parts = list(_visible(body))
    return Page(
        observation=SEPARATOR.join([*_visible(head), *parts]),
        shown=SEPARATOR.join(f"'{part}'" for part in parts) if head else SEPARATOR.join(parts),
        searchable=searchable,
        clicks=clicks,
    )


def _visible(texts: Iterable[str]) -> Iterable[str]:
    """What the original's HTML parser leaves of texts."""
    for text in texts:
        if text.strip(_HTML_SPACE):
            yield text.strip()
        elif text and "\n" not in text:
            yield ""
