"""Axes and figures: where things lie, and what stands beside them."""

import math
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaderboard.page.figures import Curve, ErrorBar, Point, intervals, legend, plot, scatter
from leaderboard.page.scales import Scale

SHARE = Scale.share()


def elements(drawing: str, name: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(drawing).iter(name))


def test_places_by_hand() -> None:
    assert Scale(0, 50, "count").place(10) == pytest.approx(0.2)
    assert Scale(-5, 5, "points").place(0) == pytest.approx(0.5)
    assert Scale(1e-3, 1e1, "nats", log=True).place(1e-1) == pytest.approx(0.5)
    assert Scale(1e-3, 1e1, "nats", log=True).place(0) == 0
    assert (SHARE.place(-1), SHARE.place(7), SHARE.place(math.inf)) == (0, 1, 1)


def test_ticks_by_hand() -> None:
    assert [label for _, label in SHARE.ticks()] == ["0", "25", "50", "75", "100"]
    assert [label for _, label in Scale(0, 200, "updates").ticks()] == [
        "0",
        "50",
        "100",
        "150",
        "200",
    ]
    assert [label for _, label in Scale(0, 2000, "count").ticks()][-1] == "2,000"
    assert Scale.over([-3.0, 8.0], "points").ticks() == (
        (-5.0, "−5"), (0.0, "0"), (5.0, "5"), (10.0, "10"),
    )  # fmt: skip
    log = Scale.over([2e-3, 40.0], "nats", log=True)
    assert (log.low, log.high) == (1e-3, 1e2)
    assert [label for _, label in log.ticks()] == ["10⁻³", "10⁻¹", "10¹"]


def test_few_orders_of_magnitude_are_linear() -> None:
    assert not Scale.over([1.0, 29.0], "nats", log=True).log
    assert Scale.over([1.0, 31.0], "nats", log=True).log


def test_an_axis_without_values() -> None:
    for values in ([], [math.nan], [math.inf], [0.0]):
        assert Scale.over(values, "ratio") == Scale(0, 1, "ratio")
    assert Scale.over([math.nan, 3.0], "share") == SHARE


NUMBERS = st.lists(st.floats(-1e9, 1e9).filter(lambda x: x == 0 or abs(x) > 1e-6), min_size=1)


@given(NUMBERS, st.booleans())
def test_an_axis_holds_its_values_and_its_ticks_ascend(values: list[float], log: bool) -> None:
    scale = Scale.over(values, "ratio", log)
    inside = [value for value in values if not scale.log or value > scale.low]
    assert scale.low <= min(inside, default=scale.low) <= max(inside, default=1) <= scale.high
    assert (
        not scale.log
        or min(v for v in values if v > 0) >= scale.low
        or scale.low < scale.high / 9e6
    )
    places = [scale.place(value) for value, _ in scale.ticks()]
    assert places == sorted(set(places))
    assert 2 <= len(places) <= 11


@pytest.mark.parametrize("log", [False, True])
def test_numbers_too_small_to_be_divided_by_count_as_none(log: bool) -> None:
    assert Scale.over([5e-324, 1e-323], "nats", log) == Scale(0.0, 1.0, "nats")
    assert Scale.over([5e-324, 2.0], "nats", log).high == 2.0


def test_a_scatter_has_a_link_for_every_point() -> None:
    points = [
        Point(0.0, 1.0, (0.5, 1.0), "<i>", "best <b>", "tab=entry&entry=a"),
        Point(1.0, 0.0, (0.0, 0.25), "last", "worst", "x=1"),
    ]
    drawing = str(scatter("Two", points, SHARE, SHARE, ("collapse", "success")))
    links = elements(drawing, "a")
    assert [link.get("href") for link in links] == ["?tab=entry&entry=a", "?x=1"]
    assert [link.get("aria-label") for link in links] == ["best <b>", "worst"]
    left, right = (link.find("circle") for link in links)
    assert left is not None and right is not None
    # The plot lies between x = 44 and 428, y = 14 and 288.
    assert (left.get("cx"), left.get("cy")) == ("44", "14")
    assert (right.get("cx"), right.get("cy")) == ("428", "288")
    whisker = links[0].find("line")
    assert whisker is not None
    assert [whisker.get(end) for end in ("x1", "y1", "x2", "y2")] == ["44", "151", "44", "14"]


def test_curves_by_hand() -> None:
    curve = Curve(
        colour=7,
        lines=(),
        middle=((0.0, 0.0), (10.0, 1.0)),
        band=((0.0, 0.0, 0.5), (10.0, 0.5, 1.0)),
        marks=((10.0, 0.5),),
        overflows=(5.0,),
    )
    drawing = str(plot("A curve", [curve], Scale(0, 10, "updates"), SHARE, "update"))
    paths = {path.get("class"): path for path in elements(drawing, "path")}
    # Colours start over after six. The plot lies between x = 44 and 388, y = 14 and 218.
    assert paths["curve lb-c1"].get("d") == "M44 218L388 14"
    assert paths["band lb-c1"].get("d") == "M44 116L388 14L388 116L44 218Z"
    assert paths["cross lb-c1"].get("transform") == "translate(388 116)"
    assert paths["overflow lb-c1"].get("transform") == "translate(216 14)"
    assert ElementTree.fromstring(drawing).get("aria-label") == "A curve"


def test_a_staircase_holds_its_value_until_the_next() -> None:
    curve = Curve(0, (), ((0.0, 1.0), (5.0, 0.5), (10.0, 0.5)), step=True)
    drawing = str(plot("Survival", [curve], Scale(0, 10, "updates"), SHARE, "update"))
    (path,) = (p for p in elements(drawing, "path") if p.get("class") == "curve lb-c0")
    assert path.get("d") == "M44 14H216V116H388V116"


def test_intervals_name_their_rows() -> None:
    rows = [ErrorBar("gspo", 3.0, -1.0, 7.0, "gspo: +3"), ErrorBar("<i>", 0.0, 0.0, 0.0, "none")]
    drawing = str(intervals("Gains", rows, Scale.over([-1.0, 7.0], "points"), "gain", zero=True))
    assert [t.text for t in elements(drawing, "title")] == ["gspo: +3", "none"]
    texts = [t.text for t in elements(drawing, "text")]
    assert "gspo" in texts and "<i>" in texts
    assert len([line for line in elements(drawing, "line") if line.get("class") == "zero"]) == 1


def test_a_legend_names_every_colour() -> None:
    found = elements(str(legend(["a", "b"])), "li")
    assert ["".join(each.itertext()) for each in found] == ["a", "b"]


def test_names_do_not_lie_on_each_other() -> None:
    def named(count: int) -> list[tuple[str, float]]:
        points = [
            Point(0.0, 0.5 - n / 1000, (0.0, 1.0), f"n{n}", f"t{n}", "x=1") for n in range(count)
        ]
        drawing = str(scatter("Many", points, SHARE, SHARE, ("x", "y")))
        texts = [link.find("text") for link in elements(drawing, "a")]
        return [(t.text or "", float(t.get("y", 0))) for t in texts if t is not None]

    # At y = 0.5, four pixels below the middle of 14 and 288; each next one 12 below.
    assert named(3) == [("n0", 155.0), ("n1", 167.0), ("n2", 179.0)]
    assert named(100) == []


def test_a_logarithmic_axis_ends_somewhere() -> None:
    scale = Scale.over([1e-15, 2e-2], "nats", log=True)
    assert (scale.low, scale.high) == (1e-8, 1e-1)
    assert scale.place(1e-15) == 0
