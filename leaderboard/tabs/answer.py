"""The top of the board: the leader of each task, and the leader of the selected one."""

from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

from markupsafe import Markup

from benchmark.stats.dependable import LEAST_SEEDS
from benchmark.stats.formatting import whole_percent
from benchmark.stats.intervals import Interval
from leaderboard.board.board import Board
from leaderboard.board.protocols import COMPARISONS, PanelFacts, Protocol
from leaderboard.board.rows import OPEN, BoardRow, PanelKey
from leaderboard.page.glossary import explained
from leaderboard.page.marks import below_init_chip
from leaderboard.page.markup import NOTHING, Head, Piece, element, joined, line, link, page, table
from leaderboard.page.methods import entry_name, method, method_name, method_of
from leaderboard.page.query import panel_title
from leaderboard.page.state import State, curves_of, entry_query, panels_of_name, query_of
from leaderboard.table import cells
from leaderboard.table.columns import Line, dependable_of, panel_name, success_of, worst_of
from leaderboard.table.equal import episodes_of, equal_means
from leaderboard.table.paired import mean_difference
from leaderboard.table.ranks import Rank, ranks
from leaderboard.table.view import badges_of
from tasks.texts import counted

_MOST_TRACKS: Final = 3
_MOST_TIES: Final = 2
_ALIKE: Final = 1.1
"""Ratio of training episodes below which two entries count as equally expensive."""


@lru_cache(maxsize=64)
def summary(board: Board, state: State) -> str:
    """A table with the leader of each task and track, and a link to each of them."""
    protocol = board.protocol(state.protocol) or board.protocols[0]
    known = State(protocol=protocol.name)
    mixed = _mixed(board, protocol)
    rows = []
    for panel in protocol.panels:
        tracks = [
            (track, placed)
            for track, placed in _tracks(board, known, [panel.key])
            if track not in (*mixed, OPEN) and not COMPARISONS.fullmatch(track)
        ]
        rows += [
            _summary_row(board, protocol, [panel], track, placed)
            for track, placed in tracks[:_MOST_TRACKS]
        ]
    for name, panels in mixed.items():
        found = _tracks(board, replace(known, track=name), [panel.key for panel in panels])
        rows += [_summary_row(board, protocol, panels, track, placed) for track, placed in found]
    if not rows:
        return ""
    heads = [
        Head(joined(["task, ", explained("track", "track")])),
        Head("leader"),
        Head(joined(["success (%, ", _whole(explained("interval", "95% CI"), ")")])),
        Head(joined([explained("dependable", "dependable success"), " (%)"])),
        Head(joined(["seeds ", explained("collapse", "collapsed")])),
        Head("model, parameters"),
        Head("methods entered"),
        Head("entry"),
    ]
    return page(table("Leaders by task", heads, rows, "lb-summary", True))


def _mixed(board: Board, protocol: Protocol) -> dict[str, list[PanelFacts]]:
    """The panels of each multi-task track, if all of them belong to the protocol."""
    grid = board.facts.grid
    tracks = zip(grid.tracks, grid.panels, strict=False) if grid else ()
    found = {name: [protocol.panel(key) for key in keys] for name, keys in tracks if len(keys) > 1}
    return {
        name: [panel for panel in panels if panel is not None]
        for name, panels in found.items()
        if None not in panels
    }


def _summary_row(
    board: Board,
    protocol: Protocol,
    panels: Sequence[PanelFacts],
    track: str,
    placed: Sequence[tuple[BoardRow, Rank]],
) -> list[Piece]:
    """The row of a track in the summary: its leader, and its number of methods."""
    keys = [panel.key for panel in panels]
    (first, _), *others = placed
    success = _success(first, keys)
    whole = Line(first, (), None)
    event = whole.collapse
    seeds = joined(["of ", counted(len(first.checkpoints), "seed"), ", ", whole.unjudged])
    if event is not None and event.low is not None and event.high is not None:
        ends = f"{whole_percent(event.low)}\u2013{whole_percent(event.high)}%"
        beside = f"{whole.unknown} unknown" if whole.unknown else ends
        css = "lb-fallen" if event.happened else ""
        count = f"{event.happened} of {event.known + whole.unknown}"
        seeds = joined([element("span", count, css), _soft(beside)])
        late = element("span", f" {whole.halved} halved", "lb-soft lb-fallen")
        seeds += late if whole.halved else NOTHING
    if len(panels) == 1:
        asked, title = State(panels=panel_name(panels[0])), panel_title(panels[0])
        kind = track.removeprefix(f"{panels[0].task}-")
    else:
        asked, title, kind = State(panels="built-in", track=track), f"{len(panels)} tasks", track
    go = query_of(replace(asked, protocol=protocol.name))
    size = cells.number(first.parameters, "parameters") if first.parameters else ""
    entry = entry_query(protocol.name, first.id)
    start = init_success(board, first, keys)
    below = below_init_chip(success.value, start)
    leader = joined([method(first.method), _ties(first, others)])
    if start is not None and success.value <= start:
        highest = joined(["highest: ", method(first.method)])
        leader = joined(["none above the init", element("span", joined([" ", highest]), "lb-soft")])
    return [
        joined([link(go, title), " ", explained("track", element("span", line(kind), "lb-soft"))]),
        leader,
        joined([cells.percent(success.value), _soft(_ends(success)), " ", below]),
        _best_dependable(placed, keys),
        seeds,
        joined([line(first.base_model), _soft(size)]),
        _methods_run(board, [row for row, _ in placed]),
        link(entry, "Reproduce", aria_label=f"Reproduce {cells.text(first.name)}"),
    ]  # fmt: skip


