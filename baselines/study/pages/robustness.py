"""The page on robustness: success over learning rates, a curve per method, on tracks that vary one.

Tracks with the same base differ in the learning rate and in whatever else their files say. Each of
the other settings has a plot.
"""

import io
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, StrictUndefined
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator, PercentFormatter

from baselines.study.current_tracks import CurrentTrack, sweeps_over_rates
from baselines.study.methods import RecipeRuns, Sides, TrackResults, with_seeds
from baselines.study.pages.track_pages import markdown_table
from benchmark.files import write_atomically
from benchmark.flat import flat
from benchmark.plots.style import SOFT, Look, looks_of, plot_style
from benchmark.stats.formatting import rate_digits
from benchmark.stats.paired import Side
from benchmark.track_schema import Track
from tasks.errors import UserError
from tasks.seeding import canonical_json

TEMPLATE: Final = Path(__file__).with_name("robustness.md.j2")
PAGE, FIGURE = "robustness.md", "robustness-{base}.svg"
NOTHING: Final = "-"
_WIDTH, _HEIGHT = 4.2, 3.0
"""Of one plot, in inches."""
_APART: Final = 1.035
"""Factor between the learning rates at which two methods are drawn, so that neither hides one."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One track of a sweep.

    Attributes:
        results: What is finished on it.
        rate: Its learning rate.
        others: Its other settings that the sweep varies, as text; empty where it varies none.
    """

    results: TrackResults
    rate: float
    others: str

    @property
    def text(self) -> str:
        """How it is called in a table."""
        return f"{self.rate:g}, {self.others}" if self.others else f"{self.rate:g}"

    def runs_of(self, recipe: str) -> RecipeRuns | None:
        """The finished runs of a method; None without any."""
        method = self.results.methods.get(recipe)
        return method if method is not None and method.runs else None


@dataclass(frozen=True, slots=True)
class Sweep:
    """A track and those that vary it.

    Attributes:
        base: The track's name.
        conditions: All of these tracks, by their other settings and then by learning rate.
        recipes: Methods that a study runs on one that varies it, in order.
    """

    base: str
    conditions: tuple[Condition, ...]
    recipes: tuple[str, ...]

    @property
    def shown(self) -> tuple[str, ...]:
        """Methods with a finished run on a track that varies the base."""
        varied = [each for each in self.conditions if each.results.track != self.base]
        return tuple(
            recipe for recipe in self.recipes if any(each.runs_of(recipe) for each in varied)
        )

    def over_all(self, recipe: str) -> Sides | None:
        """Success of a method over all conditions, on each panel; None where one has no run of it.

        Conditions play the same episodes, so that an episode's plays are those under all of them,
        and a seed's success is its mean. Seeds count that are finished under all.
        """
        runs = [each.runs_of(recipe) for each in self.conditions]
        methods = [each for each in runs if each is not None]
        common = set.intersection(*({run.cell.seed for run in each.runs} for each in methods))
        if len(methods) < len(runs) or not common:
            return None
        plays = {
            seed: [
                played
                for method in methods
                for run, played in zip(method.runs, method.plays, strict=True)
                if run.cell.seed == seed
            ]
            for seed in sorted(common)
        }
        return tuple(
            _pooled([[each[panel] for each in own] for own in plays.values()])
            for panel in self.conditions[0].results.panels
        )


def sweeps_of(
    found: Mapping[str, TrackResults], current_tracks: Mapping[str, CurrentTrack]
) -> tuple[Sweep, ...]:
    """The sweeps of a study with a finished run on a track that varies another one.

    Args:
        found: What is finished, by track.
        current_tracks: The tracks.
    """
    there = {name: each for name, each in current_tracks.items() if name in found}
    sweeps = (_sweep(tracks, found) for tracks in sweeps_over_rates(there).values())
    return tuple(sweep for sweep in sweeps if sweep.shown)


def _sweep(tracks: Sequence[Track], found: Mapping[str, TrackResults]) -> Sweep:
    base, *varying = tracks
    settings = [flat(track.settings) for track in tracks]
    varied = [name for name in settings[0] if len({_text(each[name]) for each in settings}) > 1]
    conditions = [
        Condition(
            found[track.name],
            track.learning_rate.rates[0],
            ", ".join(f"{name} {_text(each[name])}" for name in varied),
        )
        for track, each in zip(tracks, settings, strict=True)
    ]
    planned = (found[track.name].methods for track in varying)
    return Sweep(
        base.name,
        tuple(sorted(conditions, key=lambda each: (each.others, each.rate))),
        tuple(dict.fromkeys(recipe for methods in planned for recipe in methods)),
    )


def write_robustness(sweeps: Sequence[Sweep], results: Path) -> Path:
    """Write the page and a figure for each sweep into a folder of results.

    Args:
        sweeps: At least one.
        results: The folder.

    Returns:
        The page.

    Raises:
        UserError: A file cannot be written.
    """
    try:
        for sweep in sweeps:
            write_atomically(results / FIGURE.format(base=sweep.base), robustness_figure(sweep))
        write_atomically(results / PAGE, robustness_page(sweeps).encode())
    except OSError as error:
        raise UserError(f"{error.filename} cannot be written: {error.strerror}") from error
    return results / PAGE


