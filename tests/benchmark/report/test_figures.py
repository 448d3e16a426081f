"""Figures: marks at the right positions, labels that fit, and the underlying table."""

import itertools
import re
from pathlib import Path

import pytest

from benchmark.evaluation.summary import CategorySummary, MeanInterval, PanelSummary
from benchmark.report import drawing
from benchmark.report.drawing import WIDTH
from benchmark.report.figures import (
    interval_figure,
    invalid_figure,
    panel_figures,
    success_figure,
    turns_figure,
)


def panel(**changes: object) -> PanelSummary:
    estimate = MeanInterval(0.5, 0.25, 0.75, 8)
    values: dict[str, object] = {
        "task": "t",
        "panel": "p",
        "fingerprint": "0" * 64,
        "expected": 8,
        "records": 8,
        "errors": 0,
        "pass_at": (),
        "success": estimate,
        "score": estimate,
        "score_name": "reward",
        "score_unit": "points",
        "episode_return": estimate,
        "format_valid": 1.0,
        "action_valid": 1.0,
        "truncated": 0.0,
        "turns": 3.0,
        "prompt_tokens": None,
        "response_tokens": None,
        "total_tokens": None,
        "category_name": "optimal length",
        "categories": (
            CategorySummary("3", MeanInterval(1.0, 0.5, 1.0, 4)),
            CategorySummary("4", MeanInterval(0.0, 0.0, 0.5, 4)),
        ),
        "turn_counts": ((2, 3, 1), (4, 0, 4)),
        "invalid_by_turn": ((1, 8, 2), (2, 8, 0), (3, 4, 0), (4, 4, 1)),
    }
    return PanelSummary(**(values | changes))  # type: ignore[arg-type]


def dots(svg: str) -> list[tuple[float, float]]:
    """Positions of the dots, from the upper left corner."""
    return [
        (float(x), float(y)) for x, y in re.findall(r'<use [^>]*x="([\d.]+)" y="([\d.]+)"', svg)
    ]


def shapes(svg: str, attributes: str) -> list[list[float]]:
    """Coordinates of the paths with these attributes."""
    found = re.findall(rf'<path d="([^"]+)" [^>]*{re.escape(attributes)}', svg)
    return [[float(x) for x in re.findall(r"-?[\d.]+", path)] for path in found]


def intervals(svg: str) -> list[list[float]]:
    """Lower end, dot and upper end, each as x and y."""
    return shapes(svg, 'stroke="var(--solved)" stroke-width="1.5"')


def test_success_dots_and_intervals_stand_at_their_values() -> None:
    figure = success_figure(panel(), "k")
    # The plot is 150 high from y = 30: 100% at 30, 50% at 105, 0% at 180; two slots of 155.
    assert dots(figure.svg) == [(117.5, 30.0), (272.5, 180.0)]
    assert intervals(figure.svg) == [
        [117.5, 105, 117.5, 30, 117.5, 30],
        [272.5, 180, 272.5, 180, 272.5, 105],
    ]
    assert shapes(figure.svg, "stroke-dasharray") == [[40, 105, 350, 105]]
    assert figure.rows[0] == ("3", "100.0%", "50.0% to 100.0%", "4")


def test_categories_that_are_words_stand_on_rows() -> None:
    names = ["pick_and_place_simple", "look_at_obj_in_light", "a" * 60]
    categories = tuple(CategorySummary(n, MeanInterval(0.5, 0.25, 0.75, 4)) for n in names)
    svg = success_figure(panel(categories=categories), "k").svg
    assert ">pick_and_place_simple</text>" in svg
    assert ">look_at_obj_in_light</text>" in svg
    # Labels too long for the left side are above the rows, truncated if even that is too narrow.
    assert ">" + "a" * 43 + "\u2026</text>" in svg
    # 0% at x = 14, 100% at 342.
    assert dots(svg) == [(178, 39.38), (178, 80.18), (178, 120.98)]
    assert intervals(svg)[0] == [96, 39.38, 178, 39.38, 260, 39.38]


def test_short_names_stand_beside_their_rows() -> None:
    categories = tuple(
        CategorySummary(n, MeanInterval(0.5, 0.25, 0.75, 4)) for n in ("easy", "hard")
    )
    svg = success_figure(panel(categories=categories), "k").svg
    assert [y for _, y in dots(svg)] == [22.0, 46.0]


