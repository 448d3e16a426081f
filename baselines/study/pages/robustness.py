"""The page on robustness: success over learning rates, a curve per method, on a sweep of tracks.

Tracks of a sweep (`baselines.tracks.sweeps`) differ in the learning rate and in other settings of
their files. Each combination of the other settings has a plot.
"""

import io
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator, PercentFormatter

from baselines.study.cells import Plays
from baselines.study.current_tracks import CurrentTrack
from baselines.study.methods import RecipeRuns, Sides, TrackResults, collapse_of
from baselines.study.pages.markdown import fill, markdown_table, write_page
from baselines.study.pages.track_pages import PAGE as TRACK_PAGE
from baselines.tracks import sweeps
from benchmark.files import write_atomically
from benchmark.flat import flat
from benchmark.plots.style import SOFT, Look, looks_of, plot_style
from benchmark.stats.formatting import points_text, rate_digits
from benchmark.stats.intervals import Interval
from benchmark.stats.paired import Side, mean_success, score_difference
from benchmark.track_schema import Track
from tasks.errors import UserError
from tasks.seeding import canonical_json
from tasks.texts import plural

TEMPLATE: Final = Path(__file__).with_name("robustness.md.j2")
PAGE, FIGURE = "robustness.md", "robustness-{base}.svg"
NOTHING: Final = "-"
_WIDTH, _HEIGHT = 4.2, 3.0
"""Size of one plot, in inches."""
_APART: Final = 1.035
"""Factor between the learning rates at which methods are drawn, so that they do not overlap."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One track of a sweep.

    Attributes:
        results: Its finished results.
        rate: Its learning rate.
        others: Its other settings that the sweep varies, as text; empty if it varies none.
    """

    results: TrackResults
    rate: float
    others: str

    @property
    def text(self) -> str:
        """Its name in a table."""
        return f"{self.rate:g}, {self.others}" if self.others else f"{self.rate:g}"

    def runs_of(self, recipe: str) -> RecipeRuns | None:
        """The finished runs of a method; None without any."""
        method = self.results.methods.get(recipe)
        return method if method is not None and method.runs else None


@dataclass(frozen=True, slots=True)
class OverAll:
    """A method over all conditions, for the seeds that are finished under all of them.

    Attributes:
        sides: Success on each panel.
        collapsed: Number of collapsed runs.
        runs: Number of all runs.
    """

    sides: Sides
    collapsed: int
    runs: int


@dataclass(frozen=True, slots=True)
class Sweep:
    """A track and its variants.

    Attributes:
        base: The track's name.
        conditions: All of these tracks, by their other settings and then by learning rate.
        recipes: Methods that a study runs on a variant, in order.
    """

    base: str
    conditions: tuple[Condition, ...]
    recipes: tuple[str, ...]

    @property
    def measured(self) -> tuple[Condition, ...]:
        """Conditions under which a method has a finished run."""
        return tuple(each for each in self.conditions if any(map(each.runs_of, self.recipes)))

    @property
    def init(self) -> Sides | None:
        """Success of the init, which is the same under all conditions; None if not played."""
        sides = (each.results.init_sides(each.results.panels) for each in self.conditions)
        return next((each for each in sides if each is not None), None)

    @property
    def shown(self) -> tuple[str, ...]:
        """Methods with a finished run on a variant."""
        varied = [each for each in self.conditions if each.results.track != self.base]
        return tuple(
            recipe for recipe in self.recipes if any(each.runs_of(recipe) for each in varied)
        )

    def over_all(self, recipe: str) -> "OverAll | None":
        """A method over all conditions; None if no seed is finished under all of them.

        All conditions play the same episodes, so an episode's plays include those under all of
        them. Unlike runs on different tasks, a seed's runs learn from the same training episodes
        under all conditions, so a seed's success is the mean over them.
        """
        runs = [each.runs_of(recipe) for each in self.conditions]
        methods = [each for each in runs if each is not None]
        if len(methods) < len(runs):
            return None
        seeds = set.intersection(*({run.cell.seed for run in each.runs} for each in methods))
        if not seeds:
            return None
        plays: dict[int, list[Plays]] = {seed: [] for seed in sorted(seeds)}
        collapsed = 0
        for method in methods:
            for run, played in zip(method.runs, method.plays, strict=True):
                if run.cell.seed in seeds and run.log is not None:
                    plays[run.cell.seed].append(played)
                    collapsed += collapse_of(run.log) is not None
        sides = tuple(
            _pooled([[each[panel] for each in own] for own in plays.values()])
            for panel in self.conditions[0].results.panels
        )
        return OverAll(sides, collapsed, len(methods) * len(seeds))


