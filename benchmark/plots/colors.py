"""One style for every recipe in all figures: a hue, and dashes for variants of a recipe.

The hues are those of Okabe and Ito (2008), "Color Universal Design", which are distinguishable with
every kind of color blindness. A figure can hold no more than six hues, so recipes of one family
share one.
"""

from collections.abc import Mapping
from typing import Final

HUES: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#4D4D4D")
"""Hues for a white page."""
_RECIPES: Final[Mapping[str, tuple[int, bool]]] = {
    "grpo": (0, False),
    "grpo_st": (0, True),
    "grpo_sm": (0, True),
    "dapo_grpo": (0, True),
    "dr_grpo": (0, True),
    "cispo": (1, False),
    "cispo_sm": (1, True),
    "sampo": (2, False),
    "sapo": (3, False),
    "sapo_sm": (3, True),
    "gigpo": (4, False),
    "dapo_gigpo": (4, True),
    "gspo": (5, False),
    "empg": (5, True),
    "ppo": (4, False),
    "rloo": (2, True),
    "reinforce_pp": (1, True),
    "agentrl": (3, True),
    "agentrl_norm": (1, True),
    "agentrl_cross": (4, True),
}


def is_known(recipe: str) -> bool:
    """Whether a recipe has its own style here."""
    return recipe.lower() in _RECIPES


def look_of_recipe(recipe: str) -> tuple[int, bool]:
    """A recipe's index into `HUES`, and whether its lines are dashed.

    An unknown recipe gets a hue derived from its letters, the same in all figures.
    """
    return _RECIPES.get(recipe.lower(), (sum(recipe.encode()) % len(HUES), True))
