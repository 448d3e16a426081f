"""A scripted expert that knows which product a goal was made from.

It searches for the product by its name, opens it, chooses the options and buys it: four turns and
one for each option. It proves that goals can be reached; a model that is cloned from it would learn
to guess, see `shopper.py`.
"""

from collections.abc import Mapping

from tasks.webshop.data.catalogue import Catalogue
from tasks.webshop.data.goals import Goal
from tasks.webshop.data.products import Product
from tasks.webshop.reward import values_meant
from tasks.webshop.visit import MOST_HITS, Button, Link, OptionChoice, Page, Place, Visit

Move = tuple[str, str]
"""Thought and action."""


def click(page: Page, wanted: Button | Link | OptionChoice) -> str | None:
    """The action that does a click; None where the page does not offer it."""
    return next((f"click[{name}]" for name, does in page.clicks.items() if does == wanted), None)


class Expert:
    """Decides from the goal, the catalogue and the state of the visit.

    Args:
        goal: What is to be bought.
        catalogue: The shop.
    """

    def __init__(self, goal: Goal, catalogue: Catalogue) -> None:
        self._goal = goal
        self._catalogue = catalogue

    def move(self, visit: Visit, page: Page) -> Move:
        """Thought and action."""
        product = self._catalogue.product(self._goal.asin)
        if visit.place is Place.RESULTS:
            return self._from_results(visit, page)
        if visit.product is None:
            return "I know its name", f"search[{self._query(product)}]"
        if visit.product.asin != product.asin or visit.place is not Place.ITEM:
            back = click(page, Button.PREVIOUS)
            return "This is not the page that I need", back or _listed(page)
        for option, value in wanted_options(self._goal, product):
            choose = click(page, OptionChoice(option, value))
            if visit.chosen.get(option) != value and choose is not None:
                return f"{option} must be {value}", choose
        return "All is chosen", click(page, Button.BUY) or _listed(page)

    def _from_results(self, visit: Visit, page: Page) -> Move:
        found = click(page, Link(self._goal.asin))
        if found is not None:
            return "This is what I need", found
        further = click(page, Button.NEXT)
        if self._goal.asin in visit.hits and further is not None:
            return "It is not on this page", further
        return "It was not found", click(page, Button.BACK) or _listed(page)

    def _query(self, product: Product) -> str:
        """A query that finds the product; its name, if that does."""
        texts = (product.title, f"{product.title} {' '.join(product.bullets)}")
        queries = [_searchable(text) for text in (*texts, self._goal.instruction)]
        hits = (self._catalogue.search(query, MOST_HITS) for query in queries)
        found = (query for query, asins in zip(queries, hits, strict=True) if product.asin in asins)
        return next(found, queries[0])


def wanted_options(goal: Goal, product: Product) -> tuple[tuple[str, str], ...]:
    """Which value of which option of a product a goal asks for.

    Of wishes that name no option: the first values that they may mean.
    """
    if isinstance(goal.options, Mapping):
        return tuple(goal.options.items())
    wanted: dict[str, str] = {}
    for wish in goal.options:
        for option, value in values_meant(wish, product):
            if option not in wanted:
                wanted[option] = value
                break
    return tuple(wanted.items())


def _searchable(text: str) -> str:
    """A text without what an action cannot hold."""
    return " ".join(text.lower().replace("[", " ").replace("]", " ").split())


def _listed(page: Page) -> str:
    return f"click[{next(iter(page.clicks))}]"