def measured_sweeps(
    found: Mapping[str, TrackResults], current_tracks: Mapping[str, CurrentTrack]
) -> tuple[Sweep, ...]:
    """The sweeps of a study with a finished run on a variant.

    Args:
        found: Finished results by track.
        current_tracks: The tracks.
    """
    families = sweeps.sweeps_of(each.track for each in current_tracks.values())
    every = (_sweep(tracks, found) for tracks in families.values())
    return tuple(sweep for sweep in every if sweep.shown)


def _sweep(tracks: Sequence[Track], found: Mapping[str, TrackResults]) -> Sweep:
    base, *varying = tracks
    settings = [flat(track.settings) for track in tracks]
    known = dict.fromkeys(name for each in settings for name in each)
    varied = [name for name in known if len({_text(each.get(name)) for each in settings}) > 1]
    conditions = [
        Condition(
            found[track.name],
            track.learning_rate.rates[0],
            ", ".join(f"{name} {_text(each.get(name))}" for name in varied),
        )
        for track, each in zip(tracks, settings, strict=True)
    ]
    planned = (found[track.name].methods for track in varying)
    return Sweep(
        base.name,
        tuple(sorted(conditions, key=lambda each: (each.others, each.rate))),
        tuple(dict.fromkeys(recipe for methods in planned for recipe in methods)),
    )


def write_robustness(found: Sequence[Sweep], results: Path) -> Path:
    """Write the page and a figure for each sweep to a results folder.

    Args:
        found: The sweeps, at least one.
        results: The folder.

    Returns:
        The page.

    Raises:
        UserError: A file cannot be written.
    """
    try:
        for sweep in found:
            write_atomically(results / FIGURE.format(base=sweep.base), robustness_figure(sweep))
        write_page(results / PAGE, robustness_page(found), results)
    except OSError as error:
        raise UserError(f"{error.filename} cannot be written: {error.strerror}") from error
    return results / PAGE


def robustness_page(found: Sequence[Sweep]) -> str:
    """The page, as Markdown."""
    return fill(
        TEMPLATE,
        sweeps=[
            {
                "base": sweep.base,
                "figure": FIGURE.format(base=sweep.base),
                "table": _table(sweep),
                "init": NOTHING if sweep.init is None else rate_digits(mean_success(sweep.init)),
                "first": sweep.shown[0],
                "means": any(map(sweep.over_all, sweep.shown)),
                "single": _of_single_seed(sweep),
                "missing": list(_missing(sweep)),
            }
            for sweep in found
        ],
    )


def robustness_figure(sweep: Sweep) -> bytes:
    """Success over the learning rate, with a plot per combination of other settings, as SVG."""
    groups: dict[str, list[Condition]] = {}
    for condition in sweep.measured:
        groups.setdefault(condition.others, []).append(condition)
    rates = sorted({each.rate for each in sweep.measured})
    recipes = sweep.shown
    looks = dict(zip(recipes, looks_of(recipes), strict=True))
    with plot_style():
        size = (_WIDTH * len(groups), _HEIGHT + 0.5)
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        plots = (
            figure.subplots(1, len(groups), squeeze=False, sharex=True, sharey=True)
            .flatten()
            .tolist()
        )
        for axes, (others, conditions) in zip(plots, groups.items(), strict=True):
            axes.set_title(others or sweep.base, loc="left", fontsize=9.5, fontweight="bold")
            _draw(axes, conditions, rates, looks)
            if sweep.init is not None:
                at = mean_success(sweep.init).value
                axes.axhline(at, color=SOFT, linestyle=":", linewidth=1.2)
        handles = [
            Line2D([], [], color=look.color, linestyle=look.dashes, linewidth=2)
            for look in looks.values()
        ]
        labels = list(looks)
        runs = [each.runs_of(recipe) for each in sweep.measured for recipe in recipes]
        if any(method.collapsed for method in runs if method is not None):
            handles.append(Line2D([], [], color=SOFT, marker="X", linestyle="", mec="white"))
            labels.append("a seed collapsed")
        if sweep.init is not None:
            handles.append(Line2D([], [], color=SOFT, linestyle=":"))
            labels.append("init")
        figure.legend(handles, labels, loc="outside lower left", ncols=len(labels))
        file = io.BytesIO()
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": "arlarena-bench"})
    return file.getvalue()


