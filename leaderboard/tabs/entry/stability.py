"""The stability of one entry: the board's numbers, and all numbers of all seeds."""

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from benchmark.stability.definitions import DEFINITIONS
from benchmark.stats.formatting import collapses_text, whole_percent
from leaderboard.board.training_rows import (
    EventCount,
    NamedValue,
    ReachedLevel,
    SeedCurves,
    SeedNumbers,
    Stability,
)
from leaderboard.page.markup import (
    NOTHING,
    Head,
    Piece,
    element,
    facts,
    folded,
    joined,
    line,
    note,
    table,
)
from leaderboard.table import cells
from leaderboard.table.columns import MEDIANS
from tasks.texts import counted

ENOUGH_SEEDS: Final = 6
"""Minimum number of seeds for a 95% interval of their median: the true median is outside the range
of n values with probability `2 * 0.5 ** n`, which is 6% for n = 5 and 3% for n = 6."""
_EVENTS: Final = (
    Head("event"),
    Head("seeds", number=True),
    Head("rate (%)", number=True),
    Head("95% interval", number=True),
)
_REACHED: Final = (
    Head("success"),
    Head("seeds", number=True),
    Head("updates", number=True),
    Head("response tokens", number=True),
    Head("seconds", number=True),
)
_ON_THE_BOARD: Final = (
    Head("measure"),
    Head("over the seeds"),
    Head("value", number=True),
    Head("worst seed", number=True),
    Head("unit"),
)


def stability_tables(stability: Stability, seeds: Sequence[SeedCurves]) -> Markup:
    """All numbers on an entry's stability.

    Args:
        stability: The numbers.
        seeds: The training runs, with their validation panels and how they ended.
    """
    few = len(stability.seeds) < ENOUGH_SEEDS
    heads = [
        Head("number"),
        Head("median", number=True),
        Head("range of the seeds" if few else "95% interval of the median", number=True),
        Head("worst", number=True),
        *(Head(f"seed {seed}", number=True) for seed in stability.seeds),
        Head("unit"),
    ]
    numbers = [_number(each, few) for each in stability.numbers if each.name in DEFINITIONS]
    events = [
        _event(each, len(stability.seeds)) for each in stability.events if each.name in DEFINITIONS
    ]
    reached = [_reached(each) for each in stability.reached]
    return joined(
        [
            note(_measured(stability, seeds)),
            table("Stability, as on the board", _ON_THE_BOARD, _shown(stability)),
            _ended(seeds),
            folded("Every number of every seed", table("Stability of every seed", heads, numbers)),
            folded("Events", table("Events over the seeds", _EVENTS, events)),
            folded(
                "What it takes to reach a success rate",
                table("Medians over the seeds", _REACHED, reached),
            ),
            folded("What these numbers mean", facts(_meanings(stability))),
        ]
    )


def _meanings(stability: Stability) -> list[tuple[Piece, Piece]]:
    """Definitions of all metrics in the tables, each once."""
    listed = (stability.columns, stability.numbers, stability.events)
    names = dict.fromkeys(each.name for part in listed for each in part)
    known = [DEFINITIONS[name] for name in names if name in DEFINITIONS]
    return [(what.name, f"{what.text} ({what.source})") for what in known]


def _measured(stability: Stability, seeds: Sequence[SeedCurves]) -> Piece:
    """What the numbers were measured on, which differs from the board's panels."""
    panels = sorted({seed.panel for seed in seeds if seed.panel})
    where: Piece = "a panel that the logs do not name"
    if panels:
        where = joined((element("strong", line(panel)) for panel in panels), ", ")
    count = len(stability.seeds)
    return joined(
        [
            f"From {counted(count, 'training run')}. Success and collapse come from the "
            "validations during training, on ",
            where,
            ", regardless of the panels shown on the board; mismatch comes from the updates.",
        ]
    )


