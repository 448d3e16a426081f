"""The episode browser of an entry: the episodes of a panel, and the selected one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

from leaderboard.board.board import Board, Counts
from leaderboard.board.protocols import PanelFacts
from leaderboard.board.rows import BoardRow, PanelKey, PanelNumbers
from leaderboard.episodes.outcomes import Endings, PlayKey, known_endings, read_endings
from leaderboard.episodes.plays import Play, play_of
from leaderboard.page.markup import NOTHING, Piece, element, joined, line, link, note, page
from leaderboard.page.state import SHOW, State, query_of, repeats_of
from leaderboard.tabs.answer import init_of_entry
from leaderboard.tabs.episode import columns, turns
from tasks.errors import UserError

MAX_LISTED: Final = 400
"""Maximum number of episodes in the list."""
MAX_BESIDE: Final = 4
"""Maximum number of plays shown side by side: the init's and those of the first seeds."""
_Asked = tuple[BoardRow, int, PanelKey, str, int]
"""Entry, seed, panel, episode, repeat (from 0)."""
_WANTED: Final = {"solved": True, "failed": False}


@dataclass(frozen=True, slots=True)
class _Played:
    """A panel with an entry's results."""

    known: PanelFacts
    numbers: PanelNumbers
    solved: Counts
    repeats: tuple[str, ...]

    @property
    def keys(self) -> list[PlayKey]:
        """All plays of each episode."""
        seeds = (each.seed for each in self.numbers.seeds)
        return [(seed, int(repeat)) for seed in seeds for repeat in self.repeats]


def episodes_page(board: Board, submissions: Path | None, state: State) -> str:
    """The HTML of the browser.

    Args:
        board: The board.
        submissions: Folder of the submissions. If None, nothing is read: in place of the episode is
            a query with which the page requests it (`assets/episodes.js`).
        state: Its fields `entry`, `panel`, `seed`, `repeat`, `show` and `episode` are used.
    """
    row = board.row(state.entry, state.protocol)
    if row is None or not row.panels:
        return ""
    names = ["/".join(numbers.key) for numbers in row.panels]
    said = NOTHING
    if state.panel in names:
        panel = state.panel
    else:
        panel = names[0]
        said = _not_played(row, state.panel, panel) if state.panel else NOTHING
        # Panels do not share episodes.
        state = replace(state, episode="", repeat="") if state.panel else state
    state = replace(state, panel=panel, show=state.show or SHOW[0])
    played = _played(board, row, panel)
    if played is None:
        return ""
    return page(
        element("h3", "Episodes"),
        said,
        _ways(state, "panel", names) if len(names) > 1 else "",
        _ways(state, "show", SHOW),
        _browser(board, submissions, row, played, state),
    )


def _not_played(row: BoardRow, asked: str, panel: str) -> Markup:
    text = ["\u201c", line(row.name), "\u201d has not played ", line(asked)]
    return note(joined([*text, ". Here are its episodes of ", line(panel), "."]), "lb-notice")


def _played(board: Board, row: BoardRow, panel: str) -> _Played | None:
    task, _, name = panel.partition("/")
    known, numbers = board.panel(row, (task, name)), row.panel((task, name))
    solved = board.solved(row, (task, name))
    if known is None or numbers is None or solved is None:
        return None
    return _Played(known, numbers, solved, repeats_of(row, panel))


def _ways(state: State, field: str, values: Sequence[str]) -> Markup:
    """Links to the same view with other values of a field; the current one is marked."""
    ways = []
    for value in values:
        changes: dict[str, Any] = {field: value}
        changes |= {"episode": "", "repeat": ""} if field == "panel" else {}
        ways.append(_way(replace(state, **changes), line(value), getattr(state, field) == value))
    return element("p", joined(ways, " "), "lb-ways")


def _way(target: State, text: Piece, current: bool) -> Markup:
    marked = {"aria_current": "true"} if current else {}
    return link(query_of(target), text, **marked)


def _browser(
    board: Board, submissions: Path | None, row: BoardRow, played: _Played, state: State
) -> Markup:
    items = _items(played, state)
    shown = items[:MAX_LISTED]
    more = f", the first {MAX_LISTED} are listed" if len(items) > len(shown) else ""
    category = line(played.known.category_name)
    counted = joined(
        [f"{len(items)} of {len(played.known.episodes)} episodes, each with its ", category, more]
    )
    # It filters the list in the browser (`assets/episodes.js`).
    find = Markup('<input type="search" class="lb-find" aria-label="Find an episode" '
                  'placeholder="Name, category, failed">')  # fmt: skip
    found = element("ul", joined(shown), "lb-list", tabindex="0", aria_label="Episodes")
    listed = element("div", find + found)
    chosen = element("div", _chosen(board, submissions, row, played, state), "lb-episode")
    return note(counted) + element("div", listed + chosen, "lb-browser")


def _items(played: _Played, state: State) -> list[Markup]:
    plays, items = played.numbers.plays, []
    known = played.known
    # Visitors who filter by outcome want a play with that outcome, not the one that was open.
    base = state if state.show == SHOW[0] else replace(state, seed="", repeat="")
    for episode, category, count in zip(
        known.episodes, known.categories, played.solved.tolist(), strict=True
    ):
        if (state.show == "solved" and not count) or (state.show == "failed" and count == plays):
            continue
        mark = "solved" if count == plays else f"{count} of {plays} solved" if count else "failed"
        go = _way(replace(base, episode=episode), line(episode), episode == state.episode)
        about = element("span", joined([line(category), " \u00b7 ", mark]), "lb-sub")
        items.append(element("li", go + about))
    return items


