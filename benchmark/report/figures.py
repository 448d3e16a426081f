"""The report's figures, each with the table behind it."""

import math
from dataclasses import dataclass

from markupsafe import Markup

from benchmark.evaluation.summary import CategorySummary, PanelSummary
from benchmark.html_text import percent
from benchmark.plots.style import plot_style
from benchmark.report.drawing import FAILED, SOLVED, RowsPlot, SlotsPlot, is_number, ruler
from benchmark.stats.intervals import wilson
from tasks.texts import counted


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure and the table behind it.

    Attributes:
        title: What it shows.
        description: The same for screen readers, with the main fact in words.
        caption: How to read it.
        svg: The drawing.
        columns: Headers of the table.
        rows: The table's cells.
    """

    title: str
    description: str
    caption: str
    svg: Markup
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def panel_figures(
    panel: PanelSummary, key: str, max_turns: int, repeats: int
) -> tuple[Figure, ...]:
    """The figures of one panel.

    Args:
        panel: Its summary; at least one record.
        key: Prefix of the drawings' ids, unique within the page.
        max_turns: Turn limit of the panel.
        repeats: Number of plays of every episode.
    """
    return (
        success_figure(panel, f"{key}-success"),
        turns_figure(panel, f"{key}-turns", max_turns, repeats),
        invalid_figure(panel, f"{key}-invalid", max_turns, repeats),
    )


@plot_style()
def success_figure(panel: PanelSummary, key: str) -> Figure:
    """Success of every category with its Wilson interval."""
    title = f"Success by {panel.category_name}"
    best = max(panel.categories, key=lambda c: c.success.value)
    worst = min(panel.categories, key=lambda c: c.success.value)
    description = (
        f"Success of {len(panel.categories)} categories with 95% Wilson intervals. Highest at "
        f"{best.category} with {percent(best.success.value)}, lowest at {worst.category} with "
        f"{percent(worst.success.value)}; all episodes {percent(panel.success.value)}."
    )
    labels = [category.category for category in panel.categories]
    plot: SlotsPlot | RowsPlot
    if all(map(is_number, labels)):
        plot = SlotsPlot(key, labels, panel.category_name, "success (%)")
        plot.share_axis(1.0)
    else:
        plot = RowsPlot(key, labels, "success (%)")
    plot.reference(panel.success.value)
    for place, category in enumerate(panel.categories):
        success = category.success
        note = f"{panel.category_name} {category.category}: {_with_interval(category)}"
        plot.point(place, (success.low, success.value, success.high), note)
    return Figure(
        title=title,
        description=description,
        caption="Mean and 95% Wilson interval; dashed: all episodes.",
        svg=plot.svg(title, description),
        columns=(
            panel.category_name,
            "success",
            "95% interval",
            *(f"pass@{passed.k}" for passed in panel.pass_at),
            "episodes",
        ),
        rows=tuple(
            (
                c.category,
                percent(c.success.value),
                f"{percent(c.success.low)} to {percent(c.success.high)}",
                *(_known(c.solved_in(passed.k)) for passed in panel.pass_at),
                str(c.success.episodes),
            )
            for c in panel.categories
        ),
    )


@plot_style()
def turns_figure(panel: PanelSummary, key: str, max_turns: int, repeats: int) -> Figure:
    """Histogram of the number of turns, with solved episodes below failed ones."""
    last = max([max_turns, *(turns for turns, _, _ in panel.turn_counts)])
    first = min([1, *(turns for turns, _, _ in panel.turn_counts)])
    width = math.ceil((last - first + 1) / 60)
    bins = [(start, min(start + width - 1, last)) for start in range(first, last + 1, width)]
    counts = [[0, 0] for _ in bins]
    for turns, solved, failed in panel.turn_counts:
        counts[(turns - first) // width][0] += solved
        counts[(turns - first) // width][1] += failed
    labels = [str(low) if low == high else f"{low}\u2013{high}" for low, high in bins]
    what = "episodes" if repeats == 1 else "plays of episodes"
    plot = SlotsPlot(key, labels, "turns played", what)
    plot.count_axis(max(map(sum, counts)))
    for slot, (solved, failed) in enumerate(counts):
        note = f"{counted(labels[slot], 'turn')}: {solved} solved, {failed} failed"
        plot.bars(slot, [(solved, SOLVED), (failed, FAILED)], note)
    plot.legend([("solved", SOLVED), ("failed", FAILED)])
    solved_total = sum(solved for _, solved, _ in panel.turn_counts)
    failed_total = sum(failed for _, _, failed in panel.turn_counts)
    title = "Turns per episode"
    description = (
        f"Stacked histogram of the number of turns: {solved_total} solved and {failed_total} "
        f"failed {what}, {panel.turns:.1f} turns on average, limit {max_turns}."
    )
    return Figure(
        title=title,
        description=description,
        caption=f"Episodes end when solved or lost, at the latest after {max_turns} turns.",
        svg=plot.svg(title, description),
        columns=("turns", "solved", "failed"),
        rows=tuple(
            (label, str(solved), str(failed))
            for label, (solved, failed) in zip(labels, counts, strict=True)
            if solved or failed
        ),
    )


@plot_style()
def invalid_figure(panel: PanelSummary, key: str, max_turns: int, repeats: int) -> Figure:
    """Share of responses with an invalid format or action, by turn number."""
    played = [(turn, total, bad) for turn, total, bad in panel.invalid_by_turn if total]
    last = max([max_turns, *(turn for turn, _, _ in played)])
    # Late turns have few responses: their wide intervals must not flatten the rest.
    highest = max((bad / total for _, total, bad in played), default=0.0)
    labels = [str(turn) for turn in range(1, last + 1)]
    plot = SlotsPlot(key, labels, "turn", "invalid responses (%)")
    plot.share_axis(min(1.0, max(0.05, math.ceil(highest * 1.25 * 20) / 20)))
    for turn, total, bad in played:
        about = f"turn {turn}: {bad} of {total} responses invalid"
        share = wilson(bad, total)
        ends = share.low, share.value, share.high
        if repeats > 1:  # plays of one episode are correlated: the interval would be too short
            ends = (share.value,) * 3
        plot.point(turn - 1, ends, about)
    note = (
        "95% Wilson intervals, cut at the axis" if repeats == 1 else "shares of all episodes played"
    )
    bad_total, total = sum(bad for *_, bad in played), sum(total for _, total, _ in played)
    title = "Invalid responses by turn"
    description = (
        "Share of responses at each turn that have an invalid format or an invalid "
        f"action: {bad_total} of {total} over all turns."
    )
    return Figure(
        title=title,
        description=description,
        caption=f"{bad_total:,} of {total:,} responses; {note}.",
        svg=plot.svg(title, description),
        columns=("turn", "responses", "invalid", "share"),
        rows=tuple(
            (str(turn), str(total), str(bad), percent(bad / total)) for turn, total, bad in played
        ),
    )


@plot_style()
def interval_figure(value: float, low: float, high: float, key: str) -> Markup:
    """A ruler from 0 to 100% with the headline's value and interval on it."""
    description = f"{percent(value)}, interval {percent(low)} to {percent(high)}"
    plot = ruler(key, (low, value, high))
    return plot.svg("Success on a scale from 0 to 100%", description)


def _with_interval(category: CategorySummary) -> str:
    success = category.success
    return (
        f"{percent(success.value)} [{percent(success.low)}, {percent(success.high)}], "
        f"{success.episodes} episodes"
    )


def _known(rate: float | None) -> str:
    return "\u2013" if rate is None else percent(rate)
