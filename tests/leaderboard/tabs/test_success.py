"""Methods as rows of dots: success on the board, and measures of stability."""

import json
import math
from dataclasses import replace
from typing import Any

from leaderboard.board.rows import FullRow
from leaderboard.board.training_rows import (
    EventCount,
    NamedValue,
    SeedCurves,
    SeedNumbers,
    Spark,
    Stability,
)
from leaderboard.page import charts
from leaderboard.page.dots import MOST_ROWS, Dot, dot_plot
from leaderboard.page.query import open_query
from leaderboard.page.state import State
from leaderboard.tabs.board import board_page
from leaderboard.tabs.stability import against_chart, stability_page
from leaderboard.tabs.success import success_chart
from tests.leaderboard.conftest import ALFWORLD, SOKOBAN, Boards, first
from tests.leaderboard.pages import text_of
from tests.support.board_rows import board_row

STATE = State(protocol="v1", panels="sokoban/builtin")
INIT = board_row("20260101_start", {SOKOBAN: [first(20)]}, kind="init", init=None)


def trained(
    entry: str,
    recipe: str,
    solved: tuple[int, ...],
    fallen: tuple[int, ...] = (),
    track: str = "sokoban-standard",
    **measures: float,
) -> FullRow:
    """Seeds that solve equally many of 100 levels; those of `fallen` collapsed at update 9."""
    seeds = tuple(range(len(solved)))
    event = EventCount("collapse", len(fallen), len(seeds), len(fallen) / len(seeds), 0.0, 0.56)
    columns = tuple(NamedValue(*pair) for pair in measures.items())
    numbers = tuple(
        SeedNumbers(name, (value,) * len(seeds), value, None, None, None, None)
        for name, value in measures.items()
    )
    found = Stability(seeds, columns, numbers, (event,), (), None, None)
    row = board_row(
        f"20260101_{entry}", {SOKOBAN: [first(each) for each in solved]}, (found, ()),
        recipe=recipe, track=track, init=INIT.checkpoints[0].model,
    )  # fmt: skip
    sparks = tuple(Spark(seed, (0, 9), (0.2, 0.1), 9 if seed in fallen else None) for seed in seeds)
    return replace(row, sparks=sparks)


def spec_of(plot: charts.Value) -> dict[str, Any]:
    spec: dict[str, Any] = json.loads(plot["plot"])
    return spec


def values(spec: dict[str, Any], mark: str, **about: Any) -> list[dict[str, Any]]:
    """The values drawn by layers of a mark."""
    layers = [
        each for each in spec["layer"] if {"type": mark, **about}.items() <= each["mark"].items()
    ]
    return [value for each in layers for value in each.get("data", spec["data"])["values"]]


def test_the_init_above_all_methods_is_in_the_figure(boards: Boards) -> None:
    fallen = trained("a", "cispo", (0, 0, 1), (0, 1, 2), "sokoban-stress")
    start = board_row("20260101_start", {SOKOBAN: [first(60)]}, kind="init", init=None)
    model = replace(fallen, init=start.checkpoints[0].model)
    spec = spec_of(success_chart(boards(model, start), STATE))
    (dot,) = [each["encoding"] for each in spec["layer"] if "shape" in each["encoding"]][:1]
    assert dot["x"]["scale"]["domain"] == [0, 60]


def test_a_single_seed_that_collapsed_is_crossed_on_stability_too(boards: Boards) -> None:
    one = trained("a", "cispo", (10,), (0,), retention=0.0)
    spec = spec_of(against_chart(boards(one, INIT), replace(STATE, measure="retention")))
    assert [each["seed"] for each in values(spec, "point") if "seed" in each] == [0.0]


