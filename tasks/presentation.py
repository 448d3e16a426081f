"""How reports, the leaderboard and `play` show a task."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Tile:
    """How one symbol of a drawn observation looks in the report.

    Attributes:
        kind: Name for people and screen readers ("box on a target").
        fill: Background color of the cell.
        glyph: Shape on it: "", "box", "player", "dot" or a combination such as "dot box".
    """

    kind: str
    fill: str
    glyph: str = ""


@dataclass(frozen=True, slots=True)
class Presentation:
    """How a task is shown. Nothing here moves a number.

    Attributes:
        title: The task's name for people.
        summary: What is to be done, in one line.
        score_name: What the score measures.
        score_unit: Its unit; scores of different units are never averaged together.
        category_name: What entries are grouped by in results.
        tiles: Symbols of grid observations and how the report draws them; empty for texts.
        keys: Single keys that stand for actions when a person plays.
        typing: What a person who plays types into a line.
    """

    title: str
    summary: str
    score_name: str = "reward"
    score_unit: str = "points"
    category_name: str = "category"
    tiles: Mapping[str, Tile] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
    typing: str = "type an action"
