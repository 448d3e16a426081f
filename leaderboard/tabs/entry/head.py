"""The top of an entry's page: its main numbers, its curve, and how to reproduce it."""

from functools import lru_cache
from statistics import fmean

from markupsafe import Markup

from benchmark.commands_of_entry import reproduce_text
from benchmark.stats.paired import mean_success
from leaderboard.board.board import Board
from leaderboard.board.curves import SECONDS
from leaderboard.board.rows import BoardRow, PanelNumbers
from leaderboard.page import charts
from leaderboard.page.glossary import ONE_SEED, explained
from leaderboard.page.marks import collapse_chip, interval_bar
from leaderboard.page.markup import NOTHING, Piece, copied, element, joined, line, outside, page
from leaderboard.page.methods import method_of
from leaderboard.page.state import State
from leaderboard.table import cells
from leaderboard.table.columns import Line, dependable_of, worst_of
from leaderboard.table.paired import side_of
from leaderboard.table.view import badges_of
from leaderboard.tabs.answer import init_success
from leaderboard.tabs.curve_charts import curve_chart
from tasks.texts import counted


@lru_cache(maxsize=64)
def entry_head(board: Board, state: State) -> str:
    """Name, success, dependable success, collapses, cost, and the command that reproduces it."""
    row = board.row(state.entry, state.protocol)
    if row is None:
        return ""
    tiles = [_success(board, row, numbers) for numbers in row.panels]
    return page(
        element("h2", line(row.name)),
        element("p", line(method_of(row)), "lb-soft"),
        element("div", joined([*tiles, *_training(board, row)]), "lb-hero"),
        _reproduce(board, row) if row.kind == "trained" else NOTHING,
    )


def _reproduce(board: Board, row: BoardRow) -> Markup:
    """The command that reproduces an entry, and its cost."""
    minutes = _minutes(board, row)
    cost = "" if minutes is None else f": {counted(len(row.checkpoints), 'seed')}, {minutes} each"
    where = outside(board.facts.repository, "the repository") or "the repository"
    said = joined(["Reproduce it in a clone of ", where, cost, "."])
    return element("p", said, "lb-note lb-above") + copied(
        reproduce_text(row.id, row.plugins), "reproduce it"
    )


def _minutes(board: Board, row: BoardRow) -> str | None:
    """Mean logged time of a training run; None if no log contains it."""
    seconds = [
        total.values[-1]
        for curves in board.curves(row)
        if (total := curves.of(SECONDS)) is not None
    ]
    return f"{cells.number(fmean(seconds) / 60, 'count')} min" if seconds else None


@lru_cache(maxsize=64)
def entry_curve(board: Board, state: State) -> charts.Value:
    """Success during its training runs."""
    row = board.row(state.entry, state.protocol)
    if row is None or row.stability is None:
        return charts.NOTHING
    drawn = State(tab="curves", protocol=state.protocol, entries=(row.id,))
    return curve_chart("success", board, drawn)


def _tile(name: Piece, value: Piece, *about: Piece) -> Markup:
    return element(
        "div",
        joined([element("span", name, "lb-sub"), element("strong", value), *about]),
        "lb-tile",
    )


def _success(board: Board, row: BoardRow, numbers: PanelNumbers) -> Markup:
    facts = board.panel(row, numbers.key)
    title = facts.title if facts else "/".join(numbers.key)
    if numbers.panel != "builtin":
        title += f" ({numbers.panel})"
    init = init_success(board, row, [numbers.key]) if row.kind == "trained" else None
    seeds = [each.success for each in numbers.seeds]
    success = mean_success([side_of(numbers)])
    ends = f"{cells.percent(success.low)}\u2013{cells.percent(success.high)}"
    shown = interval_bar(success.low, success.high, success.value, seeds, init)
    return _tile(
        f"success on {title}", f"{cells.percent(numbers.success)}%",
        element("span", joined([explained("interval", "95% CI"), f" {ends}"]), "lb-sub"), shown,
    )  # fmt: skip


def _training(board: Board, row: BoardRow) -> list[Markup]:
    """Tiles on its training runs; empty without logs."""
    if row.stability is None:
        return []
    tiles = []
    keys = [numbers.key for numbers in row.panels]
    found, worst = dependable_of(row, keys), worst_of(row, keys)
    name = explained("dependable", "dependable success")
    if found is not None:
        ends = f"{cells.percent(found.low)}\u2013{cells.percent(found.high)}"
        about = [element("span", f"95% CI {ends}", "lb-sub")]
        if worst is not None:
            about.append(element("span", f"lowest seed {cells.percent(worst)}%", "lb-sub"))
        tiles.append(_tile(name, f"{cells.percent(found.value)}%", *about))
    elif len(row.checkpoints) == 1:
        tiles.append(_tile(name, "not known", element("span", ONE_SEED, "lb-sub")))
    whole = Line(row, (), None)
    event = whole.collapse
    if event is not None and event.low is not None and event.high is not None:
        steps = [spark.collapse for spark in row.sparks if spark.collapse is not None]
        chip = collapse_chip(
            event.happened, event.known, (event.low, event.high), min(steps, default=None),
            whole.unknown, whole.halved,
        )  # fmt: skip
        names = [explained("collapse", "collapse")]
        names += [explained("halved", "halved")] if whole.halved else []
        tiles.append(_tile(joined(names, ", "), chip))
    elif row.stability is not None:
        few = element("span", whole.unjudged, "lb-sub")
        tiles.append(_tile(explained("collapse", "collapse"), "not known", few))
    badges = badges_of(row)
    if badges:
        shown = joined((element("span", badge, "lb-badge") for badge in badges), " ")
        tiles.append(_tile(explained("badges", "checked"), NOTHING, shown))
    if row.parameters:
        size = cells.number(row.parameters, "parameters")
        tiles.append(_tile("model", size, element("span", line(row.base_model), "lb-sub")))
    minutes = _minutes(board, row)
    if minutes is not None:
        tiles.append(_tile("training", minutes, element("span", "a seed, as logged", "lb-sub")))
    return tiles
