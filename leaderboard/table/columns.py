"""Definitions of all board columns: name, title, unit, text, and value.

A new column is one entry of `COLUMNS`: the page, its tooltips, the column selection and the CSV
file read it from there. A column has one unit.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from benchmark.stability.definitions import DEFINITIONS, Better
from benchmark.stats.dependable import LEAST_SEEDS
from benchmark.stats.intervals import Interval
from benchmark.stats.paired import mean_success
from leaderboard.board.protocols import PanelFacts
from leaderboard.board.rows import BoardRow, PanelKey, PanelNumbers
from leaderboard.board.training_rows import EventCount
from leaderboard.table.paired import side_of
from leaderboard.table.ranks import Rank
from leaderboard.table.view import badges_of, init_of

Group = Literal["entry", "success", "stability", "recipe", "proof"]
Value = str | float | int | None

STABILITY: Final = ("collapse_rate", "worst_seed", "max_drawdown", "retention", "mismatch_p95")
"""Names of the stability columns in `DEFINITIONS`: those of `RecipeStability.columns`."""
MEDIANS: Final = ("max_drawdown", "retention", "mismatch_p95")
"""Those of them that are medians over the seeds."""
NOISE: Final = {"mismatch_p95": 1e-9, "foreign_mismatch_p95": 1e-9}
"""Thresholds by column, in its unit, below which values only reflect how sums were rounded."""
SUCCESS: Final = "success"
"""Name of the column with the mean over the chosen panels."""
RANK: Final = "rank"
DEPENDABLE: Final = "dependable"
"""Name of the column with `benchmark.stats.dependable`, the mean over the chosen panels."""
_VALIDATED: Final = "measured on the panel that the training run was validated on"
_WHILE_TRAINING: Final = "measured while training updated the weights"


@dataclass(frozen=True, slots=True)
class Line:
    """An entry in a table.

    Attributes:
        row: The entry.
        panels: Panels whose success the table shows.
        rank: Its rank on them; None if it has none.
    """

    row: BoardRow
    panels: Sequence[PanelKey]
    rank: Rank | None

    @property
    def played(self) -> list[PanelNumbers]:
        """Its numbers on the panels that it has played."""
        return [numbers for key in self.panels if (numbers := self.row.panel(key)) is not None]

    @property
    def collapse(self) -> EventCount | None:
        """How many of its training runs collapsed; None if no log shows it."""
        events = self.row.stability.events if self.row.stability else ()
        found = (event for event in events if event.name == "collapse" and event.known)
        return next(found, None)

    @property
    def unknown(self) -> int:
        """Number of seeds for which collapse is unknown although other seeds' logs show it.

        With too few validations, only a collapse shows: the known seeds then say nothing about the
        share of collapses.
        """
        event, stability = self.collapse, self.row.stability
        return len(stability.seeds) - event.known if event and stability else 0

    @property
    def unjudged(self) -> str:
        """Why it is unknown how many collapsed, and how many halved."""
        why = self.row.stability.unjudged if self.row.stability else "no logs"
        return why + (f", {self.halved} halved" if self.halved else "")

    @property
    def halved(self) -> int:
        """How many of the others ended at half of their best; 0 if unknown."""
        return len((self.row.stability.halved or ()) if self.row.stability else ())


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the table.

    Attributes:
        name: Its name in the frame, in links and in the CSV file.
        title: Its title on the page; unique among the columns of a table.
        unit: Unit of its values in the frame; empty for a text.
        text: Its meaning, for readers.
        value: Returns its value for an entry; None if unknown.
        better: Which values are better; None if neither.
        group: Its subject.
        usual: Whether the page shows it by default.
        beside: Additional numbers: the frame has them as `<name>:<first item>`, in the unit given
            second, or in the column's own unit if that is empty.
    """

    name: str
    title: str
    unit: str
    text: str
    value: Callable[[Line], Value]
    better: Better | None = None
    group: Group = "entry"
    usual: bool = False
    beside: tuple[tuple[str, str, Callable[[Line], Value]], ...] = ()

    @property
    def interval(self) -> bool:
        """Whether the frame also has the ends of its interval."""
        return self.beside[:1] != () and self.beside[0][0] == "low"

    @property
    def is_success(self) -> bool:
        """Whether it is a success rate with its interval, which is always shown as a picture."""
        return self.interval and self.name != DEPENDABLE

    @property
    def names(self) -> tuple[str, ...]:
        """Its own name in the frame, and those of its additional numbers."""
        return self.name, *(f"{self.name}:{suffix}" for suffix, _, _ in self.beside)

    def cells(self, line: Line) -> dict[str, Value]:
        """An entry's values in the frame, by `names`."""
        values = [self.value(line), *(value(line) for _, _, value in self.beside)]
        return dict(zip(self.names, values, strict=True))


