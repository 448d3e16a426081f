"""Every number has an explanation, and every explanation a number."""

import dataclasses
import re

from benchmark.stability import comparison
from benchmark.stability.definitions import DEFINITIONS, of_scope
from benchmark.stability.runs import RunStability
from benchmark.stability.seeds import RecipeStability

FACTS = {
    "name", "source", "recipe", "seed", "success_curve", "valid_curve", "evaluations", "last_step",
    "reached", "halved",
}  # fmt: skip


def test_every_number_has_a_definition() -> None:
    of_runs = [field.name for field in dataclasses.fields(RunStability)]
    assert set(of_runs) - FACTS == {*of_scope("run"), *of_scope("event")}
    of_recipes = {field.name for field in dataclasses.fields(RecipeStability)}
    computed = of_recipes - {"runs", "numbers", "events"}
    # Two of these are properties, and the anytime curve is a function: plotted, not in a table.
    assert computed == set(of_scope("recipe")) - {"survival", "halved", "anytime"}
    for name in of_scope("comparison"):
        assert hasattr(comparison, {"iqm": "iqm_over_tasks"}.get(name, name))


def test_definitions_fit_a_table() -> None:
    names = [what.name for what in DEFINITIONS.values()]
    assert len(set(names)) == len(names)
    for name, what in DEFINITIONS.items():
        assert re.fullmatch(r"[a-z][a-z0-9_]*", name)
        assert what.unit and what.source and 0 < len(what.text) <= 72, name
        assert "\n" not in what.text and not what.text.endswith(".")
    assert {"collapse_rate", "worst_seed", "max_drawdown", "retention", "mismatch_p95"} <= set(
        DEFINITIONS
    )
