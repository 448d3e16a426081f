"""Dot plots of methods: one metric of every entry, with its seeds, on one axis.

A method is a row, and each of its tracks a lane in that row. The first six tracks differ in shape
and tone: there are not enough hues for all methods of a board.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from leaderboard.page import charts
from leaderboard.page.methods import method_name
from leaderboard.table import cells
from tasks.texts import counted, cut_middle

MOST_ROWS: Final = 24
"""Maximum number of rows of a figure: more would be hard to read and slow to draw."""
_LANE: Final = 13
"""Height in pixels of a track's lane, and of the space between two rows."""
_LEGEND_WIDTH: Final = 270
"""Width in pixels that a phone has for the names of tracks."""
_LONGEST: Final = 18
_LIMIT: Final = 132
"""Maximum length of a row's name in characters and in pixels, including a number after it."""
_BAD: Final = "var(--lb-bad)"
_LOOKS: Final = (
    ("circle", "var(--lb-accent)"), ("diamond", charts.INK), ("square", charts.SOFT),
    ("triangle-up", charts.SOFT), ("triangle-down", charts.SOFT), ("triangle-right", charts.SOFT),
)  # fmt: skip
"""Shapes and tones of tracks. None is red, which marks a collapse."""
_CROSS: Final = "M-0.6,-0.6L0.6,0.6M-0.6,0.6L0.6,-0.6"


@dataclass(frozen=True, slots=True)
class Dot:
    """An entry in the figure; numbers are in the axis's unit.

    Attributes:
        method: Its recipe, as `BoardRow.method`.
        track: Name of its track; tracks share the rows of their methods.
        name: The entry's name.
        href: Target of its link.
        value: Position of the dot; None if it cannot be drawn on the axis.
        shown: The value as text.
        end: Text at the row's end.
        is_bad: Whether that text is a warning.
        low: Lower end of the interval; None without one.
        high: Upper end.
        start: The init's value; None if unknown.
        seeds: The value of each seed, and whether it collapsed.
        told: Further facts for the tooltip, by title.
    """

    method: str
    track: str
    name: str
    href: str
    value: float | None
    shown: str
    end: str = ""
    is_bad: bool = False
    low: float | None = None
    high: float | None = None
    start: float | None = None
    seeds: tuple[tuple[float, bool], ...] = ()
    told: dict[str, str] = field(default_factory=dict)


def dot_plot(
    dots: Sequence[Dot], title: str, axis: charts.Spec, head: str = "", about: str = ""
) -> charts.Value:
    """Draw the figure.

    Args:
        dots: All entries; rows are in the order in which their methods first occur.
        title: Title of the axis.
        axis: Further properties of the axis channel, such as its scale.
        head: Name of the value in the tooltip.
        about: Further explanation of the figure.
    """
    rows = _rows(dots)
    shown = list(dict.fromkeys(rows))
    lines = _read_as(dots, about)
    if len(shown) > MOST_ROWS:
        lines.append(f"The first {MOST_ROWS} of {len(shown)} rows.")
    pairs = [pair for pair in zip(dots, rows, strict=True) if pair[1] in shown[:MOST_ROWS]]
    tracks = list(dict.fromkeys(dot.track for dot, _ in pairs))
    places = [(shown.index(row), tracks.index(dot.track)) for dot, row in pairs]
    lanes = _lanes(places)
    values = [_datum(dot, row, lanes[at]) for (dot, row), at in zip(pairs, places, strict=True)]
    count = lanes[max(places)] + 1
    channels = _channels(count, tracks, title, axis)
    spec = {
        "title": {"text": lines, "fontSize": 12, "fontWeight": "normal", "color": charts.SOFT},
        "data": {"values": values},
        "layer": _layers(pairs, values, channels, head),
        "width": "container",
        "height": _LANE * count,
    }
    said = "; ".join(f"{row}: {_said(dot)}" for dot, row in pairs)
    return charts.value_of(spec, f"{title} of {counted(len(pairs), 'entry')}. {said}")


def _read_as(dots: Sequence[Dot], about: str) -> list[str]:
    """Explain the figure, in lines short enough for a phone."""
    bars = any(dot.low is not None for dot in dots)
    seeds = [fallen for dot in dots for _, fallen in dot.seeds]
    start = any(dot.start is not None for dot in dots)
    parts = (
        ("Bar: 95% CI." if bars else "", "Small dots: seeds." if seeds else ""),
        (
            "Line: before training." if start else "",
            "Red cross: collapsed." if any(seeds) else "",
            about,
        ),
    )
    return [" ".join(filter(None, line)) for line in parts if any(line)]


def _rows(dots: Sequence[Dot]) -> list[str]:
    """The row of each entry: its method; with its own name if a track has several of its method.

    Remaining duplicates are numbered, so that two entries never share a line.
    """
    lines = Counter((dot.method, dot.track) for dot in dots)
    several = {method for (method, _), count in lines.items() if count > 1}
    found: list[str] = []
    taken: set[tuple[str, str]] = set()
    for dot in dots:
        text = method_name(dot.method) + (f": {dot.name}" if dot.method in several else "")
        row = name = cut_middle(cells.text(text), _LONGEST)
        number = 1
        while (row, dot.track) in taken or (dot.method in several and row in found):
            number += 1
            row = f"{name} ({number})"
        taken.add((row, dot.track))
        found.append(row)
    return found


def _lanes(places: Sequence[tuple[int, int]]) -> dict[tuple[int, int], int]:
    """The lanes of entries by row and track, with an empty lane between two rows."""
    order = sorted(places)
    return {at: lane + at[0] for lane, at in enumerate(order)}


