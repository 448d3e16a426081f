"""Styles of curves: the colors and dashes of recipes."""

from benchmark.plots.colors import HUES
from benchmark.plots.style import looks_of


def test_a_recipe_has_one_color_in_every_figure_and_unknown_ones_go_by_number() -> None:
    grpo, blue, cispo = looks_of(["grpo", "dr_grpo", "cispo"])
    assert (grpo.color, blue.color, cispo.color) == (HUES[0], HUES[0], HUES[1])
    assert grpo.dashes == cispo.dashes == "-" != blue.dashes
    assert looks_of(["cispo"]) == [cispo]
    by_number = [HUES[0], HUES[1], HUES[2]]
    for recipes in (["cispo", "cispo", "grpo"], ["cispo", "mine", "grpo"], ["cispo", None, "grpo"]):
        assert [look.color for look in looks_of(recipes)] == by_number