def _chosen(
    board: Board, submissions: Path | None, row: BoardRow, played: _Played, state: State
) -> Piece:
    if not state.episode:
        return note("Select an episode to see its turns.") + _own(state, "list")
    if submissions is None:
        query = f"?{query_of(state)}"
        waiting = element("p", "Reading the episode \u2026", "lb-note lb-waiting", data_query=query)
        return waiting + _own(state, "episode")
    key, keys, faults = played.numbers.key, played.keys, list[str]()
    count = int(played.solved[played.known.episodes.index(state.episode)])
    endings = known_endings(played.numbers, count, keys)
    if len(endings) < len(keys):
        try:
            endings = read_endings(submissions, row, key, state.episode)
        except UserError as error:
            faults.append(str(error))
    seed, repeat = chosen_play(state, keys, endings)
    several = len(played.repeats) > 1
    state = replace(state, seed=str(seed), repeat=str(repeat) if several else "")
    title = joined([line(state.episode), f", seed {seed}", f", play {repeat}" if several else ""])
    others = _beside(board, row, played, state, repeat)
    toggle = _toggle(state) if len(others) > 1 else NOTHING
    if state.beside and len(others) > 1:
        shown = [(name, _tried(submissions, *asked)) for name, asked in others]
        about = joined([line(state.episode), ", side by side"])
        return joined([element("h4", about), toggle, columns(shown), _own(state, "episode")])
    ways = joined([_plays(state, keys, endings), _before(board, row, state), toggle])
    parts = [element("h4", title), ways]
    try:
        parts.append(turns(play_of(submissions, row, seed, key, state.episode, repeat - 1)))
    except UserError as error:
        # The same fault kept the endings from being read, so report it only once.
        faults = [str(error)]
    parts += [note(line(fault)) for fault in faults]
    return joined([*parts, _own(state, "episode")])


def _toggle(state: State) -> Markup:
    text = "one at a time" if state.beside else "side by side: before training and every seed"
    return element("p", _way(replace(state, beside=not state.beside), text, False), "lb-ways")


def _beside(
    board: Board, row: BoardRow, played: _Played, state: State, repeat: int
) -> list[tuple[Piece, _Asked]]:
    """The init's play of an episode and those of the entry's seeds, as titles and locations."""
    key, found = played.numbers.key, list[tuple[Piece, _Asked]]()
    init = init_of_entry(board, row, [key])
    if init is not None and (numbers := init.panel(key)) is not None:
        name = joined(["before training: ", line(init.name)])
        found.append((name, (init, numbers.seeds[0].seed, key, state.episode, 0)))
    for each in played.numbers.seeds[: MAX_BESIDE - len(found)]:
        asked = (row, each.seed, key, state.episode, repeat - 1)
        found.append((f"seed {each.seed}", asked))
    return found


def _tried(
    submissions: Path, row: BoardRow, seed: int, key: PanelKey, episode: str, repeat: int
) -> Play | str:
    """Load a play, or return the reason why it cannot be shown."""
    try:
        return play_of(submissions, row, seed, key, episode, repeat)
    except UserError as error:
        return str(error)


def _before(board: Board, row: BoardRow, state: State) -> Markup:
    """A link to the init's play of the same episode."""
    task, _, panel = state.panel.partition("/")
    init = init_of_entry(board, row, [(task, panel)])
    solved = board.solved(init, (task, panel)) if init else None
    facts = board.panel(row, (task, panel))
    if init is None or solved is None or facts is None:
        return NOTHING
    ended = "solved" if solved[facts.episodes.index(state.episode)] else "failed"
    target = replace(state, entry=init.id, seed="", repeat="", show="all")
    way = link(query_of(target), joined(["before training: ", line(init.name), f" {ended}"]))
    return element("p", way, "lb-ways")


def _own(state: State, what: str) -> Markup:
    return element("p", link(query_of(state), f"Link to this {what}", "lb-view"), "lb-foot")


def chosen_play(state: State, keys: Sequence[PlayKey], endings: Endings) -> PlayKey:
    """Select the first play that matches the state, if possible with the requested outcome.

    Args:
        state: Its fields `seed`, `repeat` and `show` are used.
        keys: All plays of the episode.
        endings: Their known outcomes.
    """
    allowed = [
        key for key in keys if state.seed in ("", str(key[0])) and state.repeat in ("", str(key[1]))
    ]
    wanted = _WANTED.get(state.show)
    fitting = [key for key in allowed if wanted is not None and endings.get(key) is wanted]
    return (fitting or allowed or list(keys))[0]


def _plays(state: State, keys: Sequence[PlayKey], endings: Endings) -> Markup:
    """Links to all plays of the episode, each with its outcome."""
    seeds = dict.fromkeys(seed for seed, _ in keys)
    own = [key for key in keys if str(key[0]) == state.seed]
    parts = []
    if len(seeds) > 1:
        ways = [
            _way(
                replace(state, seed=str(seed), repeat=""),
                f"seed {seed}{_ended([key for key in keys if key[0] == seed], endings)}",
                str(seed) == state.seed,
            )
            for seed in seeds
        ]
        parts.append(element("p", joined(ways, " "), "lb-ways"))
    if len(own) > 1:
        ways = [
            _way(
                replace(state, repeat=str(key[1])),
                f"play {key[1]}{_ended([key], endings)}",
                str(key[1]) == state.repeat,
            )
            for key in own
        ]
        parts.append(element("p", joined(ways, " "), "lb-ways"))
    return joined(parts)


def _ended(keys: Sequence[PlayKey], endings: Endings) -> str:
    """Text on how plays ended; empty unless the outcomes of all of them are known."""
    known = [endings[key] for key in keys if key in endings]
    if len(known) < len(keys):
        return ""
    if len(keys) > 1:
        return f": {sum(known)} of {len(keys)} solved"
    return " solved" if known[0] else " failed"
