"""Paper versus reproduction: gains over GRPO, rankings of the methods, verdicts on the claims."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from markupsafe import Markup

from benchmark.stats.formatting import p_text
from leaderboard.board.board import Board
from leaderboard.board.protocols import StudyVerdict
from leaderboard.board.published import LINK, PAPER
from leaderboard.page import charts
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
    outside,
    page,
    table,
    view_link,
)
from leaderboard.page.state import State, entry_query, query_of
from leaderboard.table import cells
from leaderboard.table.paper import LEAST_METHODS, LEAST_SEEDS, Gain, TaskGains, gains
from tasks.texts import counted

_INCOMPLETE: Final = "incomplete"
_CHIPS: Final = {"reproduced": "lb-good", "contradicted": "lb-bad"}


@lru_cache(maxsize=8)
def paper_lead(board: Board, state: State) -> str:
    """The text above the figure."""
    return page(
        element("p", _answer(gains(board, state.protocol)), "lb-answer"),
        note(
            joined(
                [
                    "Gain: success minus that of GRPO, in points. Hollow: printed in ",
                    outside(LINK, PAPER), " (table 3): one seed, no interval, 4-billion-parameter "
                    "models, 128 other episodes. Filled: entries of this board, on one track with "
                    "GRPO (the standard one of the task), with the same 95% interval as every "
                    "comparison here. The models here are thousands of times smaller, so do not "
                    f"expect equal numbers. With fewer than {LEAST_SEEDS} seeds, the interval is "
                    "too narrow to judge a direction, and the method is left out of the order.",
                ]
            )
        ),
    )  # fmt: skip


@lru_cache(maxsize=8)
def paper_page(board: Board, state: State) -> str:
    """The content below the figure."""
    return page(
        *(_of_task(each, state) for each in gains(board, state.protocol)),
        _verdicts(board),
        view_link(query_of(state)),
    )


def _answer(found: tuple[TaskGains, ...]) -> Piece:
    every = [gain for each in found for gain in each.gains]
    run = sum(gain.here is not None for gain in every)
    said = f"Run here so far: {run} of the {len(every)} gains over GRPO that the paper reports"
    orders = [f"{each.panel.title}: {_tau(each)}" for each in found if each.tau is not None]
    if not orders:
        return f"{said}; too few to compare the order of the methods on any task."
    return f"{said}. Kendall\u2019s \u03c4 of the two orders: {'; '.join(orders)}."


def _tau(each: TaskGains) -> str:
    by_chance = "" if each.p_value is None else f", {p_text(each.p_value)}"
    return f"{cells.number(each.tau, 'ratio')} ({each.methods} methods{by_chance})"


def _of_task(each: TaskGains, state: State) -> Markup:
    heads = [
        Head("method"),
        Head("paper (points)", number=True),
        Head("here (points, 95% CI)", number=True),
        Head("direction"),
    ]
    rows: list[list[Piece]] = [
        [
            _named(gain, state),
            cells.signed(100 * gain.paper),
            cells.points(gain.here) if gain.here else "not run yet",
            _direction(gain),
        ]
        for gain in each.gains
    ]
    where = f"Here: track {each.track}. " if each.track else "No entry with GRPO on a track yet. "
    order = f"Kendall\u2019s \u03c4 of the two orders: {_tau(each)}."
    left_out = ", ".join(f"{gain.method} ({counted(gain.seeds, 'seed')})" for gain in each.left_out)
    if each.tau is None:
        order = (
            f"Too few for an order of methods: {each.methods} with {LEAST_SEEDS} seeds here, GRPO "
            f"included; {LEAST_METHODS} are needed."
        )
    if left_out:
        order += f" Left out, with fewer than {LEAST_SEEDS} seeds here or of GRPO: {left_out}."
    title = each.panel.title
    return joined(
        [
            element("h2", title),
            note(joined([line(where), order])),
            table(f"Gains over GRPO on {title}", heads, rows),
        ]
    )


def _named(gain: Gain, state: State) -> Piece:
    if gain.row is None:
        return gain.method
    return link(entry_query(state.protocol, gain.row.id), gain.method)


def _direction(gain: Gain) -> Piece:
    """Whether the sign matches the paper's, if both are clear and there are enough seeds."""
    if gain.here is None:
        return cells.UNKNOWN
    if gain.seeds < LEAST_SEEDS:
        return f"undecided, {counted(gain.seeds, 'seed')}"
    if gain.here.low <= 0 <= gain.here.high:
        return "undecided"
    if not gain.clear:
        return "undecided there"
    same = (gain.here.value > 0) == (gain.paper > 0)
    return _chip("same" if same else "opposite", "lb-good" if same else "lb-bad")