def _said(dot: Dot) -> str:
    told = (f"{title} {text}" for title, text in dot.told.items())
    return ", ".join(filter(None, (dot.track, dot.shown, *told)))


def _datum(dot: Dot, row: str, lane: int) -> charts.Spec:
    return {
        "row": row, "lane": lane, "track": dot.track, "entry": cells.text(dot.name),
        "method": cells.text(method_name(dot.method)),
        "href": dot.href, "value": dot.value, "low": dot.low, "high": dot.high, "shown": dot.shown,
        "end": dot.end, "bad": dot.is_bad,
        **{f"told_{number}": text for number, text in enumerate(dot.told.values())},
    }  # fmt: skip


def _channels(lanes: int, tracks: Sequence[str], title: str, axis: charts.Spec) -> dict[str, Any]:
    """Encodings of the lanes, the styles of tracks, and the axis."""
    looks = [_LOOKS[min(place, len(_LOOKS) - 1)] for place in range(len(tracks))]
    track = {"field": "track", "type": "nominal"}
    # As many columns as fit on a phone.
    columns = max(1, min(3, _LEGEND_WIDTH // (7 * max(map(len, tracks)) + 26)))
    looked = {"symbolSize": 80, "symbolStrokeWidth": 0, "columns": columns}
    legend = {"legend": looked if len(tracks) > 1 else None}

    def by_track(ranges: Sequence[str]) -> charts.Spec:
        return track | legend | {"scale": {"domain": list(tracks), "range": list(ranges)}}

    scale = {"type": "band", "domain": list(range(lanes)), "padding": 0}
    return {
        "lane": {"field": "lane", "type": "ordinal", "axis": None, "scale": scale},
        "tone": {"color": by_track([tone for _, tone in looks])},
        "shape": {"shape": by_track([shape for shape, _ in looks])},
        "x": lambda name: {"x": charts.quantity(name, title, **axis)},
    }  # fmt: skip


def _layers(
    pairs: Sequence[tuple[Dot, str]],
    values: Sequence[charts.Spec],
    channels: dict[str, Any],
    head: str,
) -> list[charts.Spec]:
    x, lane, tone = channels["x"], channels["lane"], channels["tone"]
    line = {"y": lane}
    both = [(dot, each) for (dot, _), each in zip(pairs, values, strict=True)]
    starts = [
        {"lane": each["lane"], "start": dot.start} for dot, each in both if dot.start is not None
    ]
    seeds = [
        {"lane": each["lane"], "seed": value}
        for dot, each in both
        for value, fallen in dot.seeds
        if not fallen
    ]
    # A cross may cover the dot, so it gets the same tooltip.
    crosses = [
        each | {"seed": value} for dot, each in both for value, fallen in dot.seeds if fallen
    ]
    heads: dict[str, int] = {}
    for each in values:
        heads[each["row"]] = min(each["lane"], heads.get(each["row"], each["lane"]))
    names = [{"row": row, "lane": at} for row, at in heads.items()]
    gaps = [{"lane": at - 1} for at in heads.values() if at]
    told = list(dict.fromkeys(title for dot, _ in pairs for title in dot.told))
    say = {"entry": "entry", "method": "method", "track": "track", "shown": head or "value"}
    say |= {f"told_{number}": title for number, title in enumerate(told)}
    if not any(dot.track for dot, _ in pairs):
        del say["track"]
    under = {"tooltip": charts.tooltip(say), "href": {"field": "href"}}
    whole = {"y": lane | {"bandPosition": 0}, "y2": {"field": "lane", "bandPosition": 1}}
    bars = [each for each in values if each["low"] is not None]
    return [
        {"data": {"values": gaps},
         "mark": {"type": "rule", "color": charts.RULE, "aria": False},
         "encoding": line | {"x": {"value": 0}, "x2": {"value": "width"}}},
        {"data": {"values": names},
         "mark": {"type": "text", "align": "right", "dx": -8, "fontSize": 12, "limit": _LIMIT,
                  "color": charts.INK},
         "encoding": line | {"x": {"value": 0}, "text": {"field": "row"}}},
        {"data": {"values": starts},
         "mark": {"type": "rule", "color": charts.SOFT, "strokeWidth": 1.5},
         "encoding": x("start") | whole},
        {"data": {"values": bars},
         "mark": {"type": "rule", "strokeWidth": 4, "opacity": 0.32},
         "encoding": x("low") | line | tone | {"x2": {"field": "high"}}},
        {"data": {"values": seeds},
         "mark": {"type": "point", "filled": True, "size": 14, "opacity": 0.6, "color": charts.INK},
         "encoding": x("seed") | line},
        {"mark": {"type": "point", "filled": True, "size": 75, "opacity": 1,
                  "stroke": charts.PAGE, "strokeWidth": 1},
         "encoding": x("value") | line | tone | channels["shape"] | under},
        {"data": {"values": crosses},
         "mark": {"type": "point", "shape": _CROSS, "filled": False, "size": 80, "opacity": 1,
                  "color": _BAD, "strokeWidth": 2},
         "encoding": x("seed") | line | under},
        *({"data": {"values": [each for each in values if each["end"] and each["bad"] == bad]},
           "mark": {"type": "text", "align": "left", "dx": 8, "fontSize": 11,
                    "color": _BAD if bad else charts.SOFT},
           "encoding": line | {"x": {"value": "width"}, "text": {"field": "end"}}}
          for bad in (True, False)),
    ]  # fmt: skip
