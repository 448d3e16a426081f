"""The board as read by an app, without checking or recomputing anything at startup.

    board = load(Path("leaderboard.parquet"))
    board.protocols                   # all protocols, the standard one first: one table each
    board.rows()                      # the entries of the first, without curves and episodes
    board.row("20270102_grpo")        # one of them; None if there is no such entry
    board.curves(row)                 # its training curves
    board.solved(row, key)            # solved plays of every episode of a panel
    panel_sets(board.protocols[0])    # the built-in panels and the field's, one per task

`rows.py` and `training_rows.py` define a row, `protocols.py` the facts besides the rows, `file.py`
the files themselves. `leaderboard/table/` builds on this:

- `table.py`: the table of a view (panels, filters, order) as a pandas frame;
- `columns.py`: meaning and unit of every column and curve, and which values are better;
- `cells.py`: numbers and texts for display, and CSV;
- `paired.py`: two entries on the same episodes; `ranks.py`: ties and ranks.

`published.py` has the paper's published results, which are not entries and have no rank.

None of these imports gradio, torch or a task. A row names its protocol, so functions that take a
row need no separate protocol.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from leaderboard.board.arrow import from_plain
from leaderboard.board.file import BoardContent, full_rows, read_table
from leaderboard.board.protocols import BoardFacts, PanelFacts, Protocol, Refused
from leaderboard.board.rows import BoardRow, PanelKey
from leaderboard.board.training_rows import SeedCurves

Counts = npt.NDArray[np.int64]

BUILT_IN = "built-in panels"
FIELD = "field panels"


@dataclass(frozen=True, eq=False)
class Board:
    """A board read from a file; it is immutable and hashable.

    Attributes:
        facts: The file's facts besides its entries.
    """

    facts: BoardFacts
    _table: pa.Table = field(repr=False)

    @property
    def protocols(self) -> tuple[Protocol, ...]:
        """All protocols, at least one, with the current standard one first."""
        return self.facts.protocols

    @property
    def refused(self) -> tuple[Refused, ...]:
        """Submissions that were not accepted when the board was built."""
        return self.facts.refused

    def protocol(self, name: str | None = None) -> Protocol | None:
        """A protocol by name, by default the first; None if there is no such protocol."""
        if name is None:
            return self.protocols[0]
        return next((each for each in self.protocols if each.name == name), None)

    def rows(self, protocol: str | None = None) -> tuple[BoardRow, ...]:
        """The entries of a protocol, by default the first, sorted by id."""
        return self._rows.get(protocol or self.protocols[0].name, ())

    def row(self, entry: str, protocol: str | None = None) -> BoardRow | None:
        """One entry by its id; None if the protocol has no such entry."""
        name = protocol or self.protocols[0].name
        place = self._places.get((name, entry))
        return None if place is None else self._all[place]

    def panel(self, row: BoardRow, key: PanelKey) -> PanelFacts | None:
        """Facts about a panel under the protocol of a row."""
        protocol = self.protocol(row.protocol)
        return protocol.panel(key) if protocol else None

    def curves(self, row: BoardRow) -> tuple[SeedCurves, ...]:
        """The training curves of an entry, by seed; empty without training logs."""
        if "curves" not in self._table.column_names:
            return ()
        found = self._table["curves"][self._place(row)].as_py()
        return tuple(from_plain(SeedCurves, each) for each in found)

    def solved(self, row: BoardRow, key: PanelKey) -> Counts | None:
        """Solved plays of every episode of a panel, in the order of `PanelFacts.episodes`.

        Returns:
            (k,), each between 0 and `PanelNumbers.plays`; read-only. None if it was not played.
        """
        return self._solved.get((row.protocol, row.id, *key))

    @property
    def content(self) -> BoardContent:
        """The whole content of the file."""
        return BoardContent(self.facts, full_rows(self._table))

    def _place(self, row: BoardRow) -> int:
        return self._places[row.protocol, row.id]

    @cached_property
    def _all(self) -> tuple[BoardRow, ...]:
        known = [each.name for each in fields(BoardRow)]
        light = self._table.select([name for name in known if name in self._table.column_names])
        return tuple(from_plain(BoardRow, line) for line in light.to_pylist())

    @cached_property
    def _places(self) -> Mapping[tuple[str, str], int]:
        return {(row.protocol, row.id): place for place, row in enumerate(self._all)}

    @cached_property
    def _rows(self) -> Mapping[str, tuple[BoardRow, ...]]:
        names = [protocol.name for protocol in self.protocols]
        return {name: tuple(row for row in self._all if row.protocol == name) for name in names}

    @cached_property
    def _solved(self) -> Mapping[tuple[str, str, str, str], Counts]:
        """All outcomes, as views into the file's memory."""
        if "outcomes" not in self._table.column_names:
            return {}
        column = self._table["outcomes"].combine_chunks()
        outcomes = column.flatten()
        solved = outcomes.field("solved")
        values = solved.flatten().to_numpy()
        ends = np.cumsum(pc.list_value_length(solved).to_numpy(zero_copy_only=False))
        found = {}
        owners = pc.list_parent_indices(column).to_pylist()
        tasks, panels = outcomes.field("task").to_pylist(), outcomes.field("panel").to_pylist()
        for place, owner in enumerate(owners):
            row = self._all[owner]
            start = ends[place - 1] if place else 0
            found[row.protocol, row.id, tasks[place], panels[place]] = values[start : ends[place]]
        return found


def load(path: Path) -> Board:
    """Read a board.

    Args:
        path: Its Parquet file.

    Raises:
        UserError: It is missing, not a board, or has another version.
    """
    facts, table = read_table(path)
    return Board(facts, table)


def panel_sets(protocol: Protocol) -> Mapping[str, tuple[PanelKey, ...]]:
    """The sets of panels over which means are taken: one panel per task, by the set's name.

    `BUILT_IN` needs no download, `FIELD` is the panels that the field reports (for a task without
    such data, the built-in panel). A set contains only tasks with played panels, and empty sets are
    left out.
    """
    built_in = tuple(panel.key for panel in protocol.panels if panel.panel == "builtin")
    field_panels = tuple(panel.key for panel in protocol.panels if panel.field)
    return {name: keys for name, keys in ((BUILT_IN, built_in), (FIELD, field_panels)) if keys}
