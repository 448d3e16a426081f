"""What every column and every curve of the board is: name, title, unit and one line of text.

The one table that the page, its tooltips and the CSV file explain from. A column has one unit.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from benchmark.stability.definitions import DEFINITIONS, Better
from leaderboard.board.protocols import PanelFacts

Group = Literal["entry", "success", "stability", "recipe", "proof"]

STABILITY: Final = ("collapse_rate", "worst_seed", "max_drawdown", "retention", "mismatch_p95")
"""Names of the columns of stability, in `DEFINITIONS`: those of `RecipeStability.columns`."""
MEDIANS: Final = ("max_drawdown", "retention", "mismatch_p95")
"""Those of them that are a median over the seeds."""
_VALIDATED: Final = "measured on the panel that the training was validated on"
_WHILE_TRAINING: Final = "measured while the training updated its weights"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the table.

    Attributes:
        name: In the frame, in links and in the CSV file.
        title: What the page calls it; unique among the columns of a table.
        unit: Unit of its values in the frame; empty for a text.
        text: What it says, for people.
        better: Which values are better; None where neither is.
        group: What it is about.
        interval: The frame has its ends, too: `<name>:low` and `<name>:high`.
    """

    name: str
    title: str
    unit: str
    text: str
    better: Better | None = None
    group: Group = "entry"
    interval: bool = False


SUCCESS: Final = "success"
"""Name of the column with the mean over the chosen panels."""
RANK: Final = "rank"

_LAST: Final = (
    Column("advantage", "advantage", "", "how advantages are computed", group="recipe"),
    Column("clipping", "clipping", "", "importance sampling and its limits", group="recipe"),
    Column("aggregation", "aggregation", "", "how token losses become one", group="recipe"),
    Column("sampling", "sampling", "", "which episodes an update learns from", group="recipe"),
    Column("setting", "setting", "", "episodes, updates, epochs and KL penalty of the training",
           group="recipe"),
    Column("seeds", "seeds", "count", "checkpoints that were evaluated"),
    Column("format_valid", "valid format", "share",
           "responses that keep the contract, mean over the chosen panels", "higher", "success"),
    Column("errors", "errors", "count",
           "plays that ended in an error, on the chosen panels; they count as failures", "lower",
           "success"),
    Column("badges", "badges", "", "what is proven of the entry, and by what", group="proof"),
    Column("date", "date", "", "day of the submission, as its authors say"),
    Column("authors", "authors", "", "who has sent it"),
    Column("code", "code", "", "where the code is"),
    Column("paper", "paper", "", "where the paper is"),
)  # fmt: skip

_FIRST: Final = (
    Column(RANK, "rank", "place", "places that noise leaves open to the entry in its track: behind "
           "all that are surely better, before all that are surely worse. Policies have none",
           "lower"),
    Column("name", "entry", "", "what its authors call it"),
    Column("kind", "kind", "", "policy: a program without weights; init: a starting checkpoint as "
           "it is; trained: what training made of one"),
    Column("recipe", "recipe", "", "name of the method"),
    Column("track", "track", "", "what pins everything of the training but the method; open: on "
           "none. Entries of one track are ranked among each other"),
    Column("base_model", "base model", "", "what the weights were before anything of this"),
    Column("parameters", "size", "parameters", "number of weights, as its authors say; "
           "checked where they come from a registered init"),
    Column("init", "init", "", "what training started from"),
)  # fmt: skip


def panel_name(panel: PanelFacts) -> str:
    """The name of a panel's column."""
    return f"{panel.task}/{panel.panel}"


def columns_of(panels: Iterable[PanelFacts]) -> tuple[Column, ...]:
    """All columns of a table over some panels, in order.

    Args:
        panels: At least one. The mean has a column of its own where there are several.
    """
    chosen = list(panels)
    single = [
        Column(
            name=panel_name(panel),
            title=f"{panel.title} ({panel.panel})",
            unit="share",
            text=f"success on the {len(panel.episodes)} episodes of {panel_name(panel)}, mean over "
            "checkpoints, with the 95 % interval over episodes: it says which levels the panel "
            "happens to have, not which seeds training happened to have",
            better="higher",
            group="success",
            interval=True,
        )
        for panel in chosen
    ]
    mean = Column(
        name=SUCCESS,
        title="mean success",
        unit="share",
        text=f"unweighted mean success over {', '.join(map(panel_name, chosen))}, of entries that "
        "have played all of them; success rates alone, never scores",
        better="higher",
        group="success",
        interval=True,
    )
    return (*_FIRST, *([mean] if len(chosen) > 1 else []), *single, *_stability(), *_LAST)


def _stability() -> list[Column]:
    columns = []
    for name in STABILITY:
        what = DEFINITIONS[name]
        middle = ", median of the seeds" if name in MEDIANS else ""
        where = _WHILE_TRAINING if name == "mismatch_p95" else _VALIDATED
        text = f"{what.text}{middle} ({what.source}); {where}, whatever panels are chosen"
        columns.append(Column(name, what.name, what.unit, text, what.better, "stability"))
    return columns