def _chip(text: str, css: str) -> Markup:
    return element("span", text, f"lb-chip {css}".rstrip())


def _verdicts(board: Board) -> Markup:
    """The verdicts of the project's study on all claims."""
    found = board.facts.grid.verdicts if board.facts.grid else ()
    if not found:
        return NOTHING
    judged = [each for each in found if each.outcome in _CHIPS]
    after = sum(each.post_hoc for each in judged)
    run = [each for each in found if each.outcome != _INCOMPLETE]
    open_ = [each for each in found if each.outcome == _INCOMPLETE]
    about = (
        f"Decided: {len(judged)} of {len(found)} claims, {after} of them post hoc: written down or "
        "changed when the numbers were known. A claim is incomplete while a planned seed is "
        "missing. Claims about collapse need six seeds of one method or four of each of two, "
        "others three seeds; the rules are in "
    )
    return joined(
        [
            element("h2", "Verdicts on the claims"),
            note(joined([about, in_repository(board, "baselines/results/claims.md"), "."])),
            _claims("Claims of the papers", run) if run else NOTHING,
            folded(f"Incomplete: {counted(len(open_), 'claim')}, and the missing seeds",
                   _claims("Claims that lack runs", open_)) if open_ else NOTHING,
        ]
    )  # fmt: skip


def _claims(caption: str, found: Sequence[StudyVerdict]) -> Markup:
    rows: list[list[Piece]] = [
        [
            joined([line(each.claim), element("span", line(each.track), "lb-sub")]),
            joined(
                [
                    _chip(line(each.outcome), _CHIPS.get(each.outcome, "")),
                    element("span", "post hoc", "lb-sub") if each.post_hoc else NOTHING,
                ]
            ),
            line(each.numbers),
        ]
        for each in found
    ]
    heads = [Head("claim"), Head("verdict"), Head("numbers")]
    return table(caption, heads, rows, "lb-wrapped")


@lru_cache(maxsize=8)
def paper_chart(board: Board, state: State) -> charts.Value:
    """The gains in the paper and here, as a dumbbell plot."""
    rows = [
        {
            "label": f"{each.panel.title}: {gain.method}",
            "paper": 100 * gain.paper,
            "here": 100 * gain.here.value if gain.here else None,
            "low": 100 * gain.here.low if gain.here else None,
            "high": 100 * gain.here.high if gain.here else None,
            "said": f"paper {cells.signed(100 * gain.paper)}, here "
            + (cells.points(gain.here) if gain.here else "not run yet"),
        }
        for each in gains(board, state.protocol)
        for gain in each.gains
    ]
    if not rows:
        return charts.NOTHING
    both = [row for row in rows if row["here"] is not None]
    y = {"field": "label", "type": "nominal", "sort": [row["label"] for row in rows], "title": None,
         "axis": {"labelLimit": 240, "labelColor": charts.INK, "grid": True}}  # fmt: skip
    title = "gain over GRPO (points)"
    say = charts.tooltip({"label": "method", "said": "gain"})
    accent = "var(--lb-accent)"
    layers: list[charts.Spec] = [
        {
            "data": {"values": [{"at": 0}]},
            "mark": {"type": "rule", "strokeDash": [3, 3], "color": charts.SOFT},
            "encoding": {"x": charts.quantity("at", title)},
        },
        {
            "data": {"values": both},
            "mark": {"type": "rule", "color": charts.SOFT, "opacity": 0.5},
            "encoding": {"x": charts.quantity("paper", title), "x2": {"field": "here"}, "y": y},
        },
        {
            "data": {"values": both},
            "mark": {"type": "rule", "strokeWidth": 5, "opacity": 0.35, "color": accent},
            "encoding": {"x": charts.quantity("low", title), "x2": {"field": "high"}, "y": y},
        },
        {
            "mark": {"type": "point", "shape": "diamond", "size": 60, "color": charts.INK},
            "encoding": {"x": charts.quantity("paper", title), "y": y, "tooltip": say},
        },
        {
            "data": {"values": both},
            "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1, "color": accent},
            "encoding": {"x": charts.quantity("here", title), "y": y, "tooltip": say},
        },
    ]  # fmt: skip
    spec = {"data": {"values": rows}, "layer": layers, "width": "container",
            "height": 19 * len(rows)}  # fmt: skip
    said = f"Gains over GRPO of {len(rows)} methods, {len(both)} of them run here"
    return charts.value_of(spec, said)
