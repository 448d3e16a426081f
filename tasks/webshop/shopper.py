"""A scripted shopper that uses only the prompt. The inits are cloned from it.

It searches for what the task asks, opens the first product that costs no more than the limit,
chooses the options and buys. A product that does not offer an option is left for the next one on
the list. It does not read descriptions.
"""

from tasks.webshop.data.catalogue import Catalogue
from tasks.webshop.data.goals import Goal
from tasks.webshop.data.products import Product
from tasks.webshop.expert import Move, click, wanted_options
from tasks.webshop.generator.tables import kinds
from tasks.webshop.visit import Button, Link, OptionChoice, Page, Place, Visit

_CHOSEN = "All is chosen"


class Shopper:
    """Decides from the task's text, the page and the past turns that the prompt repeats.

    Args:
        goal: What is to be bought; only what its instruction says literally is used.
        catalogue: For the prices, which results pages show.
    """

    def __init__(self, goal: Goal, catalogue: Catalogue) -> None:
        self._goal = goal
        self._catalogue = catalogue

    def move(self, visit: Visit, page: Page, left: Product | None) -> Move:
        """Thought and action.

        Args:
            visit: Where the shopper is.
            page: What is seen.
            left: The product whose page was seen one turn ago, if any.
        """
        if visit.place is Place.START:
            query = self._query()
            return "I look for what is asked", f"search[{query}]"
        if visit.place is Place.RESULTS:
            return self._from_results(visit, page, left)
        if visit.place is Place.ITEM:
            return self._from_item(visit, page)
        return "Back to the product", click(page, Button.PREVIOUS) or _back(page)

    def careless_move(self, visit: Visit, page: Page, left: Product | None) -> Move:
        """Thought and action of one who takes a product as it is, whatever options there are."""
        if visit.place is Place.ITEM and (buy := click(page, Button.BUY)) is not None:
            return _CHOSEN, buy
        return self.move(visit, page, left)

    def _query(self) -> str:
        """The wanted attributes and options and what kind of thing it is, in the task's order."""
        wish = self._goal.instruction.lower()
        product = self._catalogue.product(self._goal.asin)
        wanted = [*self._goal.attributes, *_names(product), *self._goal.option_values]
        placed = sorted((wish.find(text), text) for text in wanted if text in wish)
        return " ".join(text for _, text in placed) or wish

    def _from_results(self, visit: Visit, page: Page, left: Product | None) -> Move:
        limit = self._goal.price_upper
        listed = visit.listed
        if left in listed:
            listed = listed[listed.index(left) + 1 :]
        for product in listed:
            price = self._catalogue.price(product)
            if limit is None or price <= limit:
                open_it = click(page, Link(product.asin))
                if open_it is not None:
                    return f"${price:.2f} is within the limit", open_it
        further = click(page, Button.NEXT)
        if further is not None:
            return "Nothing more here", further
        return "Nothing was found", _back(page)

    def _from_item(self, visit: Visit, page: Page) -> Move:
        product = visit.looked_at
        for option, value in wanted_options(self._goal, product):
            if visit.chosen.get(option) == value:
                continue
            choose = click(page, OptionChoice(option, value))
            if choose is None:
                return f"{option}: there is no {value}", click(page, Button.PREVIOUS) or _back(page)
            return f"{option}: {value}", choose
        return _CHOSEN, click(page, Button.BUY) or _back(page)


def _names(product: Product) -> tuple[str, ...]:
    """What a product may be called in a wish: as one searches for it, or by its noun."""
    if product.query not in kinds():
        return (product.query,)
    singular = kinds()[product.query][1].noun
    return (singular,) if singular in product.query else (product.query, singular)


def _back(page: Page) -> str:
    return click(page, Button.BACK) or f"click[{next(iter(page.clicks))}]"