def test_both_tracks_of_a_method_stand_in_one_row_the_best_first(boards: Boards) -> None:
    spec = spec_of(
        success_chart(
            boards(
                trained("a", "cispo", (50, 50)),
                trained("b", "sampo", (80, 80)),
                trained("c", "cispo", (0, 1, 5), (0, 1), "sokoban-stress"),
                trained("d", "gspo", (40,), track="sokoban-stress"),
                INIT,
            ),
            STATE,
        )
    )
    drawn = spec["data"]["values"]
    assert [(each["row"], each["track"], each["value"]) for each in drawn] == [
        ("SAMPO", "standard", 80), ("CISPO", "standard", 50), ("GSPO", "stress", 40),
        ("CISPO", "stress", 2),
    ]  # fmt: skip
    dot = next(each["encoding"] for each in spec["layer"] if each["mark"].get("size") == 75)
    # Every entry has a lane, with an empty one between two rows.
    named = [(each["row"], each["lane"]) for each in values(spec, "text", align="right")]
    assert sorted(named, key=lambda pair: pair[1]) == [("SAMPO", 0), ("CISPO", 2), ("GSPO", 5)]
    assert [each["lane"] for each in drawn] == [0, 2, 5, 3]
    assert dot["y"]["scale"]["domain"] == list(range(6)) and spec["height"] == 6 * 13
    # A track is shown by its lane within the row, by shape and by tone, and a collapse also in
    # words.
    assert dot["shape"]["field"] == dot["color"]["field"] == "track"
    assert len(set(dot["shape"]["scale"]["range"])) == 2
    assert [(each["row"], each["end"]) for each in values(spec, "text", align="left")] == [
        ("CISPO", "2 of 3 collapsed")
    ]
    red = values(spec, "point", color="var(--lb-bad)")
    assert [(each["row"], each["track"], each["seed"]) for each in red] == [
        ("CISPO", "stress", 0), ("CISPO", "stress", 1),
    ]  # fmt: skip
    # It covers the dot, so it has the same link.
    assert red[0]["href"] == drawn[-1]["href"] and "entry=20260101_c" in red[0]["href"]
    small = values(spec, "point", size=14)
    assert [each["seed"] for each in small] == [80, 80, 50, 50, 5]
    assert {each["start"] for each in values(spec, "rule", strokeWidth=1.5)} == {20}
    # From 0 to the next multiple of 10 above the highest interval, init and seed.
    top = max(each["high"] for each in drawn)
    assert dot["x"]["scale"]["domain"] == [0, 10 * math.ceil(top / 10)] == [0, 90]
    assert "CISPO: stress, 2.0% [" in spec["description"]
    assert "collapse 2 of 3 collapsed" in spec["description"]


def test_the_figure_shows_the_chosen_track_alone_and_no_legend(boards: Boards) -> None:
    board = boards(trained("a", "cispo", (50,)), trained("b", "cispo", (1,), (), "sokoban-stress"))
    spec = spec_of(success_chart(board, replace(STATE, track="sokoban-stress")))
    assert [(each["value"], each["track"]) for each in spec["data"]["values"]] == [(1, "")]
    assert all(
        each["encoding"]["color"]["legend"] is None
        for each in spec["layer"]
        if "color" in each["encoding"]
    )
    # Its start is unknown.
    assert values(spec, "rule", strokeWidth=1.5) == []
    assert "before training" not in json.dumps(spec["title"])


def test_seeds_of_a_mean_over_panels_are_their_means(boards: Boards) -> None:
    row = trained("a", "cispo", (50, 60))
    both = board_row(
        row.id, {ALFWORLD: [first(10), first(20)], SOKOBAN: [first(50), first(60)]},
        recipe="cispo", track="all-standard",
    )  # fmt: skip
    spec = spec_of(success_chart(boards(both), replace(STATE, panels="built-in")))
    assert [each["seed"] for each in values(spec, "point", size=14)] == [30, 40]
    # Without logs, a collapse is unknown.
    assert [each["end"] for each in values(spec, "text", align="left")] == ["no logs"]


def dots(count: int) -> list[Dot]:
    return [Dot(f"m{number}", "", f"entry {number}", "?", 1.0, "1") for number in range(count)]


