"""Collapses: all collapsed runs, aligned at the collapse, and the signals that moved before it."""

import math
from functools import lru_cache
from typing import Any, Final

import numpy as np
from markupsafe import Markup

from benchmark.stats.formatting import count_text
from leaderboard.board.board import Board
from leaderboard.board.curves import SIGNALS
from leaderboard.board.rows import BoardRow, PanelKey
from leaderboard.page import charts
from leaderboard.page.glossary import explained
from leaderboard.page.header import in_repository
from leaderboard.page.markup import (
    NOTHING,
    Head,
    Piece,
    element,
    folded,
    joined,
    line,
    link,
    note,
    page,
    table,
    view_link,
)
from leaderboard.page.methods import method_of
from leaderboard.page.state import State, entry_query, query_of
from leaderboard.table import cells
from leaderboard.table.collapsed_runs import (
    CollapsedRun,
    SignalSummary,
    collapsed_runs,
    lost_level,
    signal_summaries,
)
from leaderboard.tabs.answer import init_of_entry
from leaderboard.tabs.curve_charts import axis_of, not_measured
from tasks.texts import counted, plural

BEFORE, AFTER = 30, 10
"""Numbers of updates drawn before and after the collapse."""
MANY: Final = 12
"""Number of runs above which lines are thin and the list of runs is folded."""
MOST_DRAWN: Final = 60
"""Maximum number of runs with lines of their own, evenly spaced; the median covers all runs."""
STUDY: Final = "baselines/results/early_warning.md"
"""The study's page on the same question, with a rule tested on held-out runs."""
LEAST_RUNS: Final = 3
"""Minimum number of runs to show a median and to name a signal."""
_FEW: Final = {"strokeWidth": 1.4, "opacity": 0.6}
"""Line style for `MANY` runs or fewer."""


@lru_cache(maxsize=8)
def collapses_lead(board: Board, state: State) -> str:
    """The text above the figures."""
    found = collapsed_runs(board, state.protocol)
    if not found:
        return page(note("No training run on this board has collapsed yet."))
    about = (
        "A thin line is a run. The thick black line is the median wherever at least half of the "
    )
    about += f"runs, and {LEAST_RUNS} or more, have a value. The dashed line is the "
    return page(
        element("p", _answer(board, found, signal_summaries(board, state.protocol)), "lb-answer"),
        note(
            joined(
                [
                    about, explained("collapse", "collapse"),
                    ", by smoothed success: the loss itself shows up to two validations earlier.",
                ]
            )
        ),
    )  # fmt: skip


@lru_cache(maxsize=8)
def collapses_page(board: Board, state: State) -> str:
    """The content below the figures."""
    found = collapsed_runs(board, state.protocol)
    if not found:
        return page(view_link(query_of(state)))
    signals = signal_summaries(board, state.protocol)
    return page(
        note(
            joined(
                [
                    "A signal has moved when it stays more than three times as far from its median "
                    "over the first five updates as any of those updates (",
                    in_repository(board, "benchmark/stability/precursors.py"), "). The ",
                    explained("collapse", "collapse"),
                    " is judged by smoothed success, which lags: the fall is the first validation "
                    "that shows the loss. Only moves before it count, and a run counts for a "
                    "signal only if it fell after the first update at which the signal can have "
                    "moved, the sixth that was logged. Runs that did not collapse are those of "
                    "tracks with a collapse, each watched as long as the collapsed runs of its "
                    "track: a move counts as the share of these that fell after it. Success is "
                    "validated every few updates, so the fall is located no more precisely than "
                    "that. A signal that moves early is a warning, not a cause, and not even that "
                    "if it also moves in runs that did not collapse.",
                ]
            )
        ),
        _signals(signals) if any(each.known for each in signals) else NOTHING,
        element("h2", "Run by run"),
        _runs(board, state, found),
        view_link(query_of(state)),
    )  # fmt: skip


