"""The reward of a purchase: the original's formula, with or without its quirks.

    r = r_type * (attributes found + options chosen + [price within the limit])
               / (attributes asked + options asked + 1)

Source: Yao et al. 2022, section 3.2, and the original environment's code. Its oddities, which
`compat` keeps, are listed in the task's README.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from rapidfuzz import fuzz

from tasks.webshop.colors import first_color_inside
from tasks.webshop.data.goals import Goal
from tasks.webshop.data.products import LEVELS, Product
from tasks.webshop.nouns import Tagger

_SIMILAR = 85
"""Texts of a higher token-set ratio, in percent, are taken for the same."""
_WORD = re.compile(r"\w+(?:[.,]\d+)*")
_NO_WORD = re.compile(r"\W")
_DROPPED = dict.fromkeys(range(128, 256))
"""Characters that thefuzz, the original's library, drops before it compares."""
_SHARED_LEVELS = 2
"""Levels of the product category that two products of one type share."""
_SHARED_NOUNS = 0.2
"""Share of the goal product's nouns above which a product is of its type."""
_FEW_NOUNS = 0.1
"""Share below which it is of quite another type."""


@dataclass(frozen=True, slots=True)
class Reward:
    """A purchase's reward and its parts.

    Attributes:
        value: Between 0 and 1.
        type: Factor for the type of product: 1, 0.5, 0.1 or 0.
        attributes: Asked for and found.
        attributes_asked: Asked for.
        options: Asked for and chosen.
        options_asked: Asked for.
        price: Whether it is within the limit.
    """

    value: float
    type: float
    attributes: int
    attributes_asked: int
    options: int
    options_asked: int
    price: bool


def judge(
    goal: Goal,
    wanted: Product,
    bought: Product,
    chosen: Mapping[str, str],
    price: float,
    tagger: Tagger,
    compat: bool,
) -> Reward:
    """Judge a purchase.

    Args:
        goal: What was asked for.
        wanted: The product that the goal was made from.
        bought: The product that was bought.
        chosen: Its options as chosen, by name.
        price: What it costs, in dollars.
        tagger: Finds the nouns of names.
        compat: Judge as the original does.
    """
    factor = type_factor(wanted, bought, tagger, compat)
    attributes = sum(_has(bought, attribute) for attribute in goal.attributes)
    options = _options_as_original(goal, chosen) if compat else _options(goal, chosen, bought)
    affordable = goal.price_upper is None or price <= goal.price_upper
    asked = len(goal.attributes) + len(goal.options) + 1
    return Reward(
        value=(attributes + options + affordable) / asked * factor,
        type=factor,
        attributes=attributes,
        attributes_asked=len(goal.attributes),
        options=options,
        options_asked=len(goal.options),
        price=affordable,
    )


def type_factor(wanted: Product, bought: Product, tagger: Tagger, compat: bool) -> float:
    """How far a product is of the wanted one's type.

    The original lowers the factor of products that match by search query or category but share no
    noun with the wanted one's name. Without `compat`, the same query or the whole category being
    the same is enough.
    """
    same_query = wanted.query == bought.query
    # Of some public products the category is not known.
    same_category = wanted.product_category == bought.product_category != ""
    if not compat and ((same_query and wanted.query) or same_category):
        return 1.0
    shared = len(_levels(wanted) & _levels(bought))
    nouns = tagger.nouns(wanted.title)
    common = len(set(nouns) & set(tagger.nouns(bought.title)))
    share = common / len(nouns) if nouns else _SHARED_NOUNS
    if share == 0:
        return 0.0
    if share < _FEW_NOUNS:
        return 0.1
    return 1.0 if same_query or shared >= _SHARED_LEVELS or share > _SHARED_NOUNS else 0.5


def _levels(product: Product) -> set[str]:
    return {level.strip() for level in product.product_category.split(LEVELS.strip())}


def _has(product: Product, attribute: str) -> bool:
    """Whether a product is known to have an attribute, or its texts say so."""
    return any(_similar(known, attribute) for known in product.attributes) or any(
        attribute in text.lower()
        for text in (product.title, " ".join(product.bullets), product.description)
    )


def _options(goal: Goal, chosen: Mapping[str, str], bought: Product) -> int:
    """Options chosen as asked for, by name; wishes without a name by what they say."""
    if isinstance(goal.options, Mapping):
        return sum(chosen.get(name) == value for name, value in goal.options.items())
    meant = (values_meant(wish, bought) for wish in goal.options)
    return sum(any(pair in pairs for pair in chosen.items()) for pairs in meant)


def values_meant(wish: str, product: Product) -> tuple[tuple[str, str], ...]:
    """The options and values of a product that a wish without an option's name may mean.

    The values that are the wish word for word; if there is none, those that hold all of its words.
    """
    words = _words(wish)
    pairs = [(name, value) for name, values in product.options.items() for value in values]
    exact = tuple(pair for pair in pairs if _words(pair[1]) == words)
    return exact or tuple(pair for pair in pairs if words and words <= _words(pair[1]))


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower()))


def _options_as_original(goal: Goal, chosen: Mapping[str, str]) -> int:
    """Options as the original counts them: a named wish is compared as the text of a pair."""
    values = [first_color_inside(value) or value for value in chosen.values()]
    if isinstance(goal.options, Mapping):
        wishes = [
            first_color_inside((name, value)) or str((name, value))
            for name, value in goal.options.items()
        ]
    else:
        wishes = [first_color_inside(wish) or wish for wish in goal.options]
    return sum(any(_similar(value, wish) for value in values) for wish in wishes)


def _similar(one: str, other: str) -> bool:
    """Whether two texts have (about) the same words.

    The original's library rounds the ratio before it is compared.
    """
    return round(fuzz.token_set_ratio(one, other, processor=_processed)) > _SIMILAR


def _processed(text: str) -> str:
    """A text as thefuzz compares it; unlike rapidfuzz, it keeps underscores."""
    return _NO_WORD.sub(" ", text.translate(_DROPPED)).lower().strip()
