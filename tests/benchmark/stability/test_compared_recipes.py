"""Comparison of recipes: what is compared, and how it is shown."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmark.plots.stability import stability_svg
from benchmark.stability.recipes import (
    Compared,
    Comparisons,
    LogReadingOptions,
    compared,
    comparisons_of,
)
from benchmark.stability.table import comparisons_text, equal_rows_of, table_text
from tests.benchmark.stability.command import one_line, run, verl_log
from tests.support.training.logs import start_line, update_line, validation_line, write_log

FINALS = {"grpo": (128, 192), "sampo": (64, 128)}
"""Episodes of 256 solved by every seed: 50 and 75% versus 25 and 50%."""


def log(
    folder: Path, recipe: str, seed: int, solved: int, task: str = "sokoban", protocol: str = "a"
) -> Path:
    """A run with two validations, the second of which matters."""
    lines = [
        start_line(recipe, seed, task=task),
        validation_line(0, solved=32, fingerprint=protocol * 64),
        update_line(1),
        validation_line(1, solved=solved, fingerprint=protocol * 64),
    ]
    return write_log(folder / f"{recipe}-{task}-{seed}", lines)


def logs(folder: Path, task: str = "sokoban", protocol: str = "a") -> list[Path]:
    return [
        log(folder, recipe, seed, solved, task, protocol)
        for recipe, finals in FINALS.items()
        for seed, solved in enumerate(finals)
    ]


def rows_of(paths: Sequence[Path]) -> list[Compared]:
    return compared(paths, [], LogReadingOptions())


@pytest.mark.slow
def test_two_recipes_of_two_seeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, page = tmp_path / "s.json", tmp_path / "s.html"
    text = run(capsys, *logs(tmp_path), "--json", out, "--out", page)
    # Of four pairs of seeds, grpo wins three and ties one. The IQM of two seeds is their mean.
    assert "Final success on sokoban/builtin; P(first): grpo is better than the recipe" in text
    lines = [" ".join(line.split()) for line in text.splitlines()]
    # Two seeds are too few for intervals.
    assert "grpo 2 62.5% -" in lines
    assert "sampo 2 37.5% 87.5%" in lines
    assert "seeds, and need 5 of them" in " ".join(lines)
    assert "probability of improvement: " in text
    (one,) = json.loads(out.read_text())["comparisons"]
    assert (one["tasks"], one["first"]) == (["sokoban/builtin"], "grpo")
    grpo, sampo = one["recipes"]
    assert grpo["iqm"] == {"value": 0.625, "low": None, "high": None}
    assert grpo["improvement_of_first"] is None
    assert sampo["improvement_of_first"] == {"value": 0.875, "low": None, "high": None}
    assert sampo["profile"]["thresholds"] == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert sampo["profile"]["share"] == [1.0, 0.5, 0.0, 0.0, 0.0]
    content = page.read_text("utf-8")
    assert "<h2>Comparison on sokoban/builtin</h2>" in content
    assert '<th scope="col">1 update</th>' in content
    for cell in ("62.5%", "37.5%", "87.5%"):
        assert f"<td>{cell}</td>" in content
    assert "Not compared" not in content


@pytest.mark.slow
def test_the_profiles_are_drawn(tmp_path: Path) -> None:
    rows = rows_of(logs(tmp_path))
    comparisons = comparisons_of(rows)
    without, drawn = stability_svg(rows), stability_svg(rows, comparisons.each)
    assert drawn.count(b'<g id="axes_') == without.count(b'<g id="axes_') + 1


def test_single_seeds_alone_are_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for paths in (logs(tmp_path)[:1], logs(tmp_path)[::2]):
        assert comparisons_of(rows_of(paths)) == Comparisons()
        assert "P(first)" not in run(capsys, *paths)


def test_a_single_seed_stands_beside_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The others are compared with grpo, even if another recipe is given first."""
    text = run(capsys, log(tmp_path, "mine", 0, 160), *logs(tmp_path))
    assert "P(first): grpo is better than the recipe" in text
    lines = [" ".join(line.split()) for line in text.splitlines()]
    place = lines.index("grpo 2 62.5% -")
    assert lines[place + 1 : place + 3] == ["mine 1 62.5% -", "sampo 2 37.5% 87.5%"]
    place = next(n for n, line in enumerate(lines) if line.startswith("success on sokoban/builtin"))
    equal = [line.split()[:2] for line in lines[place + 2 : place + 5]]
    assert equal == [["grpo", "62.5%"], ["mine", "62.5%"], ["sampo", "37.5%"]]
    assert "P(first) needs two seeds on both sides." in one_line(text)