def _answer(
    board: Board, found: tuple[CollapsedRun, ...], signals: tuple[SignalSummary, ...]
) -> Markup:
    runs = f"Over all tasks, {counted(len(found), 'training run')}"
    judged = sum(bool(each.moves) for each in found)
    if not judged:
        early = "too early, or without the numbers, to judge any signal: none is shown to warn"
        return joined([f"{runs} collapsed, {early}. ", _study(board), "."])
    late = f"{runs} collapsed, {judged} of them late enough to look for a warning"
    enough = [each for each in signals if each.known >= LEAST_RUNS]
    if not enough:
        few = ": too few to say whether a signal is one. "
        return joined([late, few, _study(board), "."])
    compared = [each for each in enough if each.margin is not None]
    if not compared:
        alone = ". No warning can be judged: no other run on their tracks held as long. "
        return joined([late, alone, _study(board), "."])
    shown = [each for each in compared if each.margin is not None and each.margin.low > 0]
    if not shown:
        return joined(
            [
                late, ". No signal is shown to warn of them: none moves before a fall more often "
                "than in other runs of the same track and length, beyond what chance explains. ",
                _study(board), ".",
            ]
        )  # fmt: skip
    best, *_ = shown
    lead = ""
    if best.lead is not None and best.moved >= LEAST_RUNS:
        lead = f", {best.lead:g} {plural(f'{best.lead:g}', 'update')} earlier (median of these)"
    tried = f"It was picked out of {len(compared)} on these very runs" if compared[1:] else ""
    return joined(
        [
            late, ". The signal that tells these from other runs best is ",
            element("strong", SIGNALS[best.name].title),
            f": it moved before the fall in {best.moved} of {best.known} runs{lead}, and in as "
            f"much time in {count_text(best.false_alarms, best.held)} that did not collapse: ",
            _margin(best), " points. ", f"{tried}. " if tried else NOTHING, _study(board), ".",
        ]
    )  # fmt: skip


def _study(board: Board) -> Markup:
    """A link to the study's page on the same question, with more runs."""
    said = " asks the same of all runs of the study, with rules that judge early falls, too"
    return joined([in_repository(board, STUDY), said])


def _margin(each: SignalSummary) -> str:
    return cells.UNKNOWN if each.margin is None else cells.points(each.margin)


def _signals(signals: tuple[SignalSummary, ...]) -> Markup:
    heads = [
        Head("signal"),
        Head("moved before the fall", number=True, text="of the runs in which it could have"),
        Head(
            "lead (updates)",
            number=True,
            text=f"median over the runs in which it moved; none of fewer than {LEAST_RUNS} runs",
        ),
        Head("moved first", number=True, text="runs in which nothing moved before it"),
        Head(
            "moved without a collapse",
            number=True,
            text="runs that did not collapse, watched as long",
        ),
        Head(
            "difference (points)",
            number=True,
            text="within tracks, with its 95% interval, as if runs were independent",
        ),
    ]
    rows: list[list[Piece]] = [
        [
            SIGNALS[each.name].title,
            f"{each.moved} of {each.known}",
            _lead(each),
            f"{each.first} of {each.known}",
            count_text(each.false_alarms, each.held) if each.held else cells.UNKNOWN,
            _margin(each),
        ]
        for each in signals
        if each.known
    ]
    return table("Signals before a fall", heads, rows)


def _lead(each: SignalSummary) -> str:
    """How much earlier a signal moved; a dash for fewer than `LEAST_RUNS` runs."""
    return cells.UNKNOWN if each.lead is None or each.moved < LEAST_RUNS else f"{each.lead:g}"


def _runs(board: Board, state: State, found: tuple[CollapsedRun, ...]) -> Markup:
    heads = [
        Head("run"),
        Head("collapse at", number=True, text="update, by smoothed success"),
        Head("fall at", number=True, text="update of the first validation that shows the loss"),
        Head("moved first"),
    ]
    judged = [name for name in SIGNALS if any(name in each.moves for each in found)]
    moved = "update at which it moved before the fall; a dash if unknown"
    heads += [Head(SIGNALS[name].title, number=True, text=moved) for name in judged]
    heads += [Head("one episode", text="that the init solves and the collapsed weights do not")]
    rows: list[list[Piece]] = [
        [
            joined([_entry(each, state), element("span", _run(each), "lb-sub")]),
            f"{each.step:,}",
            f"{each.fall:,}",
            "; ".join(SIGNALS[name].title for name in each.first)
            or ("none" if each.moves else "cannot be judged"),
            *(_move(each, name) for name in judged),
            _level(board, state, each),
        ]
        for each in found
    ]
    listed = table("Runs that collapsed", heads, rows)
    return folded(f"All {len(found)} runs", listed) if len(found) > MANY else listed


def _entry(each: CollapsedRun, state: State) -> Markup:
    query = entry_query(state.protocol, each.row.id)
    return link(query, line(each.row.name))


def _run(each: CollapsedRun) -> str:
    return f"{cells.text(method_of(each.row))}, seed {each.curves.seed}"


def _move(each: CollapsedRun, name: str) -> str:
    if name not in each.moves:
        return cells.UNKNOWN
    at = each.moves[name]
    return "no" if at is None else f"{at:,}"


