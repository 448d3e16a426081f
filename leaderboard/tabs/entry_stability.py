"""The stability of one entry: what the board shows of it, and every number of every seed."""

from typing import Final

from markupsafe import Markup

from benchmark.stability.definitions import DEFINITIONS
from leaderboard import cells
from leaderboard.markup import Head, Piece, element, folded, joined, table
from leaderboard.training_rows import EventCount, NamedValue, ReachedLevel, SeedNumbers, Stability

_EVENTS: Final = (
    Head("event"),
    Head("seeds", number=True),
    Head("rate (%)", number=True),
    Head("95 % interval", number=True),
)
_REACHED: Final = (
    Head("success"),
    Head("seeds", number=True),
    Head("updates", number=True),
    Head("response tokens", number=True),
    Head("seconds", number=True),
)


def stability_tables(stability: Stability) -> Markup:
    """Everything that is known of an entry's stability."""
    heads = [
        Head("number"),
        Head("median", number=True),
        Head("95 % interval", number=True),
        Head("worst", number=True),
        *(Head(f"seed {seed}", number=True) for seed in stability.seeds),
        Head("unit"),
    ]
    top = [Head("measure"), Head("value", number=True), Head("unit")]
    shown = [_column(each) for each in stability.columns if each.name in DEFINITIONS]
    numbers = [_number(each) for each in stability.numbers if each.name in DEFINITIONS]
    events = [_event(each) for each in stability.events if each.name in DEFINITIONS]
    reached = [_reached(each) for each in stability.reached]
    return joined(
        [
            table("Stability, as on the board", top, shown),
            folded("Every number of every seed", table("Stability of every seed", heads, numbers)),
            folded("Events", table("Events over the seeds", _EVENTS, events)),
            folded(
                "What it takes to reach a success rate",
                table("Medians over the seeds", _REACHED, reached),
            ),
        ]
    )


def _column(named: NamedValue) -> list[Piece]:
    what = DEFINITIONS[named.name]
    name = element("span", what.name, title=what.text)
    return [name, cells.number(named.value, what.unit), _unit(named.name)]


def _reached(level: ReachedLevel) -> list[Piece]:
    return [
        f"{100 * level.level:.0f} %",
        f"{level.reached} of {level.known}",
        cells.number(level.updates, "count"),
        cells.number(level.tokens, "count"),
        cells.number(level.seconds, "count"),
    ]


def _unit(name: str) -> str:
    unit = DEFINITIONS[name].unit
    return "%" if unit == "share" else unit


def _number(numbers: SeedNumbers) -> list[Piece]:
    what = DEFINITIONS[numbers.name]

    def shown(value: float | None) -> str:
        return cells.number(value, what.unit)

    ends = cells.UNKNOWN
    if numbers.median_low is not None:
        ends = f"{shown(numbers.median_low)}\u2013{shown(numbers.median_high)}"
    return [
        element("span", what.name, title=what.text),
        shown(numbers.median),
        ends,
        shown(numbers.worst),
        *map(shown, numbers.values),
        _unit(numbers.name),
    ]


def _event(event: EventCount) -> list[Piece]:
    what = DEFINITIONS[event.name]
    ends = cells.UNKNOWN
    if event.low is not None and event.high is not None:
        ends = f"{cells.percent(event.low)}\u2013{cells.percent(event.high)}"
    return [
        element("span", what.name, title=what.text),
        f"{event.happened} of {event.known}",
        cells.number(event.rate, "share"),
        ends,
    ]
