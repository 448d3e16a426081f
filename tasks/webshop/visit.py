"""The state of a visit: the current page, chosen options, and effects of clicks.

How a page looks and what it offers is another matter: see `pages.py` and `compat.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from tasks.webshop.data.catalogue import Catalogue
from tasks.webshop.data.goals import Goal
from tasks.webshop.data.products import Product

PAGE_SIZE = 10
"""Products of one results page."""
MOST_HITS = 50
"""Products of one search."""


class Place(Enum):
    """A kind of page."""

    START = "start"
    RESULTS = "results"
    ITEM = "item"
    DESCRIPTION = "description"
    FEATURES = "features"
    REVIEWS = "reviews"
    DONE = "done"


class Button(Enum):
    """What can be clicked on pages of one kind, by its lower-case text."""

    SEARCH = "search"
    BACK = "back to search"
    PREVIOUS = "< prev"
    NEXT = "next >"
    DESCRIPTION = "description"
    FEATURES = "features"
    REVIEWS = "reviews"
    BUY = "buy now"


@dataclass(frozen=True, slots=True)
class Link:
    """A product on a results page."""

    asin: str


@dataclass(frozen=True, slots=True)
class OptionChoice:
    """A value of an option on a product's page."""

    option: str
    value: str


Click = Button | Link | OptionChoice

SUB_PAGES = {
    Button.DESCRIPTION: Place.DESCRIPTION,
    Button.FEATURES: Place.FEATURES,
    Button.REVIEWS: Place.REVIEWS,
}


@dataclass(frozen=True, slots=True)
class Page:
    """What is seen.

    Attributes:
        observation: The page's text.
        shown: The same as the prompt shows it.
        searchable: Whether it has a search bar.
        clicks: What a click on each text does, in the order in which they are listed.
    """

    observation: str
    shown: str
    searchable: bool
    clicks: Mapping[str, Click]


@dataclass(slots=True)
class Visit:
    """State of one visit.

    Attributes:
        catalogue: The shop.
        goal: What is to be bought.
        place: Where the shopper is.
        query: Words of the last search.
        hits: Numbers of the products that it found, best first.
        number: Number of the results page, from 1.
        product: Product on the current page.
        chosen: Values of its options, by name.
    """

    catalogue: Catalogue
    goal: Goal
    place: Place = Place.START
    query: str = ""
    hits: tuple[str, ...] = ()
    number: int = 1
    product: Product | None = None
    chosen: dict[str, str] = field(default_factory=dict)

    @property
    def listed(self) -> tuple[Product, ...]:
        """The products of this results page."""
        first = (self.number - 1) * PAGE_SIZE
        return tuple(self.catalogue.product(asin) for asin in self.hits[first : first + PAGE_SIZE])

    @property
    def looked_at(self) -> Product:
        """The product that is looked at; only where there is one."""
        assert self.product is not None
        return self.product

    def search(self, query: str) -> None:
        """Search, from wherever one is."""
        self.query = query
        self.hits = self.catalogue.search(query, MOST_HITS)
        self._to_results(1)

    def click(self, click: Click) -> None:
        """Do what a click on something does that the page offers."""
        match click:
            case Link(asin):
                self.product = self.catalogue.product(asin)
                self.place = Place.ITEM
            case OptionChoice(option, value):
                self.chosen[option] = value
            case Button.BACK:
                self._leave_product()
                self.place, self.query, self.hits, self.number = Place.START, "", (), 1
            case Button.NEXT:
                self._to_results(self.number + 1)
            case Button.PREVIOUS if self.place is Place.RESULTS:
                self._to_results(self.number - 1)
            case Button.PREVIOUS if self.place is Place.ITEM:
                self._to_results(self.number)
            case Button.PREVIOUS:
                self.place = Place.ITEM
            case Button.BUY:
                self.place = Place.DONE
            case Button.SEARCH:
                pass  # the button of an empty search bar
            case _:
                self.place = SUB_PAGES[click]

    def _to_results(self, number: int) -> None:
        self._leave_product()
        self.place, self.number = Place.RESULTS, number

    def _leave_product(self) -> None:
        self.product = None
        self.chosen = {}


def buttons_of(*buttons: Button) -> dict[str, Click]:
    """What a click on each of these buttons is, by its text."""
    return {button.value: button for button in buttons}
