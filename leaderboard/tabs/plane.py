"""Success against stability as a picture: where training led from the init, for every seed."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from leaderboard.board.board import Board
from leaderboard.board.published import published_rows
from leaderboard.board.rows import BoardRow, PanelKey
from leaderboard.page import charts
from leaderboard.page.methods import method_name, short_tracks
from leaderboard.page.state import State, frame_of, panels_of_name, query_of
from leaderboard.table import cells
from leaderboard.table.columns import Line, success_of
from leaderboard.tabs.answer import init_success
from tasks.texts import counted, cut

MOST_NAMED: Final = 12
"""Entries of the plane that have their names beside them."""
PAPER_AT: Final = 108
"""Where published results stand: no retention was published."""

_LETTER: Final = 2.9
"""Of a name, on a phone: so much of the axis of retention."""


@lru_cache(maxsize=64)
def plane(board: Board, state: State) -> charts.Value:
    """Success against retention: where training led from the init, for every seed."""
    panels = panels_of_name(board, state.protocol, state.panels)
    known = _trained(board, state, panels)
    if not known:
        return charts.NOTHING
    tracks = [cells.text(row.track) for row in known]
    shown = short_tracks(tracks) if len(set(tracks)) > 1 else [""] * len(tracks)
    points = [_point(board, state, panels, *pair) for pair in zip(known, shown, strict=True)]
    seeds = [each for row in known for each in _seeds(row, panels)]
    front, paper = _front(points), _paper(panels)
    channels = {
        "color": charts.by_recipe(
            [p["recipe"] for p in points], legend=len(points) > MOST_NAMED
        ),
        "x": charts.quantity(
            "retention", "retention: final / best success while training (%)",
            scale={"domain": [-3, 114], "nice": False},
            axis={"values": [0, 20, 40, 60, 80, 100]},
        ),
        "y": charts.quantity("success", "success (%)", scale={"domain": [0, 100]}),
    }  # fmt: skip
    named = points if len(points) <= MOST_NAMED else front
    # On the axis, and on a neighbor there, a name could not be read.
    boxes = [
        charts.label_box(p["retention"], max(p["success"], 8.0), p["label"], _is_right(p), _LETTER)
        for p in named
    ]
    for point, height in zip(named, charts.spread_near_labels(boxes, 6), strict=True):
        point["label_y"] = height
    layers = [
        _paths(points, channels),
        _front_line(front, channels),
        _published(paper, channels),
        _dots(seeds, channels),
        _ends(channels),
        *(_names(named, channels, right) for right in (True, False)),
        *([_lane(channels)] if paper else []),
    ]
    about = [
        "Thin end: init. Large dot: last weights.",
        "Small dots: seeds. Right and up is better.",
    ]
    if paper:
        about.append("Diamonds: the paper, which reports no retention.")
    spec = {
        "title": {"text": "Success against stability", "subtitle": about},
        "data": {"values": points},
        "layer": layers,
        "resolve": {"scale": {"size": "independent"}},
        "width": "container",
        "height": 270,
    }
    ends = "; ".join(
        f"{p['name']}: {p['shown']}, retention {p['kept']}" for p in points[:MOST_NAMED]
    )
    return charts.value_of(
        spec, f"Success against retention of {counted(len(points), 'recipe')}. {ends}"
    )


def _paths(points: Sequence[dict[str, Any]], channels: charts.Spec) -> charts.Spec:
    """A path that grows from the init, where nothing is lost yet, to where training ended."""
    starts = [p for p in points if p["init"] is not None]
    return {
        "data": {"values": [half for p in starts for half in _path(p)]},
        "mark": {"type": "trail", "opacity": 0.35},
        "encoding": channels | {
            "detail": {"field": "name"},
            "size": {"field": "width", "type": "quantitative", "legend": None,
                     "scale": {"domain": [0, 1], "range": [0.5, 7]}},
        },
    }  # fmt: skip


def _front_line(front: Sequence[dict[str, Any]], channels: charts.Spec) -> charts.Spec:
    return {
        "data": {"values": front},
        "mark": {"type": "line", "interpolate": "step-after", "strokeDash": [4, 4],
                 "color": charts.SOFT, "strokeWidth": 1},
        "encoding": {"x": channels["x"], "y": channels["y"], "order": {"field": "retention"}},
    }  # fmt: skip


def _published(paper: Sequence[dict[str, Any]], channels: charts.Spec) -> charts.Spec:
    say = {"name": "published", "shown": "success", "model": "model"}
    return {
        "data": {"values": paper},
        "mark": {"type": "point", "shape": "diamond", "filled": False, "size": 50, "opacity": 0.8},
        "encoding": {"color": {"value": charts.SOFT}, "x": channels["x"], "y": channels["y"],
                     "tooltip": charts.tooltip(say)},
    }  # fmt: skip


def _dots(seeds: Sequence[dict[str, Any]], channels: charts.Spec) -> charts.Spec:
    return {
        "data": {"values": seeds},
        "mark": {"type": "point", "filled": True, "size": 26, "opacity": 0.55},
        "encoding": channels,
    }


def _ends(channels: charts.Spec) -> charts.Spec:
    say = charts.tooltip(
        {"name": "entry", "track": "track", "model": "model", "shown": "success",
         "kept": "retention (median)", "collapsed": "collapsed"}
    )  # fmt: skip
    return {
        "mark": {"type": "point", "filled": True, "opacity": 1, "stroke": charts.PAGE},
        "encoding": channels | {
            "size": {"field": "size", "type": "quantitative", "legend": None,
                     "scale": {"type": "sqrt", "range": [90, 320]}},
            "href": {"field": "href"}, "tooltip": say,
        },
    }  # fmt: skip


def _names(named: Sequence[dict[str, Any]], channels: charts.Spec, right: bool) -> charts.Spec:
    """Names beside the points, on the side that has room."""
    return {
        "data": {"values": [p for p in named if _is_right(p) == right]},
        "mark": {"type": "text", "align": "left" if right else "right",
                 "dx": 12 if right else -12, "fontWeight": 600},
        "encoding": {"x": channels["x"], "y": channels["y"] | {"field": "label_y"},
                     "text": {"field": "label"}},
    }  # fmt: skip


def _is_right(point: dict[str, Any]) -> bool:
    return bool(point["retention"] < 60)


def _lane(channels: charts.Spec) -> charts.Spec:
    """What the lane of published results is."""
    return {
        "data": {"values": [{"retention": PAPER_AT, "success": 100, "text": "paper"}]},
        "mark": {"type": "text", "color": charts.SOFT, "dy": -8, "fontSize": 11},
        "encoding": {"x": channels["x"], "y": channels["y"], "text": {"field": "text"}},
    }


def _trained(board: Board, state: State, panels: Sequence[PanelKey]) -> list[BoardRow]:
    if not panels:
        return []
    shown = frame_of(board, State(protocol=state.protocol, panels=state.panels, track=state.track))
    rows = [row for entry in shown.index if (row := board.row(entry, state.protocol))]
    return [
        row
        for row in rows
        if row.kind == "trained"
        and row.stability_column("retention") is not None
        and success_of(row, panels) is not None
    ]


def _point(
    board: Board, state: State, panels: Sequence[PanelKey], row: BoardRow, track: str
) -> dict[str, Any]:
    """What is drawn of an entry; its track is part of its label unless that is empty."""
    success = success_of(row, panels)
    assert success is not None  # `_trained` has looked
    retention = row.stability_column("retention") or 0.0
    event = Line(row, (), None).collapse
    start = init_success(board, row, panels)
    model = cells.text(row.base_model)
    name = cells.text(method_name(row.method))
    label = f"{name}, {track}" if track else name
    return {
        "name": cells.text(row.name),
        "label": cut(label, 30),
        "recipe": cells.text(row.method),
        "track": cells.text(row.track),
        "model": f"{model}, {cells.number(row.parameters, 'parameters')}",
        "size": row.parameters or 0,
        "success": 100 * success.value,
        "shown": cells.interval(success.value, success.low, success.high, "%"),
        "retention": 100 * retention,
        "kept": f"{cells.percent(retention)}%",
        "collapsed": f"{event.happened} of {counted(event.known, 'seed')}"
        if event
        else cells.UNKNOWN,
        "init": None if start is None else 100 * start,
        "href": f"?{query_of(State(tab='entry', protocol=state.protocol, entry=row.id))}",
    }


def _path(point: dict[str, Any]) -> list[dict[str, Any]]:
    same = {"name": point["name"], "recipe": point["recipe"]}
    return [
        same | {"retention": 100.0, "success": point["init"], "width": 0},
        same | {"retention": point["retention"], "success": point["success"], "width": 1},
    ]


def _seeds(row: BoardRow, panels: Sequence[PanelKey]) -> list[dict[str, Any]]:
    """Every seed by itself, on a single panel."""
    numbers = row.panel(panels[0]) if len(panels) == 1 else None
    if numbers is None or row.stability is None or len(numbers.seeds) < 2:
        return []
    kept = next((each for each in row.stability.numbers if each.name == "retention"), None)
    of = dict(zip(row.stability.seeds, kept.values, strict=True)) if kept else {}
    return [
        {"recipe": cells.text(row.method), "success": 100 * each.success, "retention": 100 * value}
        for each in numbers.seeds
        if (value := of.get(each.seed)) is not None
    ]


def _front(points: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Points that no other one beats in both."""

    def beaten(one: dict[str, Any]) -> bool:
        return any(
            other["success"] >= one["success"]
            and other["retention"] >= one["retention"]
            and other is not one
            and (other["success"], other["retention"]) != (one["success"], one["retention"])
            for other in points
        )

    return sorted((p for p in points if not beaten(p)), key=lambda p: float(p["retention"]))


def _paper(panels: Sequence[PanelKey]) -> list[dict[str, Any]]:
    if len(panels) != 1:
        return []
    task = panels[0][0]
    return [
        {
            "name": row.method, "model": row.models[0], "retention": PAPER_AT,
            "success": 100 * row.success[0], "shown": f"{100 * row.success[0]:.2f}%",
        }
        for row in published_rows([task])
        if row.success[0] is not None
    ]  # fmt: skip
