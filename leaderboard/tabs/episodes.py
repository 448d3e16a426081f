"""The episode browser of an entry: the episodes of a panel, and the one that is chosen."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

from leaderboard.data import Board, Counts
from leaderboard.links import SHOW, State, query_of
from leaderboard.markup import Piece, element, joined, line, link, note, page
from leaderboard.plays import play_of
from leaderboard.protocols import PanelFacts
from leaderboard.rows import PanelNumbers, Row
from leaderboard.tabs.episode import turns
from tasks.errors import UserError

MAX_LISTED: Final = 400
"""Episodes that the list shows."""


@dataclass(frozen=True, slots=True)
class _Played:
    """A panel as an entry has played it."""

    known: PanelFacts
    numbers: PanelNumbers
    solved: Counts


def episodes_page(board: Board, submissions: Path | None, state: State) -> str:
    """The browser.

    Args:
        board: The board.
        submissions: Where the entry's folder is. Without it nothing is read: in the place of the
            episode stands what the page asks for it with (`assets/episodes.js`).
        state: What is shown: `entry`, `panel`, `seed`, `show` and `episode`.
    """
    row = board.row(state.entry, state.protocol)
    if row is None or not row.panels:
        return ""
    names = ["/".join(numbers.key) for numbers in row.panels]
    panel = state.panel if state.panel in names else names[0]
    seed = state.seed or str(row.checkpoints[0].seed)
    state = replace(state, panel=panel, seed=seed, show=state.show or SHOW[0])
    played = _played(board, row, panel)
    if played is None:
        return ""
    return page(
        element("h3", "Episodes"),
        _ways(state, "panel", names) if len(names) > 1 else "",
        _ways(state, "show", SHOW),
        _ways(state, "seed", [str(p.seed) for p in row.checkpoints], "seed ")
        if len(row.checkpoints) > 1
        else "",
        _browser(submissions, row, played, state),
    )


def _played(board: Board, row: Row, panel: str) -> _Played | None:
    task, _, name = panel.partition("/")
    known, numbers = board.panel(row, (task, name)), row.panel((task, name))
    solved = board.solved(row, (task, name))
    if known is None or numbers is None or solved is None:
        return None
    return _Played(known, numbers, solved)


def _ways(state: State, field: str, values: Sequence[str], before: str = "") -> Markup:
    """Links to the same with another value of a field; what is shown is marked."""
    ways = []
    for value in values:
        # An episode of one panel is none of another.
        changes: dict[str, Any] = {field: value}
        changes |= {"episode": ""} if field == "panel" else {}
        target = replace(state, **changes)
        current = {"aria_current": "true"} if getattr(state, field) == value else {}
        ways.append(link(query_of(target), line(before + value), **current))
    return element("p", joined(ways, " "), "lb-ways")


def _browser(submissions: Path | None, row: Row, played: _Played, state: State) -> Markup:
    items = _items(played, state)
    shown = items[:MAX_LISTED]
    more = f", the first {MAX_LISTED} are listed" if len(items) > len(shown) else ""
    counted = f"{len(items)} of {len(played.known.episodes)} episodes{more}"
    listed = element("ul", joined(shown), "lb-list", tabindex="0", aria_label="Episodes")
    chosen = element("div", _chosen(submissions, row, state), "lb-episode")
    return note(counted) + element("div", listed + chosen, "lb-browser")


def _items(played: _Played, state: State) -> list[Markup]:
    plays, items = played.numbers.plays, []
    known = played.known
    for episode, category, count in zip(
        known.episodes, known.categories, played.solved.tolist(), strict=True
    ):
        if (state.show == "solved" and not count) or (state.show == "failed" and count == plays):
            continue
        mark = "solved" if count == plays else f"{count} of {plays} solved" if count else "failed"
        current = {"aria_current": "true"} if episode == state.episode else {}
        go = link(query_of(replace(state, episode=episode)), line(episode), **current)
        about = element("span", joined([line(category), " \u00b7 ", mark]), "lb-sub")
        items.append(element("li", go + about))
    return items


def _chosen(submissions: Path | None, row: Row, state: State) -> Piece:
    if not state.episode:
        own = link(query_of(state), "Link to this list", "lb-view")
        return note("Choose an episode to see its turns.") + element("p", own, "lb-foot")
    if submissions is None:
        query = f"?{query_of(state)}"
        return element("p", "Reading the episode \u2026", "lb-note lb-waiting", data_query=query)
    task, _, panel = state.panel.partition("/")
    try:
        play = play_of(submissions, row, int(state.seed), (task, panel), state.episode)
    except UserError as error:
        return note(line(str(error)))
    title = element("h4", joined([line(state.episode), f", seed {state.seed}"]))
    own = link(query_of(state), "Link to this episode", "lb-view")
    return joined([title, turns(play), element("p", own, "lb-foot")])
