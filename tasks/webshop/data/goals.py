"""Goals: the product that a shopper is asked to buy."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Goal:
    """One wish.

    Attributes:
        asin: The product that it was made from; another one may be as good.
        instruction: What the model reads.
        attributes: What the product must have.
        options: What must be chosen, by the option's name; a sequence where people wished for
            values without a word on which option they are of.
        price_upper: The most that it may cost, in dollars; None for no limit.
    """

    asin: str
    instruction: str
    attributes: tuple[str, ...]
    options: Mapping[str, str] | tuple[str, ...]
    price_upper: float | None

    @property
    def option_values(self) -> tuple[str, ...]:
        """The values alone."""
        return tuple(self.options.values() if isinstance(self.options, Mapping) else self.options)