def _methods_run(board: Board, rows: Sequence[BoardRow]) -> Markup:
    """How many methods of a track are on the board, and how many had a seed collapse."""
    count = len({row.recipe for row in rows})
    grid = board.facts.grid
    said = f"{count} of {len(grid.recipes)}" if grid else str(count)
    events = [(row.recipe, Line(row, (), None).collapse) for row in rows]
    fallen = len({recipe for recipe, event in events if event and event.happened})
    collapsed = element("span", f" {fallen} collapsed", "lb-soft lb-fallen")
    return joined([said, ",", collapsed]) if fallen else line(said)


def _soft(text: str) -> Markup:
    # The space is for screen readers and copied text.
    return joined([" ", element("span", text, "lb-soft")]) if text else NOTHING


def _ties(first: BoardRow, others: Sequence[tuple[BoardRow, Rank]]) -> Markup:
    """The methods that are not significantly worse than the leader."""
    found = dict.fromkeys(row.method for row, rank in others if rank.first == 1)
    tied = [name for name in found if name != first.method]
    if not others:
        return _soft("the only one run")
    if not tied:
        return NOTHING
    more = f" and {len(tied) - _MOST_TIES} more" if len(tied) > _MOST_TIES else ""
    names = ", ".join(map(method_name, tied[:_MOST_TIES]))
    return _soft(f"tied with {cells.text(names)}{more}")


def _best_dependable(placed: Sequence[tuple[BoardRow, Rank]], panels: Sequence[PanelKey]) -> Markup:
    """The leader's dependable success or, if it has a single seed, the best known one."""
    known = [(row, found) for row, _ in placed if (found := dependable_of(row, panels)) is not None]
    leader = placed[0][0]
    found = next((found for row, found in known if row is leader), None)
    if found is not None:
        return joined([cells.percent(found.value), _soft(_ends(found))])
    if not known:
        single = all(len(row.checkpoints) < LEAST_SEEDS for row, _ in placed)
        said = "needs two seeds" if single else cells.UNKNOWN
        return element("span", said, "lb-soft lb-alone")
    row, found = max(known, key=lambda pair: pair[1].value)
    said = f"{_ends(found)}, {cells.text(method_name(row.method))}; the leader has one seed"
    return joined([cells.percent(found.value), _soft(said)])


@lru_cache(maxsize=64)
def answer(board: Board, state: State) -> str:
    """A summary of each track with its links."""
    panels = panels_of_name(board, state.protocol, state.panels)
    if not panels:
        return page(
            element("p", "No entry has been accepted under this protocol yet.", "lb-answer")
        )
    tracks = _tracks(board, state, panels)
    where = _where(board, state, panels)
    if not tracks:
        return page(_nobody(board, state, panels, where))
    said = [
        element("p", _sentence(board, state, panels, where, track, rows), "lb-answer")
        for track, rows in tracks[:_MOST_TRACKS]
    ]
    more = len(tracks) - _MOST_TRACKS
    rest = element("p", f"{counted(more, 'more track')} below.", "lb-note") if more > 0 else NOTHING
    return page(*said, rest)


def _where(board: Board, state: State, panels: Sequence[PanelKey]) -> str:
    protocol = board.protocol(state.protocol) or board.protocols[0]
    found = [panel for key in panels if (panel := protocol.panel(key))]
    if len(found) > 1:
        return f"the mean of {len(found)} tasks"
    (panel,) = found
    return panel.title if panel.panel == "builtin" else f"{panel.title} ({panel.panel})"


def _tracks(
    board: Board, state: State, panels: Sequence[PanelKey]
) -> list[tuple[str, list[tuple[BoardRow, Rank]]]]:
    """Ranked entries by track, best first, with tracks sorted by `order_of_track`."""
    places = ranks(board, state.protocol, tuple(panels))
    found: dict[str, list[tuple[BoardRow, Rank]]] = {}
    for row in board.rows(state.protocol):
        if row.id in places and state.track in ("", row.track):
            found.setdefault(row.track, []).append((row, places[row.id]))
    for rows in found.values():
        rows.sort(key=lambda pair: -_success(pair[0], panels).value)
    return sorted(found.items(), key=lambda pair: order_of_track(pair[0], len(pair[1])))