def is_noise(name: str, values: Iterable[float]) -> bool:
    """Whether all values of a column are below `NOISE`."""
    return name in NOISE and all(abs(value) < NOISE[name] for value in values)


def success_of(row: BoardRow, panels: Sequence[PanelKey]) -> Interval | None:
    """Mean success over panels with its interval over episodes and, if several, seeds.

    None unless all panels were played.
    """
    played = [numbers for key in panels if (numbers := row.panel(key)) is not None]
    if not played or len(played) < len(panels):
        return None
    return mean_success(list(map(side_of, played)))


def dependable_of(row: BoardRow, panels: Sequence[PanelKey]) -> Interval | None:
    """Mean dependable success over panels; None unless it is known for all of them.

    The ends are means, too: all panels have the same seeds and collapses, so their uncertainties
    are shared.
    """
    played = [numbers for key in panels if (numbers := row.panel(key)) is not None]
    known = [numbers.dependable for numbers in played if numbers.dependable is not None]
    if not known or len(known) < len(panels):
        return None
    value, low, high = (
        math.fsum(ends) / len(known)
        for ends in zip(*((each.value, each.low, each.high) for each in known), strict=True)
    )
    return Interval(value, low, high)


def worst_of(row: BoardRow, panels: Sequence[PanelKey]) -> float | None:
    """Worst seed's mean success over panels; None for a single seed."""
    played = [numbers for key in panels if (numbers := row.panel(key)) is not None]
    seeds = [{each.seed: each.success for each in numbers.seeds} for numbers in played]
    if not seeds or len(played) < len(panels) or len(seeds[0]) < LEAST_SEEDS:
        return None
    return min(sum(each[seed] for each in seeds) / len(seeds) for seed in seeds[0])


def _dependable(part: str, line: Line) -> Value:
    found = dependable_of(line.row, line.panels)
    return None if found is None else float(getattr(found, part))


def _success(part: str, panels: Sequence[PanelKey] | None, line: Line) -> Value:
    found = success_of(line.row, line.panels if panels is None else panels)
    return None if found is None else float(getattr(found, part))


def _success_column(
    name: str, title: str, text: str, panels: Sequence[PanelKey] | None = None
) -> Column:
    value, low, high = (partial(_success, part, panels) for part in ("value", "low", "high"))
    ends = (("low", "", low), ("high", "", high))
    return Column(name, title, "share", text, value, "higher", "success", True, ends)


def _halved(line: Line) -> Value:
    stability = line.row.stability
    return None if stability is None or stability.halved is None else len(stability.halved)


def _stability(name: str) -> Column:
    what = DEFINITIONS[name]
    middle = ", median of the seeds" if name in MEDIANS else ""
    where = _WHILE_TRAINING if name == "mismatch_p95" else _VALIDATED
    text = f"{what.text}{middle} ({what.source}); {where}, regardless of the panels shown"
    beside: tuple[tuple[str, str, Callable[[Line], Value]], ...] = ()
    if name == "collapse_rate":
        beside = (
            ("happened", "seeds", lambda line: line.collapse.happened if line.collapse else None),
            ("known", "seeds", lambda line: line.collapse.known if line.collapse else None),
            ("unknown", "seeds", lambda line: line.unknown if line.collapse else None),
            ("halved", "seeds", _halved),
        )

    def value(line: Line) -> Value:
        known = name != "collapse_rate" or not line.unknown
        return line.row.stability_column(name) if known else None

    return Column(name, what.name, what.unit, text, value, what.better, "stability", True, beside)


def _foreign(name: str) -> Column:
    what = DEFINITIONS[name]
    text = f"{what.text}; from logs of another trainer, on a panel that they do not name"

    def value(line: Line) -> Value:
        return line.row.foreign_column(name)

    title = f"{what.name} (foreign logs)"
    return Column(f"foreign_{name}", title, what.unit, text, value, what.better, "stability")


def _format_valid(line: Line) -> Value:
    played = line.played
    if len(played) < len(line.panels) or not played:
        return None
    return sum(numbers.format_valid for numbers in played) / len(played)


