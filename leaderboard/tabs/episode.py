"""One episode, turn by turn: observations, responses, and outcomes."""

import json
from collections.abc import Mapping, Sequence
from typing import Final

from markupsafe import Markup

from benchmark.evaluation.records import EpisodeRecord, TurnRecord
from leaderboard.episodes.plays import Play
from leaderboard.page.markup import NOTHING, Piece, block, element, folded, joined, line, note
from leaderboard.table import cells
from tasks.chat.images import Image
from tasks.episode import View
from tasks.presentation import Tile
from tasks.texts import counted, without_middle

MAX_TURNS: Final = 100
"""Maximum number of turns shown of an episode."""
MAX_TEXT: Final = 8_000
"""Maximum number of characters shown of a text; longer ones lose their middle."""
_TAIL: Final = 2_000


# Buttons that step through turns in the browser (`assets/episodes.js`).
_STEPS: Final = Markup(
    '<p class="lb-steps"><button type="button" data-step="-1">\u2190 Previous turn</button>'
    '<button type="button" data-step="1">Next turn \u2192</button>'
    '<button type="button" data-step="0">All turns</button>'
    '<span class="lb-sub">or the arrow keys</span></p>'
)


def turns(play: Play) -> Markup:
    """All turns of an episode."""
    record = play.record
    parts: list[Piece] = [element("p", _ending(record), "lb-count", role="status")]
    if play.asked:
        parts.append(block(shortened(play.asked)))
    if play.reason:
        parts.append(note(line(play.reason)))
    if record.error is not None:
        parts.append(note(joined(["Ended in an error: ", line(record.error)])))
    start = play.views[0] if play.views else None
    if start is not None:
        parts.append(element("div", _seen(start, play.tiles, "before the first turn"), "lb-start"))
    listed = _listed(play)
    if len(listed) > 1:
        parts.append(_STEPS)
    parts.append(element("ol", joined(listed), "lb-turns", tabindex="0", aria_label="Turns"))
    return joined([*parts, _more(record)])


def columns(plays: Sequence[tuple[Piece, Play | str]]) -> Markup:
    """Plays of one episode side by side, all at the same turn.

    Args:
        plays: Title of each play, and the play or the reason why it cannot be shown.
    """
    known = [play for _, play in plays if isinstance(play, Play)]
    parts: list[Piece] = []
    if known and known[0].asked:
        parts.append(block(shortened(known[0].asked)))
    start = next((play for play in known if play.views), None)
    if start is not None:
        seen = _seen(start.views[0], start.tiles, "before the first turn")
        parts.append(element("div", seen, "lb-start"))
    parts += [_STEPS] if known else []
    shown = (element("section", element("h4", title) + _column(play)) for title, play in plays)
    return joined([*parts, element("div", joined(shown), "lb-plays")])


def _column(play: Play | str) -> Markup:
    if isinstance(play, str):
        return note(line(play))
    record = play.record
    parts: list[Piece] = [element("p", _ending(record), "lb-sub")]
    parts += [note(line(play.reason))] if play.reason else []
    turn_by_turn = _listed(play, "lb-now")
    parts.append(
        element("ol", joined(turn_by_turn), "lb-turns lb-single", tabindex="0", aria_label="Turns")
    )
    return joined([*parts, _more(record)])


def _listed(play: Play, first: str = "") -> list[Markup]:
    """The turns of a play; `first` is an additional CSS class of the first one."""
    record = play.record
    # The view after a turn is the view before the next one, or the last view.
    after = [*play.views[1:], *[None] * (len(record.turns) + 1 - len(play.views))]
    known = zip(record.turns[:MAX_TURNS], after, strict=False)
    return [
        element("li", _turn(number, turn, view, play.tiles),
                f"lb-turn {first if number == 1 else ''}".rstrip())
        for number, (turn, view) in enumerate(known, 1)
    ]  # fmt: skip


def _more(record: EpisodeRecord) -> Markup:
    rest = len(record.turns) - MAX_TURNS
    return note(f"{rest} more turns are not shown.") if rest > 0 else NOTHING


def _ending(record: EpisodeRecord) -> str:
    solved = "solved" if record.solved else "failed"
    about = f"{solved} after {counted(len(record.turns), 'turn')}, "
    about += f"score {cells.number(record.score, '')}"
    return f"{about}, return {cells.number(record.episode_return, '')}"