def order_of_track(track: str, entries: int) -> tuple[bool, bool, bool, int, str]:
    """Sort key of a track: tracks with the usual settings first, then those with most entries."""
    comparison = COMPARISONS.fullmatch(track) is not None
    return track == OPEN, comparison, track.endswith("-stress"), -entries, track


def _success(row: BoardRow, panels: Sequence[PanelKey]) -> Interval:
    found = success_of(row, panels)
    assert found is not None  # ranked entries have it
    return found


def _sentence(
    board: Board,
    state: State,
    panels: Sequence[PanelKey],
    where: str,
    track: str,
    rows: Sequence[tuple[BoardRow, Rank]],
) -> Markup:
    """The leader of a track, its margin, ties, collapses, and what was checked."""
    (first, _), *others = rows
    success, start = _success(first, panels), init_success(board, first, panels)
    size = f"{cells.number(first.parameters, 'parameters')} parameters" if first.parameters else ""
    about = joined([line(first.base_model), f", {size}" if size else ""])
    ties = [row for row, rank in others if rank.first == 1]
    counts = Counter(row.recipe for row, _ in rows)
    alike = frozenset(recipe for recipe, count in counts.items() if count > 1)
    said = joined(
        [
            element("span", joined([f"{where[0].upper()}{where[1:]}, track ",
                                    explained("track", element("em", line(track))), ": ", about]),
                    "lb-sub"),
            "No clear leader: " if ties else "",
            element("strong", _entry(first, state, alike)), " leads with " if others and not ties
            else " has ",
            element("strong", f"{cells.percent(success.value)}%"),
            " ", _whole("[", explained("interval", "95% CI"), " ", _ends(success), "]"),
            NOTHING if start is None else _from(start, success.value),
        ]
    )  # fmt: skip
    margin = _margin(board, state, panels, (first, others, ties), alike)
    proof = _proof(first, [row for row, _ in rows], state)
    return joined([said, margin, ". ", _collapses(first), _dependable(first, panels), proof])


def _from(start: float, end: float) -> Markup:
    """The change from the init; a decrease is emphasized."""
    shown, other = (f"{cells.percent(each)}%" for each in (start, end))
    if shown == other:
        return joined([", the same as before training"])
    if end > start:
        return joined([f", up from {shown} before training"])
    return joined([", ", element("strong", f"down from {shown} before training")])


def _proof(row: BoardRow, track: Sequence[BoardRow], state: State) -> Markup:
    """What was checked of an entry, with links to its command and its track's training curves."""
    query = entry_query(state.protocol, row.id)
    curves = State(tab="curves", protocol=state.protocol, entries=curves_of(track))
    ways = [link(query, "Reproduce it")]
    ways += [link(query_of(curves), "Training curves")] if curves.entries else []
    said = f": {', '.join(badges_of(row))}. "
    return joined([" ", explained("badges", "Checked"), said, joined(ways, " \u00b7 ")])


def _dependable(row: BoardRow, panels: Sequence[PanelKey]) -> Markup:
    """The success to expect from one more seed."""
    if row.stability is None:
        return NOTHING
    name = explained("dependable", "Dependable success")
    found, worst = dependable_of(row, panels), worst_of(row, panels)
    if found is None:
        single = len(row.checkpoints) == 1
        return joined([" ", name, ": not known from one seed."]) if single else NOTHING
    ends = _whole(f"[{_ends(found)}]")
    last = f"; lowest seed {cells.percent(worst)}%" if worst is not None else ""
    return joined([" ", name, f": {cells.percent(found.value)}% ", ends, f"{last}."])


def _whole(*parts: Piece) -> Markup:
    """Text that is never wrapped."""
    return element("span", joined(parts), "lb-whole")


def _ends(found: Interval) -> str:
    return f"{cells.percent(found.low)}\u2013{cells.percent(found.high)}"


def _entry(row: BoardRow, state: State, alike: Container[str]) -> Markup:
    """A link to an entry, named by its method; if `alike` has its recipe, by its own name, too."""
    query = entry_query(state.protocol, row.id)
    if row.recipe not in alike:
        return link(query, line(method_name(row.method)))
    return joined([link(query, line(row.name)), f" ({cells.text(method_of(row))})"])


