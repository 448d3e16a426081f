"""Products of the shop."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

LEVELS = " \u203a "
"""Between the levels of a product category."""


@dataclass(frozen=True, slots=True)
class Product:
    """One product.

    Attributes:
        asin: Its number: up to ten letters and digits.
        title: Name on all pages.
        description: Text of the description page.
        bullets: Lines of the features page.
        options: Lower-case values by lower-case name, in the order of the page.
        prices: The price, or the lowest and the highest, in dollars.
        attributes: What the product is known to have; shown nowhere, judged by the reward.
        category: Department.
        query: What one would search for.
        product_category: From the general to the special, joined by `LEVELS`.
    """

    asin: str
    title: str
    description: str
    bullets: tuple[str, ...]
    options: Mapping[str, tuple[str, ...]]
    prices: tuple[float, ...]
    attributes: tuple[str, ...]
    category: str
    query: str
    product_category: str

    def to_data(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "Product":
        """From what `to_data` gave."""
        return cls(
            asin=data["asin"],
            title=data["title"],
            description=data["description"],
            bullets=tuple(data["bullets"]),
            options={name: tuple(values) for name, values in data["options"].items()},
            prices=tuple(data["prices"]),
            attributes=tuple(data["attributes"]),
            category=data["category"],
            query=data["query"],
            product_category=data["product_category"],
        )