def _level(board: Board, state: State, each: CollapsedRun) -> Piece:
    """Links to the init's and the collapsed weights' plays of one level."""
    for numbers in each.row.panels:
        init = init_of_entry(board, each.row, [numbers.key])
        found = lost_level(board, each.row, init)
        if init is not None and found is not None:
            return _ways_to_level(each, init, state, *found)
    return cells.UNKNOWN


def _ways_to_level(
    each: CollapsedRun, init: BoardRow, state: State, key: PanelKey, episode: str
) -> Markup:
    task, panel = key
    ways = []
    for row, text in ((init, "before"), (each.row, "after")):
        seed = str(each.curves.seed) if row is each.row else ""
        target = State(
            tab="entry", protocol=state.protocol, entry=row.id, panel=f"{task}/{panel}",
            episode=episode, seed=seed,
        )  # fmt: skip
        said = f"{episode}, {text} the collapse"
        ways.append(link(query_of(target), text, aria_label=said))
    return joined([joined(ways, " \u00b7 "), element("span", line(episode), "lb-sub")])


@lru_cache(maxsize=32)
def aligned_chart(name: str, board: Board, state: State) -> charts.Value:
    """A figure of one signal in all collapsed runs, with the collapse at 0.

    Args:
        name: The signal's key in `SIGNALS`.
        board: The board.
        state: Its field `protocol` is used.
    """
    kind = SIGNALS[name]
    lines: dict[str, dict[int, float]] = {}
    recipes: dict[str, str] = {}
    for each in collapsed_runs(board, state.protocol):
        series = each.curves.of(name)
        if series is None:
            continue
        scale = 100.0 if kind.unit == "share" else 1.0
        label = f"{cells.text(each.row.name)}, seed {each.curves.seed}"
        recipes[label] = cells.text(each.row.method)
        lines[label] = {
            step - each.step: scale * value
            for step, value in zip(series.steps, series.values, strict=True)
            if -BEFORE <= step - each.step <= AFTER and math.isfinite(value)
        }
    title = kind.title + charts.unit_of(kind.unit)
    if not any(lines.values()):
        fallen = collapsed_runs(board, state.protocol)
        return not_measured(title, kind.text) if fallen else charts.NOTHING
    return charts.value_of(
        _spec(lines, recipes, title, kind.text, kind.log_scale),
        f"{title} of {counted(len(lines), 'run')} around the collapse, which is at 0",
    )


def _spec(
    lines: dict[str, dict[int, float]], recipes: dict[str, str], title: str, about: str, log: bool
) -> charts.Spec:
    values = {
        label: {x: y for x, y in points.items() if y > 0 or not log}
        for label, points in lines.items()
    }
    drawn = list(values)[:: math.ceil(len(values) / MOST_DRAWN)]
    stroke = {"strokeWidth": 0.9, "opacity": 0.6} if len(drawn) > MANY else _FEW
    data = [
        {"label": label, "recipe": recipes[label], "x": x, "y": y}
        for label in drawn
        for x, y in values[label].items()
    ]
    places = sorted({x for points in values.values() for x in points})
    least = max(LEAST_RUNS, len(values) / 2)
    middle = [
        {"x": x, "y": float(np.median(there))}
        for x in places
        if len(there := [points[x] for points in values.values() if x in points]) >= least
    ]
    x = charts.quantity("x", "updates from the collapse")
    known = [y for label in drawn for y in values[label].values()]
    y = charts.quantity("y", "", **(axis_of(known, log) if log else {"scale": {"zero": False}}))
    say = charts.tooltip(
        {"label": "run", "recipe": "recipe", "x": "updates from the collapse", "y": title}
    )
    color = charts.by_recipe([recipes[label] for label in drawn])
    layers: list[dict[str, Any]] = [
        {
            "data": {"values": [{"at": 0}]},
            "mark": {"type": "rule", "strokeDash": [4, 3], "color": "var(--lb-bad)"},
            "encoding": {"x": {"field": "at", "type": "quantitative"}},
        },
        {
            "mark": {"type": "line", **stroke},
            "encoding": {
                "x": x, "y": y, "color": color, "detail": {"field": "label"}, "tooltip": say,
            },
        },
    ]  # fmt: skip
    if middle:
        layers.append(
            {
                "data": {"values": middle},
                "mark": {"type": "line", "strokeWidth": 3, "color": charts.INK},
                "encoding": {"x": x, "y": y},
            }
        )
    of = counted(len(values), "run") + (f", {len(drawn)} drawn" if len(drawn) < len(values) else "")
    return {
        "title": {"text": title, "subtitle": f"{about}; {of}"},
        "data": {"values": data}, "layer": layers,
        "width": "container", "height": 190,
    }  # fmt: skip