def _margin(
    board: Board,
    state: State,
    panels: Sequence[PanelKey],
    placed: tuple[BoardRow, Sequence[tuple[BoardRow, Rank]], Sequence[BoardRow]],
    alike: Container[str],
) -> Markup:
    """The margin over the second entry, and the ties.

    Args:
        board: The board.
        state: The current view.
        panels: Panels to average over.
        placed: The leader, all other entries, and those of them that tie with it.
        alike: Recipes with several entries.
    """
    first, others, ties = placed
    if not others:
        return Markup("; it is the only entry of this track")
    second, _ = others[0]
    found = mean_difference(board, first, second, panels)
    by = cells.points(found) if found else cells.UNKNOWN
    parts: list[Piece] = [f"; {by} points ahead of ", _entry(second, state, alike)]
    if second.one_seed:
        parts.append(" (one seed)")
    if second in ties:
        parts.append(", a tie")
    parts.append(_cost(board, state, panels, first, second))
    further = [row for row in ties if row is not second]
    if further:
        names = joined([_entry(row, state, alike) for row in further[:3]], ", ")
        more = f" and {len(further) - 3} more" if len(further) > 3 else ""
        parts += ["; also tied: ", names, more]
    return joined(parts)


def _cost(
    board: Board, state: State, panels: Sequence[PanelKey], first: BoardRow, second: BoardRow
) -> str:
    """Ratio of the first entry's training episodes to the second's, and its lead at equal episodes.

    Empty if the first was not trained on more episodes.
    """
    curves = board.curves(first), board.curves(second)
    mine, theirs = map(episodes_of, curves)
    if not mine or not theirs or len(panels) != 1:
        return ""
    ratio = mine / theirs
    if ratio < _ALIKE:
        return ""
    said = f", after {ratio:.1f} times as many training episodes"
    protocol = board.protocol(state.protocol)
    panel = protocol.panel(panels[0]) if protocol else None
    known = {panel_name(panel): len(panel.episodes)} if panel else {}
    for means in equal_means(*curves, known):
        if means.by == "episodes" and means.difference is not None and means.panel in known:
            said += f" (after equally many: {cells.points(means.difference)})"
    return said


def _collapses(row: BoardRow) -> Markup:
    whole = Line(row, (), None)
    event = whole.collapse
    seeds = counted(len(row.checkpoints), "seed")
    if event is None or event.low is None or event.high is None:
        return joined([seeds, f"; whether one collapsed is not known: {whole.unjudged}."])
    about = f"95% CI {whole_percent(event.low)}\u2013{whole_percent(event.high)}%"
    about = f"{whole.unknown} unknown: too few validations" if whole.unknown else about
    return joined(
        [
            f"{event.happened} of {seeds} ",
            explained("collapse", "collapsed"),
            " ",
            element("span", f"({about}){',' if whole.halved else '.'}", "lb-whole"),
            *([f" {whole.halved} ", explained("halved", "halved"), "."] if whole.halved else []),
        ]
    )


def _nobody(board: Board, state: State, panels: Sequence[PanelKey], where: str) -> Markup:
    """The reference results on panels without a trained entry."""
    references = []
    for row in board.rows(state.protocol):
        found = success_of(row, panels)
        if row.kind != "trained" and found is not None:
            references.append(
                (found.value, joined([entry_name(row), f" {cells.percent(found.value)}%"]))
            )
    names = joined([each for _, each in sorted(references, key=lambda p: -p[0])], ", ")
    submit = link(query_of(State(tab="submit", protocol=state.protocol)), "submit the first one")
    coverage = link(query_of(State(tab="coverage", protocol=state.protocol)), "what was run so far")
    return element(
        "p",
        joined(
            [
                element("strong", f"No trained entry on {where} yet"),
                ": ", submit, ", or see ", coverage, ". Reference: ", names, ".",
            ]
        ),
        "lb-answer",
    )  # fmt: skip


@lru_cache(maxsize=256)
def _inits(board: Board, protocol: str) -> dict[str, list[BoardRow]]:
    """Entries of each init, earliest first; several are possible, as panels are added over time."""
    found: dict[str, list[BoardRow]] = {}
    for row in sorted(board.rows(protocol), key=lambda row: row.id):
        if row.kind == "init":
            found.setdefault(row.checkpoints[0].model.name, []).append(row)
    return found


def init_of_entry(board: Board, row: BoardRow, panels: Sequence[PanelKey]) -> BoardRow | None:
    """The first entry of this entry's init that has played all given panels, or None."""
    inits = _inits(board, row.protocol).get(row.init.name, []) if row.init else []
    return next(
        (
            each
            for each in inits
            # Other weights may have the same name.
            if row.init is not None and each.checkpoints[0].model.sha256 == row.init.sha256
            if success_of(each, panels) is not None
        ),
        None,
    )


def init_success(board: Board, row: BoardRow, panels: Sequence[PanelKey]) -> float | None:
    """Success of an entry's init according to the init's own entry; None if it has none."""
    start = init_of_entry(board, row, panels)
    found = success_of(start, panels) if start else None
    return found.value if found else None