COLUMNS: Final = (
    Column(RANK, "rank", "place", "range of ranks consistent with the data, within the entry's "
           "track: behind all entries that are significantly better, ahead of all that are "
           "significantly worse. Reference policies have none",
           lambda line: line.rank.first if line.rank else None, "lower", usual=True,
           beside=(("last", "", lambda line: line.rank.last if line.rank else None),)),
    Column("name", "entry", "", "the name its authors gave it", lambda line: line.row.name,
           usual=True),
    Column("kind", "kind", "", "policy: a program without weights; init: a starting checkpoint, "
           "untrained here; trained: trained from an init", lambda line: line.row.kind),
    Column("recipe", "recipe", "", "name of the method", lambda line: line.row.recipe),
    Column("track", "track", "", "fixes everything about the training except the method; open: on "
           "no track. Entries are ranked within their track", lambda line: line.row.track,
           usual=True),
    Column("base_model", "base model", "", "the pretrained model",
           lambda line: line.row.base_model),
    Column("parameters", "size", "parameters", "number of weights, as declared; checked for "
           "registered inits", lambda line: line.row.parameters),
    Column("init", "init", "", "checkpoint that training started from",
           lambda line: init_of(line.row), usual=True),
    Column(DEPENDABLE, "dependable success", "share", "success to expect of one more training run, "
           "with its 95% CI: mean over the seeds, where a seed that collapsed counts as 0; needs "
           "two seeds (benchmark/stats/dependable.py)", partial(_dependable, "value"), "higher",
           "stability", True, (("low", "", partial(_dependable, "low")),
                               ("high", "", partial(_dependable, "high")))),
    *map(_stability, STABILITY),
    *map(_foreign, STABILITY),
    Column("advantage", "advantage", "", "how advantages are computed",
           lambda line: line.row.choices.advantage, group="recipe"),
    Column("clipping", "clipping", "", "how the importance ratio is computed and clipped",
           lambda line: line.row.choices.clipping, group="recipe"),
    Column("aggregation", "aggregation", "", "how token losses are combined into one",
           lambda line: line.row.choices.aggregation, group="recipe"),
    Column("sampling", "sampling", "", "which episodes an update learns from",
           lambda line: line.row.choices.sampling, group="recipe"),
    Column("setting", "setting", "", "episodes, updates, epochs and KL penalty of the training run",
           lambda line: line.row.choices.setting, group="recipe"),
    Column("seeds", "seeds", "count", "checkpoints that were evaluated",
           lambda line: len(line.row.checkpoints)),
    Column("format_valid", "valid format", "share", "responses in the required format, mean over "
           "the panels shown", _format_valid, "higher", "success"),
    Column("errors", "errors", "count", "episodes that crashed, on the panels shown (counted as "
           "failures)", lambda line: sum(numbers.errors for numbers in line.played), "lower",
           "success"),
    Column("badges", "badges", "", "what was verified about the entry, and how",
           lambda line: ", ".join(badges_of(line.row)) or None, group="proof", usual=True),
    Column("date", "date", "", "date of the submission, as declared",
           lambda line: line.row.date),
    Column("authors", "authors", "", "who submitted it", lambda line: ", ".join(line.row.authors)),
    Column("code", "code", "", "link to the code", lambda line: line.row.code),
    Column("paper", "paper", "", "link to the paper", lambda line: line.row.paper),
)  # fmt: skip
"""Every column but those of success, in the order of the table; success comes after `init`."""


def panel_name(panel: PanelFacts) -> str:
    """The name of a panel's column."""
    return f"{panel.task}/{panel.panel}"


def columns_of(panels: Iterable[PanelFacts]) -> tuple[Column, ...]:
    """All columns of a table over some panels, in order.

    Args:
        panels: At least one. If there are several, the mean has its own column.
    """
    chosen = list(panels)
    success = [
        _success_column(
            panel_name(panel),
            f"{panel.title} ({panel.panel})",
            f"success on the {len(panel.episodes)} episodes of {panel_name(panel)}, mean over "
            "checkpoints; 95% CI over episodes and, of several checkpoints, seeds: what another "
            "panel and other seeds would have given",
            [panel.key],
        )
        for panel in chosen
    ]
    if len(chosen) > 1:
        success.insert(0, mean_column(chosen))
    place = next(n for n, column in enumerate(COLUMNS) if column.group == "stability")
    return (*COLUMNS[:place], *success, *COLUMNS[place:])


def mean_column(panels: Sequence[PanelFacts]) -> Column:
    """Mean success over some panels."""
    names = ", ".join(map(panel_name, panels))
    text = (
        f"unweighted mean success over {names}, for entries evaluated on all of them; success "
        "rates only, never scores"
    )
    return _success_column(SUCCESS, "mean success", text)
