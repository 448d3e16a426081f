"""The page of one entry: everything that its submission states or that was computed from it."""

import json
from functools import lru_cache
from typing import Final

from markupsafe import Markup

from benchmark.stats.paired import mean_success
from benchmark.track_schema import DIMENSIONS
from leaderboard.board.board import Board
from leaderboard.board.protocols import PanelFacts
from leaderboard.board.rows import BoardCheckpoint, BoardRow, Model, PanelNumbers
from leaderboard.page.glossary import explained
from leaderboard.page.header import in_repository
from leaderboard.page.markup import (
    NOTHING,
    Head,
    Piece,
    block,
    element,
    facts,
    folded,
    joined,
    line,
    link,
    note,
    outside,
    page,
    table,
    view_link,
)
from leaderboard.page.methods import method
from leaderboard.page.state import State, entry_query, query_of
from leaderboard.table import cells
from leaderboard.table.columns import panel_name
from leaderboard.table.paired import side_of
from leaderboard.table.ranks import RANKED, ranks
from leaderboard.table.view import badges_of
from leaderboard.tabs.entry.reproduce import reproduce, short_hash, whole_hashes
from leaderboard.tabs.entry.stability import stability_tables

_KINDS: Final = {
    "policy": "a scripted policy, without weights",
    "init": "a starting checkpoint, untrained here",
    "trained": "trained",
}
_FOREIGN: Final = (
    "From logs of another trainer. They name no protocol: compare these numbers only with others "
    "from such logs."
)
_PROOFS: Final = {
    "replayed": "every episode was re-executed: these actions earn these rewards. It doesn't prove "
    "which model chose them",
    "stability: logs": "the numbers were computed from raw training logs. It doesn't prove that "
    "the logs come from a real run",
    "stability: foreign logs": "the numbers were computed from another trainer's logs. Nothing "
    "ties these to the panels, the protocol or the checkpoints",
    "init: fixed": "starts from a registered init (hash declared by the authors)",
    "init: open": "starts from a checkpoint that is not registered",
    "re-run": "maintainers evaluated the weights again",
    "rerun failed": "maintainers evaluated the weights again, and the results did not match. This "
    "may be chance: see what was repeated",
    "first updates trained again": "maintainers repeated the beginning of every training run. It "
    "doesn't prove which model chose the evaluated actions",
}


@lru_cache(maxsize=64)
def entry_page(board: Board, state: State) -> str:
    """The tab's content except for episodes (`leaderboard.tabs.episodes`)."""
    row = board.row(state.entry, state.protocol)
    if row is None:
        return page(note("Choose an entry."))
    return page(
        _about(board, row),
        view_link(entry_query(state.protocol, row.id), *_ways(row)),
        element("h3", "Success"),
        _panels(board, row),
        _categories(board, row),
        element("h3", "Stability"),
        _stability(board, row),
        element("h3", "Identity and protocol"),
        _checkpoints(row),
        whole_hashes(row),
        _protocol(board, row),
        reproduce(row),
    )


def _stability(board: Board, row: BoardRow) -> Markup:
    if row.stability:
        return stability_tables(row.stability, board.curves(row))
    if row.foreign:
        return joined([note(_FOREIGN), stability_tables(row.foreign, ())])
    return note(_no_logs(row))


def _no_logs(row: BoardRow) -> str:
    if row.kind != "trained":
        return "Nothing was trained."
    return "No training logs were submitted, so its stability is unknown."


def _track(board: Board, row: BoardRow) -> Markup:
    """Its track, with a link to all of the track's entries, and its rank among them."""
    if row.kind not in RANKED or not row.panels:
        return line(row.track)
    keys = tuple(numbers.key for numbers in row.panels)
    panels = "/".join(keys[0]) if len(keys) == 1 else "built-in"
    go = State(protocol=row.protocol, panels=panels, track=row.track)
    places = ranks(board, row.protocol, keys)
    others = sum(each.track == row.track and each.id in places for each in board.rows(row.protocol))
    place = cells.rank(places[row.id].first, places[row.id].last)
    return joined(
        [
            link(query_of(go), line(row.track)),
            ": ",
            explained("rank", "rank"),
            f" {place} of {others}",
        ]
    )


def _about(board: Board, row: BoardRow) -> Markup:
    badges = joined(
        element("div", joined([element("span", badge, "lb-badge"), " ", _PROOFS[badge]]))
        for badge in badges_of(row)
    )
    choices = row.choices
    picked = [(name, getattr(choices, name)) for name in DIMENSIONS if getattr(choices, name)]
    base = line(row.base_model) if row.base_model else NOTHING
    size = f" {cells.number(row.parameters, 'parameters')}" if row.parameters else ""
    return joined(
        [
            element("p", joined(map(line, row.description.splitlines()), " "), "lb-lead"),
            facts(
                [
                    ("kind", _KINDS.get(row.kind, row.kind)),
                    ("method", method(row.method)),
                    (explained("track", "track"), _track(board, row)),
                    ("choices", joined((joined([f"{n} ", line(v)]) for n, v in picked), ", ")),
                    ("setting", line(choices.setting) if choices.setting else NOTHING),
                    ("base model", joined([base, size]) if base else NOTHING),
                    (explained("init", "init"), _model(row.init) if row.init else NOTHING),
                    (explained("badges", "badges"), badges),
                    ("repeated", line(row.badges.rerun_note) if row.badges.rerun_note else NOTHING),
                    ("training data", _training_data(row)),
                    ("authors", joined(map(line, row.authors), ", ")),
                    ("contact", line(row.contact)),
                    ("date", row.date),
                    ("code", outside(row.code, line(row.code))),
                    ("paper", outside(row.paper, line(row.paper))),
                    ("folder", in_repository(board, f"submissions/{row.id}")),
                ]
            ),
        ]
    )


