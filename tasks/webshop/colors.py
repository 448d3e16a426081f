"""Color names that the original uses to compare option values."""

from collections.abc import Sequence

_NAMES = """
alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown
burgundy camel camo caramel champagne charcoal cheetah chestnut chocolate christmas coffee cognac
copper coral cranberry cream crystal dark denim eggplant elephant espresso fuchsia gold granite
grape graphite grass gray green grey heather indigo ivory ivy khaki lavender lemon leopard light
lilac lime magenta maroon mauve merlot midnight mint mocha multicolor mushroom mustard natural navy
nude olive orange peach pewter pink plum purple rainbow red rose royal rust sand sapphire seashell
silver skull slate steel stone stonewash sunflower tan taupe teal tiger turquoise violet walnut
wheat white wine yellow
"""
COLORS = tuple(_NAMES.split())
"""The names that the original knows, in alphabetical order."""


def first_color_inside(value: str | Sequence[str]) -> str | None:
    """The alphabetically first color in a value, as the original finds it.

    In a text it need not be a word: "fashion" holds "ash". Of a pair it must be one element.
    """
    return next((color for color in COLORS if color in value), None)