def _draw(
    axes: Axes,
    conditions: Sequence[Condition],
    rates: Sequence[float],
    looks: Mapping[str, Look],
) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(rates))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda rate, _: f"{rate:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("learning rate")
    axes.set_ylim(-0.02, 1.02)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.grid(axis="y")
    axes.set_axisbelow(True)
    for number, (recipe, look) in enumerate(looks.items()):
        shift = _APART ** (number - (len(looks) - 1) / 2)
        places = [each.rate * shift for each in conditions]
        methods = [each.runs_of(recipe) for each in conditions]
        # A missing run interrupts the curve.
        found = [_success(*each) for each in zip(conditions, methods, strict=True)]
        axes.errorbar(
            places,
            [each.value for each in found],
            yerr=[
                [each.value - each.low for each in found],
                [each.high - each.value for each in found],
            ],
            color=look.color,
            linestyle=look.dashes,
            linewidth=1.7,
            elinewidth=0.9,
            marker="o",
            markersize=4,
            zorder=3,
        )
        for place, each, method in zip(places, found, methods, strict=True):
            if method is not None and method.collapsed:
                axes.plot(
                    place, each.value, "X", ms=8, mfc=look.color, mec="white", mew=0.9, zorder=6
                )


def _success(condition: Condition, method: RecipeRuns | None) -> Interval:
    sides = None if method is None else method.sides(condition.results.panels)
    return Interval(math.nan, math.nan, math.nan) if sides is None else mean_success(sides)


def _table(sweep: Sweep) -> str:
    means = {recipe: sweep.over_all(recipe) for recipe in sweep.shown}
    first = means[sweep.shown[0]]
    rows = []
    for recipe in sweep.shown:
        methods = [each.runs_of(recipe) for each in sweep.measured]
        mean = means[recipe]
        minus = NOTHING
        if mean is not None and first is not None and recipe != sweep.shown[0]:
            minus = points_text(score_difference(mean.sides, first.sides))
        rows.append(
            [
                recipe,
                NOTHING if mean is None else rate_digits(mean_success(mean.sides)),
                minus,
                NOTHING if mean is None else f"{mean.collapsed} of {mean.runs}",
                *map(_cell, sweep.measured, methods),
            ]
        )
    head = ["recipe", "mean over all", f"minus {sweep.shown[0]}", "collapsed"]
    if not any(means.values()):
        head, rows = head[:1], [[row[0], *row[4:]] for row in rows]
    return markdown_table([*head, *map(_head, sweep.measured)], rows)


def _of_single_seed(sweep: Sweep) -> list[str]:
    """Methods whose mean over all conditions has one seed, so that its interval ignores seeds."""
    means = {recipe: sweep.over_all(recipe) for recipe in sweep.shown}
    return [
        recipe
        for recipe, mean in means.items()
        if mean is not None and len(mean.sides[0].seeds) == 1
    ]


def _head(condition: Condition) -> str:
    """A condition's description, with a link to its track's page."""
    return f"[{condition.text}]({condition.results.track}/{TRACK_PAGE})"


def _cell(condition: Condition, method: RecipeRuns | None) -> str:
    sides = None if method is None else method.sides(condition.results.panels)
    if method is None or sides is None:
        return NOTHING
    success = rate_digits(mean_success(sides))
    late = f", {len(method.halved)} halved" if method.halved else ""
    return f"{success}<br>{len(method.collapsed)} of {len(method.runs)} collapsed{late}"


def _missing(sweep: Sweep) -> Iterator[str]:
    for each in sweep.conditions:
        lacking: dict[tuple[int, ...], list[str]] = {}
        for recipe in sweep.recipes:
            method = each.results.methods.get(recipe)
            if method is not None and method.missing:
                lacking.setdefault(method.missing, []).append(recipe)
        parts = [
            f"{plural(len(seeds), 'seed')} {', '.join(map(str, seeds))} of {', '.join(recipes)}"
            for seeds, recipes in lacking.items()
        ]
        if parts:
            yield f"{each.results.track} ({each.text}): {'; '.join(parts)}"


def _pooled(plays: Sequence[Sequence[Mapping[str, bool]]]) -> Side:
    """Pool the plays of one panel under all conditions, for each seed."""
    seeds = [statistics.fmean(map(float, _values(own))) for own in plays]
    every = [each for own in plays for each in own]
    return Side.of([[each[episode] for each in every] for episode in sorted(every[0])], seeds)


def _values(plays: Sequence[Mapping[str, bool]]) -> Iterator[bool]:
    for each in plays:
        yield from each.values()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else canonical_json(value)