def _training_data(row: BoardRow) -> Markup:
    data = row.training_data
    if data is None:
        return NOTHING
    streams = ", ".join(data.training_streams) or "none"
    other = "yes" if data.other else "no"
    about = f" Declared: training streams {cells.text(streams)}; other data of a task: {other}."
    return joined([joined(map(line, data.statement.splitlines()), " "), about])


def _ways(row: BoardRow) -> list[Markup]:
    """Links to other views of the same entry."""
    ways = []
    for numbers in row.panels[:1]:
        panel = "/".join(numbers.key)
        episodes = State(tab="entry", protocol=row.protocol, entry=row.id, panel=panel)
        ways.append(link(query_of(episodes), "Episodes"))
    if row.stability is not None:
        curves = State(tab="curves", protocol=row.protocol, entries=(row.id,))
        ways.append(link(query_of(curves), "Training curves"))
    compare = State(tab="compare", protocol=row.protocol, first=row.id)
    ways.append(link(query_of(compare), "Compare"))
    return ways


def _panels(board: Board, row: BoardRow) -> Markup:
    heads = [
        Head(explained("panel", "panel")),
        Head("success (%)", number=True),
        Head(explained("interval", "95% interval"), number=True),
        Head("each seed (%)", number=True),
        Head("valid format (%)", number=True),
        Head("valid action (%)", number=True),
        Head("turns", number=True),
        Head("score", number=True),
        Head("errors", number=True),
        Head("episodes \u00d7 plays", number=True),
    ]
    return table("Success on every panel", heads, [_panel(board, row, p) for p in row.panels])


def _panel(board: Board, row: BoardRow, numbers: PanelNumbers) -> list[Piece]:
    known = board.panel(row, numbers.key)
    unit = known.score_unit if known else ""
    unit = unit if unit == "%" else f" {unit}".rstrip()
    target = State(tab="entry", protocol=row.protocol, entry=row.id, panel="/".join(numbers.key))
    success = mean_success([side_of(numbers)])
    return [
        link(query_of(target), "/".join(numbers.key)),
        cells.percent(numbers.success),
        f"{cells.percent(success.low)}\u2013{cells.percent(success.high)}",
        ", ".join(cells.percent(each.success) for each in numbers.seeds),
        cells.percent(numbers.format_valid),
        cells.percent(numbers.action_valid),
        f"{numbers.turns:.1f}",
        f"{cells.number(numbers.score, '')}{unit}",
        cells.number(numbers.errors, "count"),
        f"{cells.number(numbers.episodes, 'count')} \u00d7 {cells.number(numbers.plays, 'count')}",
    ]


def _categories(board: Board, row: BoardRow) -> Markup:
    parts = []
    for numbers in row.panels:
        known = board.panel(row, numbers.key)
        name = known.category_name if known else "category"
        heads = [Head(name), Head("success (%)", number=True)]
        heads += [Head("95% interval", number=True), Head("episodes", number=True)]
        rows: list[list[Piece]] = [
            [
                line(each.category),
                cells.percent(each.success),
                f"{cells.percent(each.low)}\u2013{cells.percent(each.high)}",
                cells.number(each.episodes, "count"),
            ]
            for each in numbers.categories
        ]
        parts.append(table("/".join(numbers.key), heads, rows, shown_caption=True))
    return folded("By category", element("div", joined(parts), "lb-side"))


def _model(model: Model) -> Markup:
    parts: list[Piece] = [line(model.name), f" ({model.kind})"]
    if model.revision:
        parts += [" at ", short_hash(model.revision)]
    if model.sha256:
        parts += [" sha256 ", short_hash(model.sha256)]
    return joined(parts)


def _checkpoints(row: BoardRow) -> Markup:
    heads = [Head("seed", number=True), Head("weights"), Head("played by"), Head("training log")]
    heads += [Head(explained("agreement", "agrees with the validation after"))]
    rows = [_checkpoint(point) for point in row.checkpoints]
    return table("Checkpoints", heads, rows)


def _checkpoint(point: BoardCheckpoint) -> list[Piece]:
    return [
        str(point.seed),
        _model(point.model),
        joined(map(line, point.engines), ", "),
        short_hash(point.log_sha256) if point.log_sha256 else cells.UNKNOWN,
        cells.text(point.agrees),
    ]


def _protocol(board: Board, row: BoardRow) -> Markup:
    hashes: list[list[Piece]] = [
        ["/".join(numbers.key), element("code", numbers.fingerprint)] for numbers in row.panels
    ]
    protocols = [
        folded(panel_name(known), block(_pretty(known), f"protocol of {panel_name(known)}"))
        for numbers in row.panels
        if (known := board.panel(row, numbers.key)) is not None
    ]
    fingerprints = table("Fingerprints", [Head("panel"), Head("SHA-256")], hashes)
    return folded("Protocol", joined([fingerprints, *protocols]))


def _pretty(known: PanelFacts) -> str:
    return json.dumps(json.loads(known.protocol), indent=2, sort_keys=True)