def _shown(stability: Stability) -> list[list[Piece]]:
    """The board's numbers: the aggregate over seeds, and the worst seed."""
    worst = {each.name: each.worst for each in stability.numbers}
    collapse = next((each for each in stability.events if each.name == "collapse"), None)
    values = [each for each in stability.columns if each.name in DEFINITIONS]
    if stability.dispersion_across_runs is not None:
        values.append(NamedValue("dispersion_across_runs", stability.dispersion_across_runs))
    rows: list[list[Piece]] = []
    for each in values:
        how, last, value = "", "", _value(each)
        if each.name in MEDIANS:
            how = "median"
            last = cells.number(worst.get(each.name), DEFINITIONS[each.name].unit)
        elif each.name == "collapse_rate" and collapse is not None:
            unknown = len(stability.seeds) - collapse.known
            said = stability.unjudged
            how = collapses_text(collapse.happened, collapse.known, 0, said, unknown)
            if collapse.known and unknown:
                value = cells.UNKNOWN
            elif collapse.low is not None and collapse.high is not None:
                ends = whole_percent(collapse.low), whole_percent(collapse.high)
                how += f", 95% CI {ends[0]}\u2013{ends[1]}%"
            how += f"; {len(stability.halved)} halved" if stability.halved else ""
        elif each.name == "worst_seed":
            how = "lowest"
        elif each.name == "dispersion_across_runs":
            how = "interquartile range"
        rows.append([_name(each.name), how, value, last, _unit(each.name)])
    return rows


def _ended(seeds: Sequence[SeedCurves]) -> Markup:
    """The training runs that ended early, which counts as a collapse, and why."""
    ended = [
        element(
            "li", joined([f"Seed {seed.seed} after update {_last(seed)}: ", line(seed.stopped)])
        )
        for seed in seeds
        if seed.stopped is not None
    ]
    if not ended:
        return NOTHING
    return note("Ended before the last planned update, which counts as a collapse:") + element(
        "ul", joined(ended)
    )


def _last(seed: SeedCurves) -> str:
    return cells.number(seed.last_step, "count")


def _name(name: str) -> Markup:
    what = DEFINITIONS[name]
    return element("span", what.name, title=what.text)


def _value(named: NamedValue) -> str:
    return cells.number(named.value, DEFINITIONS[named.name].unit)


def _reached(level: ReachedLevel) -> list[Piece]:
    return [
        f"{whole_percent(level.level)}%",
        f"{level.reached} of {level.known}",
        cells.number(level.updates, "count"),
        cells.number(level.tokens, "count"),
        cells.number(level.seconds, "count"),
    ]


def _unit(name: str) -> str:
    unit = DEFINITIONS[name].unit
    return "%" if unit == "share" else unit


def _number(numbers: SeedNumbers, few: bool) -> list[Piece]:
    what = DEFINITIONS[numbers.name]

    def shown(value: float | None) -> str:
        return cells.number(value, what.unit)

    known = [value for value in numbers.values if value is not None]
    ends: tuple[float, float] | None = None
    if few and len(known) > 1:
        ends = min(known), max(known)
    elif len(known) >= ENOUGH_SEEDS:
        low, high = numbers.median_low, numbers.median_high
        ends = (low, high) if low is not None and high is not None else None
    return [
        _name(numbers.name),
        shown(numbers.median),
        f"{shown(ends[0])}\u2013{shown(ends[1])}" if ends else cells.UNKNOWN,
        shown(numbers.worst),
        *map(shown, numbers.values),
        _unit(numbers.name),
    ]


def _event(event: EventCount, seeds: int) -> list[Piece]:
    # Unknown seeds may differ from the others, so there is no rate if there are any.
    unknown = seeds - event.known
    ends = cells.UNKNOWN
    if event.low is not None and event.high is not None and not unknown:
        ends = f"{cells.percent(event.low)}\u2013{cells.percent(event.high)}"
    return [
        _name(event.name),
        collapses_text(event.happened, event.known, 0, cells.UNKNOWN, unknown),
        cells.UNKNOWN if unknown else cells.number(event.rate, "share"),
        ends,
    ]