def test_the_tables_fit_a_terminal(tmp_path: Path) -> None:
    paths = [
        log(tmp_path, f"{'a_long_name_of_a_recipe_' * 3}{letter}", seed, 64 * seed)
        for letter in "ab"
        for seed in range(5)
    ]
    rows = rows_of(paths)
    comparisons = comparisons_of(rows)
    text = comparisons_text(comparisons)
    assert text
    assert max(map(len, text.splitlines())) <= 100
    (one,) = comparisons.each
    equal = equal_rows_of(one, rows)
    assert equal is not None
    tables = [text, table_text(rows), equal.text("after")]
    for lines in map(str.splitlines, tables):
        ends = [line.split()[0][-8:] for line in lines if line.startswith("a_long")]
        assert ends == ["recipe_a", "recipe_b"]


def test_only_rates_of_one_panel_and_protocol_are_put_side_by_side(tmp_path: Path) -> None:
    grpo = [log(tmp_path, "grpo", seed, 128) for seed in (0, 1)]
    other = [log(tmp_path, "sampo", seed, 128, protocol="b") for seed in (0, 1)]
    singles = [log(tmp_path, recipe, 0, 128, protocol="c") for recipe in ("cispo", "rloo")]
    found = comparisons_of(rows_of([*grpo, *other, *singles]))
    assert found.all == ()
    alone = "has no other recipe with its panel or protocol"
    single = "has a single seed, like all others with its panel and protocol"
    assert found.left_out == (
        ("grpo", alone), ("sampo", alone), ("cispo", single), ("rloo", single),
    )  # fmt: skip
    text = one_line(comparisons_text(found))
    told = f"grpo {alone}; sampo {alone}; cispo {single}; rloo {single}"
    assert text == f"not compared: {told}"


def test_several_tasks_are_compared_each_and_together(tmp_path: Path) -> None:
    paths = [*logs(tmp_path), *logs(tmp_path, "webshop", "b")]
    found = comparisons_of(rows_of(paths))
    assert [one.tasks for one in found.each] == [("sokoban/builtin",), ("webshop/builtin",)]
    assert [one.labels for one in found.each] == [
        ("grpo, task sokoban", "sampo, task sokoban"),
        ("grpo, task webshop", "sampo, task webshop"),
    ]
    together = found.together
    assert together is not None
    assert together.tasks == ("sokoban/builtin", "webshop/builtin")
    assert (together.labels, together.seeds) == (("grpo", "sampo"), (4, 4))
    # Without the lowest and the highest of four seeds.
    assert [one.value for one in together.iqm] == [0.625, 0.375]
    assert together.improvement[1] is not None
    assert together.improvement[1].value == 0.875


def test_other_recipes_on_another_task_are_not_put_together(tmp_path: Path) -> None:
    paths = [*logs(tmp_path), *logs(tmp_path, "webshop", "b")]
    more = [log(tmp_path, "gspo", seed, 128, "webshop", "b") for seed in (0, 1)]
    found = comparisons_of(rows_of([*paths, *more]))
    assert len(found.each) == 2
    assert found.together is None


def test_foreign_recipes_are_compared_by_the_names_of_their_panels(tmp_path: Path) -> None:
    named = []
    for recipe, last in (("gigpo", 0.75), ("grpo", 0.5)):
        paths = [
            verl_log(tmp_path / f"{recipe}-{seed}.jsonl", {0: 0.25, 1: last + seed / 8})
            for seed in (0, 1)
        ]
        named.append((recipe, paths))
    (one,) = comparisons_of(compared([], named, LogReadingOptions())).each
    assert (one.tasks, one.labels) == (("val",), ("grpo", "gigpo"))
    assert one.improvement[1] is not None
    assert one.improvement[1].value == 0.0
    own = [log(tmp_path, "ours", seed, 128) for seed in (0, 1)]
    found = comparisons_of(compared(own, named, LogReadingOptions()))
    assert [one.labels for one in found.each] == [("grpo", "gigpo")]
    assert found.left_out == (("ours", "has no other recipe with its panel or protocol"),)


def test_a_seed_that_was_never_validated_keeps_its_recipe_out(tmp_path: Path) -> None:
    silent = write_log(tmp_path / "s", [start_line("gspo", 1), update_line(1)])
    paths = [*logs(tmp_path), log(tmp_path, "gspo", 0, 128), silent]
    found = comparisons_of(rows_of(paths))
    assert [one.labels for one in found.each] == [("grpo", "sampo")]
    assert found.left_out == (("gspo", "has a seed without a final success"),)