def robustness_page(sweeps: Sequence[Sweep]) -> str:
    """The page, as Markdown."""
    environment = Environment(undefined=StrictUndefined, autoescape=False)  # noqa: S701 - Markdown
    return environment.from_string(TEMPLATE.read_text("utf-8")).render(
        sweeps=[
            {
                "base": sweep.base,
                "figure": FIGURE.format(base=sweep.base),
                "table": _table(sweep),
                "init": _init(sweep),
                "missing": list(_missing(sweep)),
            }
            for sweep in sweeps
        ]
    )


def robustness_figure(sweep: Sweep) -> bytes:
    """Success over the learning rate, a plot for each choice of the other settings, as SVG."""
    groups: dict[str, list[Condition]] = {}
    for condition in sweep.conditions:
        groups.setdefault(condition.others, []).append(condition)
    recipes = sweep.shown
    looks = dict(zip(recipes, looks_of(recipes), strict=True))
    with plot_style():
        size = (_WIDTH * len(groups), _HEIGHT + 0.5)
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        plots = figure.subplots(1, len(groups), squeeze=False, sharey=True).flatten().tolist()
        for axes, (others, conditions) in zip(plots, groups.items(), strict=True):
            axes.set_title(others or sweep.base, loc="left", fontsize=9.5, fontweight="bold")
            _draw(axes, conditions, looks)
        handles = [
            Line2D([], [], color=look.color, linestyle=look.dashes, linewidth=2)
            for look in looks.values()
        ]
        handles.append(Line2D([], [], color=SOFT, marker="X", linestyle="", mec="white"))
        handles.append(Line2D([], [], color=SOFT, linestyle=":"))
        labels = [*looks, "a seed collapsed", "init"]
        figure.legend(handles, labels, loc="outside lower left", ncols=len(labels))
        file = io.BytesIO()
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": "arlarena-bench"})
    return file.getvalue()


def _draw(axes: Axes, conditions: Sequence[Condition], looks: Mapping[str, Look]) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator([each.rate for each in conditions]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda rate, _: f"{rate:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("learning rate")
    axes.set_ylim(-0.02, 1.02)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.grid(axis="y")
    axes.set_axisbelow(True)
    init = conditions[0].results.init_sides(conditions[0].results.panels)
    if init is not None:
        axes.axhline(with_seeds(init).value, color=SOFT, linestyle=":", linewidth=1.2)
    for number, (recipe, look) in enumerate(looks.items()):
        shift = _APART ** (number - (len(looks) - 1) / 2)
        there = [(each, method) for each in conditions if (method := each.runs_of(recipe))]
        sides = [method.sides(each.results.panels) for each, method in there]
        found = [with_seeds(side) for side in sides if side is not None]
        rates = [each.rate * shift for each, _ in there]
        axes.errorbar(
            rates,
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
        for rate, each, (_, method) in zip(rates, found, there, strict=True):
            if method.collapsed:
                axes.plot(
                    rate, each.value, "X", ms=8, mfc=look.color, mec="white", mew=0.9, zorder=6
                )


def _table(sweep: Sweep) -> str:
    rows = []
    for recipe in sweep.shown:
        methods = [each.runs_of(recipe) for each in sweep.conditions]
        there = [method for method in methods if method is not None]
        collapsed = sum(len(method.collapsed) for method in there)
        runs = sum(len(method.runs) for method in there)
        over_all = sweep.over_all(recipe)
        rows.append(
            [
                recipe,
                NOTHING if over_all is None else rate_digits(with_seeds(over_all)),
                f"{collapsed} of {runs}",
                *map(_cell, sweep.conditions, methods),
            ]
        )
    head = ("recipe", "mean over all", "collapsed", *(each.text for each in sweep.conditions))
    return markdown_table(head, rows)


def _cell(condition: Condition, method: RecipeRuns | None) -> str:
    sides = None if method is None else method.sides(condition.results.panels)
    if method is None or sides is None:
        return NOTHING
    success = rate_digits(with_seeds(sides))
    return f"{success}<br>{len(method.collapsed)} of {len(method.runs)} collapsed"


def _init(sweep: Sweep) -> str:
    results = sweep.conditions[0].results
    sides = results.init_sides(results.panels)
    return NOTHING if sides is None else rate_digits(with_seeds(sides))


def _missing(sweep: Sweep) -> Iterator[str]:
    for recipe in sweep.recipes:
        lacking = [
            f"{each.results.track} (seed {', '.join(map(str, method.missing))})"
            for each in sweep.conditions
            if (method := each.results.methods.get(recipe)) is not None and method.missing
        ]
        if lacking:
            yield f"{recipe}: {', '.join(lacking)}"


def _pooled(plays: Sequence[Sequence[Mapping[str, bool]]]) -> Side:
    """Plays of one panel under all conditions, of each seed."""
    seeds = [statistics.fmean(map(float, _values(own))) for own in plays]
    every = [each for own in plays for each in own]
    return Side.of([[each[episode] for each in every] for episode in sorted(every[0])], seeds)


def _values(plays: Sequence[Mapping[str, bool]]) -> Iterator[bool]:
    for each in plays:
        yield from each.values()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else canonical_json(value)