def test_entries_of_one_method_and_track_have_rows_of_their_own() -> None:
    one, other = dots(2)
    twice = [one, replace(one, name="again"), replace(one, name="again", track="stress"), other]
    spec = spec_of(dot_plot(twice, "success (%)", {}))
    rows = [each["row"] for each in spec["data"]["values"]]
    assert rows == ["m0: entry 0", "m0: again", "m0: again (2)", "m1"]


def test_long_names_of_methods_keep_their_ends() -> None:
    long = [Dot(f"{'long_name_' * 5}{end}", "", "", "?", 1.0, "1") for end in "ab"]
    rows = [each["row"] for each in spec_of(dot_plot(long, "x", {}))["data"]["values"]]
    assert [row[-5:] for row in rows] == ["ame_a", "ame_b"]
    assert max(map(len, rows)) == 18


def test_more_methods_than_a_figure_holds_are_said_to_be_more() -> None:
    whole, cut = (spec_of(dot_plot(dots(MOST_ROWS + more), "x", {})) for more in (0, 1))
    assert len(cut["data"]["values"]) == len(whole["data"]["values"]) == MOST_ROWS
    assert cut["height"] == whole["height"]
    assert cut["title"]["text"] == ["The first 24 of 25 rows."] and whole["title"]["text"] == []


def test_stability_has_the_table_s_unit_and_success_at_the_end_of_rows(boards: Boards) -> None:
    state = replace(STATE, tab="stability", measure="retention")
    board = boards(
        trained("a", "sampo", (80, 80), retention=1.0),
        trained("b", "cispo", (0, 4), (1,), retention=0.25),
    )
    spec = spec_of(against_chart(board, state))
    assert [(each["row"], each["value"]) for each in spec["data"]["values"]] == [
        ("SAMPO", 1), ("CISPO", 0.25),
    ]  # fmt: skip
    assert [each["end"] for each in values(spec, "text", align="left")] == ["80.0%", "2.0%"]
    assert [each["row"] for each in values(spec, "point", color="var(--lb-bad)")] == ["CISPO"]
    assert "1.00" in text_of(stability_page(board, state))


def test_what_overflowed_has_no_place_and_says_so(boards: Boards) -> None:
    state = replace(STATE, tab="stability", measure="mismatch_p95")
    board = boards(trained("a", "sampo", (80, 80), mismatch_p95=math.inf),
                   trained("b", "cispo", (0, 4), mismatch_p95=0.5))  # fmt: skip
    spec = spec_of(against_chart(board, state))
    assert [each["value"] for each in spec["data"]["values"]] == [None, 0.5]
    assert [each["end"] for each in values(spec, "text", align="left")] == [
        "80.0%, infinite",
        "2.0%",
    ]


def test_a_mismatch_that_is_rounding_is_not_drawn(boards: Boards) -> None:
    state = replace(STATE, tab="stability", measure="mismatch_p95")
    noise = trained("a", "sampo", (80, 80), mismatch_p95=4e-14)
    assert against_chart(boards(noise), state) == charts.NOTHING
    said = text_of(stability_page(boards(noise), state))
    assert "All are below 1e-09 nats: only how sums were rounded. Nothing is drawn." in said
    board = boards(noise, trained("b", "cispo", (0, 4), mismatch_p95=1e-5))
    assert against_chart(board, state) != charts.NOTHING
    assert "rounded" not in text_of(stability_page(board, state))


def test_a_worst_seed_of_a_mean_does_not_pass_for_one_of_the_panel(boards: Boards) -> None:
    row = trained("a", "sampo", (20, 30), track="all-standard", worst_seed=0.5)
    mean = SeedCurves(0, "mean of alfworld.builtin, sokoban.builtin", 9, False, 9, None, ())
    board = boards(replace(row, curves=(mean,) * 2))
    shown = open_query(board, {"panels": "sokoban/builtin", "columns": "worst_seed"}).state
    assert "50.0 2 tasks" in text_of(board_page(board, shown))
    own = boards(replace(row, curves=(replace(mean, panel="sokoban/builtin"),) * 2))
    assert "tasks" not in text_of(board_page(own, shown).partition("</table>")[0])