def _turn(number: int, turn: TurnRecord, after: View | None, tiles: Mapping[str, Tile]) -> Markup:
    flags = []
    if not turn.format_ok:
        flags.append("not well-formed")
    if not turn.action_ok:
        flags.append("invalid action")
    if turn.finish_reason == "length":
        flags.append("cut at the token limit")
    action = line(_first_line(turn.action)) if turn.action is not None else "nothing executed"
    head = joined(
        [
            element("strong", f"{number}. ", ""),
            element("code", action),
            *(element("span", flag, "lb-badge") for flag in flags),
            element("span", f"reward {cells.number(turn.reward, '')}", "lb-sub"),
        ],
        " ",
    )
    said = element("div", joined([element("p", head), block(shortened(turn.response))]))
    info = json.dumps(turn.info, indent=1, sort_keys=True, ensure_ascii=False)
    said += folded("facts", block(shortened(info))) if turn.info else NOTHING
    seen = _seen(after, tiles, f"after turn {number}") if after is not None else NOTHING
    return element("div", said) + element("div", seen)


def _first_line(action: str) -> str:
    """The first line of an action; the response contains all of it."""
    first, _, rest = action.strip().partition("\n")
    return f"{first} \u2026" if rest else first


def _seen(view: View, tiles: Mapping[str, Tile], when: str) -> Markup:
    """An observation as its images, as a drawing if it consists of tiles, or else as text."""
    rows = board_of(view.observation, tiles)
    if view.images:
        about = shortened(view.observation) if rows is None else _told(rows, tiles, when)
        return joined([_image(image, about) for image in view.images])
    if rows is not None:
        return drawn(rows, tiles, when)
    return element("p", when, "lb-sub") + block(shortened(view.observation))


def shortened(text: str) -> str:
    """Both ends of a long text, with the number of omitted characters between them."""
    return without_middle(text, MAX_TEXT, _TAIL, "[... {:,} characters omitted ...]")


def board_of(observation: str, tiles: Mapping[str, Tile]) -> list[str] | None:
    """The lines of an observation that consist only of tiles; None if there are none."""
    rows = [row for row in observation.split("\n") if row and set(row) <= set(tiles)]
    return rows or None


def _image(image: Image, about: str) -> Markup:
    """The image that the model saw, unchanged."""
    return Markup('<img class="lb-tiles" src="{}" alt="{}">').format(image.data_url, about)


def _told(rows: Sequence[str], tiles: Mapping[str, Tile], when: str) -> str:
    """A board in words."""
    places: dict[str, list[str]] = {}
    for y, row in enumerate(rows):
        for x, symbol in enumerate(row):
            if tiles[symbol].glyph:
                places.setdefault(tiles[symbol].kind, []).append(f"row {y} column {x}")
    pieces = "; ".join(f"{kind} at {' and '.join(found)}" for kind, found in places.items())
    size = f"{len(rows)} rows and {max(map(len, rows))} columns, counted from 0"
    return f"Board {when}, {size}: {pieces}"


def drawn(rows: Sequence[str], tiles: Mapping[str, Tile], when: str) -> Markup:
    """A board as an SVG drawing with one unit per tile."""
    width = max(map(len, rows))
    marks = []
    for y, row in enumerate(rows):
        for x, symbol in enumerate(row):
            tile = tiles[symbol]
            marks.append(_rect(x, y, tile.fill))
            marks += [_glyph(name, x, y) for name in tile.glyph.split()]
    return element(
        "svg",
        joined(marks),
        "lb-tiles",
        viewBox=f"0 0 {width} {len(rows)}",
        role="img",
        aria_label=_told(rows, tiles, when),
    )


def _rect(x: int, y: int, fill: str) -> Markup:
    return element(
        "rect", NOTHING, x=str(x), y=str(y), width="1", height="1", fill=fill,
        shape_rendering="crispEdges",
    )  # fmt: skip


def _glyph(name: str, x: int, y: int) -> Markup:
    place = f"translate({x} {y})"
    if name == "dot":
        return element("circle", NOTHING, "lb-dot", transform=place, cx=".5", cy=".5", r=".15")
    if name == "box":
        path = "M.14 .14h.72v.72h-.72zM.26 .26l.48 .48m0 -.48l-.48 .48"
        return element("path", NOTHING, "lb-box", transform=place, d=path)
    if name == "player":
        path = "M.5 .14a.16 .16 0 0 1 0 .32a.16 .16 0 0 1 0 -.32M.2 .86v-.1a.3 .27 0 0 1 .6 0v.1z"
        return element("path", NOTHING, "lb-player", transform=place, d=path)
    return NOTHING