def test_solved_and_failed_bars_are_stacked() -> None:
    figure = turns_figure(panel(), "k", max_turns=4, repeats=1)
    solved, *_ = shapes(figure.svg, 'fill="var(--solved)"')
    failed, only_failed, *_ = shapes(figure.svg, 'fill="var(--failed)"')
    # Slots of 77.5 for turns 1 to 4, four episodes at the top: 37.5 each.
    assert sorted(set(solved[1::2])) == [67.5, 180]
    assert sorted(set(failed[1::2])) == [30, 67.5]
    assert sorted(set(only_failed[1::2])) == [30, 180]
    # 78% of the second and of the fourth slot.
    assert sorted(set(failed[::2])) == pytest.approx([126.025, 186.475], abs=0.01)
    assert sorted(set(only_failed[::2])) == pytest.approx([281.025, 341.475], abs=0.01)
    assert figure.svg.count("<title>2 turns: 3 solved, 1 failed</title>") == 2
    assert figure.rows == (("2", "3", "1"), ("4", "0", "4"))
    assert "3 solved and 5 failed episodes" in figure.description


def test_many_turns_are_binned_and_none_is_lost() -> None:
    counts = tuple((turns, 1, 2) for turns in range(0, 1001))
    figure = turns_figure(panel(turn_counts=counts), "k", max_turns=1000, repeats=1)
    assert len(figure.rows) <= 60
    assert sum(int(row[1]) for row in figure.rows) == 1001
    assert sum(int(row[2]) for row in figure.rows) == 2002


def test_invalid_shares_and_their_axis() -> None:
    figure = invalid_figure(panel(), "k", max_turns=4, repeats=1)
    # The highest share is 25%, so the axis ends at 35% (1.25 times that, up to the next 5%).
    quarter = round(180 - 150 * 25 / 35, 2)
    assert [y for _, y in dots(figure.svg)] == [quarter, 180, 180, quarter]
    # Values above the axis are clipped: Wilson's interval of 1 of 4 ends at 70%.
    assert min(y for line in intervals(figure.svg) for y in line[1::2]) == 30
    assert figure.rows[0] == ("1", "8", "2", "25.0%")
    assert figure.caption.startswith("3 of 24 responses")


def test_repeats_have_no_interval_that_takes_them_for_independent() -> None:
    svg = invalid_figure(panel(), "k", max_turns=4, repeats=3).svg
    assert all(low == high for _, low, *_, high in intervals(svg))


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 12, 40, 200])
def test_labels_have_room_and_marks_stay_inside(count: int) -> None:
    categories = tuple(
        CategorySummary(str(i), MeanInterval(0.5, 0.25, 0.75, 4)) for i in range(1, count + 1)
    )
    svg = success_figure(panel(categories=categories), "k").svg
    ticks = [
        (float(x), label)
        for x, label in re.findall(r'<text [^>]*x="([0-9.]+)" y="194[^>]*>(\d+)</text>', svg)
    ]
    assert ticks
    for (left, _), (right, label) in itertools.pairwise(ticks):
        assert right - left >= len(label) * 6.2
    assert len(dots(svg)) == count
    assert all(40 <= x <= WIDTH - 10 for x, _ in dots(svg))


def test_the_ruler_shows_value_and_interval() -> None:
    svg = interval_figure(0.5, 0.25, 0.75, "k")
    assert dots(svg) == [(120, 12)]
    (band,) = shapes(svg, 'fill="var(--solved)" opacity="0.35"')
    assert (min(band[::2]), max(band[::2])) == (64, 176)


def test_colors_are_those_of_the_style_sheet() -> None:
    light = Path(drawing.__file__).with_name("report.css").read_text("utf-8").partition("}")[0]
    for name, color in drawing.COLORS.items():
        assert f"--{name}: {color};" in light


def test_figures_have_a_name_and_a_description_and_escape_both() -> None:
    category = "<b>\u202e&"
    odd = panel(
        category_name="<i>",
        categories=(CategorySummary(category, MeanInterval(0.5, 0.25, 0.75, 4)),),
    )
    for figure in panel_figures(odd, "k", max_turns=4, repeats=1):
        assert re.search(r'aria-labelledby="(k-\w+-title) (k-\w+-description)"', figure.svg)
        assert "<title id=" in figure.svg
        assert "<desc id=" in figure.svg
        assert "<b>" not in figure.svg
        assert "<i>" not in figure.svg
        assert "\u202e" not in figure.svg
        assert "style=" not in figure.svg
        assert "#" not in figure.svg.replace('href="#', "").replace("&#", "")  # no fixed color
