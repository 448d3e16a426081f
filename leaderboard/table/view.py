"""A view of the board: protocol, panels, filters, order."""

from dataclasses import dataclass
from typing import Final

from leaderboard.board.board import BUILT_IN, Board, panel_sets
from leaderboard.board.protocols import PanelFacts
from leaderboard.board.rows import BoardRow, PanelKey
from leaderboard.table.ranks import RANKED
from tasks.errors import UserError, suggestion

BADGES: Final = (
    "replayed",
    "stability: logs",
    "stability: foreign logs",
    "init: fixed",
    "init: open",
    "re-run",
    "first updates trained again",
    "rerun failed",
)
"""All badges that can be filtered by."""


@dataclass(frozen=True, slots=True)
class BoardView:
    """One view of the board; empty fields and None do not restrict it.

    Attributes:
        protocol: Name of the protocol.
        panels: Panels, at most one per task.
        search: Words that must all occur in an entry's texts, ignoring case.
        kinds: Kinds of entries: `policy`, `init`, `trained`.
        bases: Base models.
        inits: Names of inits; an entry of kind `init` counts as its own.
        badges: Badges that an entry must all have, from `BADGES`.
        track: Name of the only track shown.
        least_parameters: Minimum number of weights; excludes entries without one, as does the next.
        most_parameters: Maximum number of weights.
        sort: Name of the sort column.
        reverse: Whether the worst comes first, or texts are in reverse; unknown values stay last.
    """

    protocol: str
    panels: tuple[PanelKey, ...]
    search: str = ""
    kinds: tuple[str, ...] = ()
    bases: tuple[str, ...] = ()
    inits: tuple[str, ...] = ()
    badges: tuple[str, ...] = ()
    track: str = ""
    least_parameters: int | None = None
    most_parameters: int | None = None
    sort: str = "success"
    reverse: bool = False


@dataclass(frozen=True, slots=True)
class Options:
    """The available filter values, each used by some entry, in the order of the page.

    Attributes:
        kinds: For `View.kinds`.
        bases: For `View.bases`.
        inits: For `View.inits`.
        badges: For `View.badges`.
        tracks: For `View.track`.
        parameters: Minimum and maximum number of weights over all entries; None if there are none.
    """

    kinds: tuple[str, ...]
    bases: tuple[str, ...]
    inits: tuple[str, ...]
    badges: tuple[str, ...]
    tracks: tuple[str, ...]
    parameters: tuple[int, int] | None


def default_view(board: Board, protocol: str | None = None) -> BoardView:
    """The view that a visitor sees first.

    It has the built-in panels if a ranked entry has played all of them, so that there are means to
    sort by. Otherwise it has the one panel that most entries have played.

    Args:
        board: The board.
        protocol: Name of the protocol; the newest by default.

    Returns:
        The view. It has no panels, and its table no entries, only if no panel was played.

    Raises:
        UserError: There is no such protocol; the message names close matches.
    """
    found = board.protocol(protocol)
    if found is None:
        names = tuple(each.name for each in board.protocols)
        raise UserError(f"there is no protocol {protocol!r}{suggestion(str(protocol), names)}")
    sets = panel_sets(found)
    rows = board.rows(found.name)
    built_in = sets.get(BUILT_IN, ())
    if any(row.kind in RANKED and all(map(row.panel, built_in)) for row in rows if built_in):
        return BoardView(found.name, built_in)
    counts = {
        panel.key: sum(row.panel(panel.key) is not None for row in rows) for panel in found.panels
    }
    most = max(counts, key=counts.__getitem__, default=None)
    return BoardView(found.name, () if most is None else (most,))


def options(board: Board, protocol: str | None = None) -> Options:
    """The available filter values for the entries of a protocol."""
    rows = board.rows(protocol)
    sizes = [row.parameters for row in rows if row.parameters is not None]
    badges = {badge for row in rows for badge in badges_of(row)}
    return Options(
        kinds=tuple(sorted({row.kind for row in rows})),
        bases=tuple(sorted({row.base_model for row in rows if row.base_model})),
        inits=tuple(sorted({name for row in rows if (name := init_of(row))})),
        badges=tuple(badge for badge in BADGES if badge in badges),
        tracks=tuple(sorted({row.track for row in rows})),
        parameters=(min(sizes), max(sizes)) if sizes else None,
    )


def panels_of(board: Board, view: BoardView) -> tuple[PanelFacts, ...]:
    """Facts about the panels of a view, in its order.

    Raises:
        UserError: The protocol or a panel is unknown, or two panels belong to the same task, which
            a mean over them would count twice.
    """
    protocol = board.protocol(view.protocol)
    if protocol is None:
        names = tuple(each.name for each in board.protocols)
        raise UserError(f"there is no protocol {view.protocol!r}{suggestion(view.protocol, names)}")
    found: dict[str, PanelFacts] = {}
    for key in view.panels:
        panel = protocol.panel(key)
        name = "/".join(key)
        if panel is None:
            names = tuple(f"{each.task}/{each.panel}" for each in protocol.panels)
            raise UserError(
                f"no entry has played {name} under {protocol.name}{suggestion(name, names)}"
            )
        if panel.task in found:
            raise UserError(f"{name}: choose one panel of {panel.task}")
        found[panel.task] = panel
    return tuple(found.values())


def wanted(row: BoardRow, view: BoardView) -> bool:
    """Whether an entry is in a view: it has played one of its panels and passes its filters."""
    if not any(row.panel(key) for key in view.panels):
        return False
    if view.kinds and row.kind not in view.kinds:
        return False
    if view.bases and row.base_model not in view.bases:
        return False
    if view.inits and init_of(row) not in view.inits:
        return False
    if view.track and row.track != view.track:
        return False
    if not set(view.badges) <= set(badges_of(row)):
        return False
    least, most = view.least_parameters, view.most_parameters
    if (least is not None or most is not None) and row.parameters is None:
        return False
    size = row.parameters or 0
    if (least is not None and size < least) or (most is not None and size > most):
        return False
    return _matches(row, view.search)


def _matches(row: BoardRow, search: str) -> bool:
    texts = (
        row.id,
        row.name,
        row.kind,
        row.recipe,
        row.base_model,
        init_of(row),
        *row.authors,
        *(point.model.name for point in row.checkpoints),
    )
    within = "\n".join(each.casefold() for each in texts if each)
    return all(word in within for word in search.casefold().split())


def badges_of(row: BoardRow) -> tuple[str, ...]:
    """An entry's badges, by the names in `BADGES`."""
    badges = row.badges
    has = (
        badges.replayed,
        badges.stability == "logs",
        badges.stability == "foreign logs",
        badges.init == "fixed",
        badges.init == "open",
        badges.rerun,
        badges.retrained > 0,
        badges.contradicted,
    )
    return tuple(badge for badge, there in zip(BADGES, has, strict=True) if there)


def init_of(row: BoardRow) -> str | None:
    """Name of the init that an entry started from, or that it is."""
    if row.kind == "init":
        return row.checkpoints[0].model.name
    return row.init.name if row.init else None
