"""A product with the goals that people wrote for it: the unit of a catalogue."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tasks.webshop.data.products import Product


@dataclass(frozen=True, slots=True)
class Wish:
    """An instruction without a price limit.

    Attributes:
        instruction: Its text.
        attributes: What the product must have.
        options: Values that must be chosen; empty where all options are to be chosen.
    """

    instruction: str
    attributes: tuple[str, ...]
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Listing:
    """A product of a catalogue.

    Attributes:
        product: What is sold.
        template: The wish that goals for every choice of options are made from, if any.
        people: Wishes that people wrote.
    """

    product: Product
    template: Wish | None = None
    people: tuple[Wish, ...] = ()

    def to_data(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "product": self.product.to_data(),
            "template": None if self.template is None else _wish_data(self.template),
            "people": [_wish_data(wish) for wish in self.people],
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "Listing":
        """From what `to_data` gave."""
        template = data["template"]
        return cls(
            Product.from_data(data["product"]),
            None if template is None else _wish(template),
            tuple(_wish(wish) for wish in data["people"]),
        )


def _wish_data(wish: Wish) -> dict[str, Any]:
    return {
        "instruction": wish.instruction,
        "attributes": list(wish.attributes),
        "options": list(wish.options),
    }


def _wish(data: Mapping[str, Any]) -> Wish:
    return Wish(data["instruction"], tuple(data["attributes"]), tuple(data["options"]))
