"""Training stability of every method with its success, and which choice of a recipe helps."""

import math
from functools import lru_cache
from typing import Any, Final

from markupsafe import Markup

from benchmark.stats.formatting import collapses_text
from benchmark.track_schema import DIMENSIONS
from leaderboard.board.board import Board
from leaderboard.board.rows import BoardRow
from leaderboard.page import charts
from leaderboard.page.dots import Dot, dot_plot
from leaderboard.page.glossary import explained
from leaderboard.page.markup import (
    NOTHING,
    Head,
    Piece,
    element,
    folded,
    joined,
    line,
    link,
    note,
    page,
    table,
    view_link,
)
from leaderboard.page.methods import method_of
from leaderboard.page.state import State, entry_query, frame_of, panels_of_name, query_of
from leaderboard.table import cells
from leaderboard.table.columns import (
    COLUMNS,
    NOISE,
    SUCCESS,
    Column,
    Line,
    columns_of,
    is_noise,
    success_of,
)
from leaderboard.table.contrasts import Contrast, Dimension, dimensions
from leaderboard.table.ranks import RANKED
from leaderboard.tabs.success import by_track, fallen_of, fallen_seeds, fallen_text, tracks_of
from tasks.texts import counted

_MOST_FALLEN: Final = 3
"""Maximum number of entries named for their collapses and halved runs."""
_LOW, _HIGH = f"{SUCCESS}:low", f"{SUCCESS}:high"
_ABOUT: Final = {column.name: column.text for column in COLUMNS if column.name in DIMENSIONS}


@lru_cache(maxsize=64)
def stability_page(board: Board, state: State) -> str:
    """The content below the first figure."""
    if not panels_of_name(board, state.protocol, state.panels):
        return page(note("No entry has been accepted under this protocol yet."))
    return page(_against(board, state), view_link(query_of(state)))


@lru_cache(maxsize=64)
def stability_lead(board: Board, state: State) -> str:
    """The text above the figure: how many training runs collapsed or halved, and whose."""
    panels = panels_of_name(board, state.protocol, state.panels)
    if not panels:
        return ""
    frame = frame_of(board, State(protocol=state.protocol, panels=state.panels))
    rows = [row for entry in frame.index if (row := board.row(entry, state.protocol))]
    wanted = [row for row in rows if success_of(row, panels) and state.base in ("", row.base_model)]
    wholes = [Line(row, (), None) for row in wanted]
    known = sum(whole.collapse.known for whole in wholes if whole.collapse)
    logged = sum(len(row.checkpoints) for row in wanted if row.stability)
    if not known:
        few = "No run on this task has validations enough to show whether it collapsed."
        return page(note(few if logged else "No entry on this task has training logs yet."))
    counts = [(each.collapse.happened if each.collapse else 0, each.halved) for each in wholes]
    happened, halved = map(sum, zip(*counts, strict=True))
    fallen = [pair for pair in zip(counts, wholes, strict=True) if any(pair[0])]
    parts: list[Piece] = [
        element("strong", f"{happened} of {counted(known, 'training run')}"),
        " ", explained("collapse", "collapsed"),
        " on the panels shown",
        *([f" ({logged - known} more have too few validations to tell)"] if logged > known else []),
        *([f", and {halved} of {logged} ", explained("halved", "halved")] if halved else []),
    ]  # fmt: skip
    names = [
        joined(
            [
                _entry(whole.row, state),
                f" ({cells.text(method_of(whole.row))}: {fallen_text(whole)})",
            ]
        )
        for _, whole in sorted(fallen, key=lambda pair: pair[0], reverse=True)[:_MOST_FALLEN]
    ]
    more = f" and {len(fallen) - _MOST_FALLEN} more" if len(fallen) > _MOST_FALLEN else ""
    parts += [": ", joined(names, ", "), more, "."] if fallen else ["."]
    return page(element("p", joined(parts), "lb-answer"))


def _entry(row: BoardRow, state: State) -> Markup:
    query = entry_query(state.protocol, row.id)
    return link(query, line(row.name))


def _dimensions(board: Board, state: State) -> tuple[Dimension, ...]:
    panels = panels_of_name(board, state.protocol, state.panels)
    return dimensions(board, state.protocol, panels, state.base or None) if panels else ()


@lru_cache(maxsize=64)
def choices_lead(board: Board, state: State) -> str:
    """The text above the second figure, on which choice of a recipe helps."""
    return page(
        element("h2", "Which choice helps"),
        note(
            "We compare two entries only if they differ in exactly one of the four choices of a "
            "recipe, and in the learning rate, which may be tuned for each. A gain is a difference "
            "of success in points. Its 95% interval is that of every comparison of two entries; "
            "with three pairs or more, it is over pairs (small dots). With one seed on each side "
            "the interval covers the episodes only: another seed may give another result. Nothing "
            "is corrected for the number of comparisons."
        )
        if any(each.contrasts for each in _dimensions(board, state))
        else note("No two entries on this task differ in exactly one choice yet."),
    )


@lru_cache(maxsize=64)
def choices_page(board: Board, state: State) -> str:
    """The content below the second figure."""
    found = _dimensions(board, state)
    shown = [each for each in found if each.contrasts]
    rest = [each.name for each in found if not each.contrasts] if shown else []
    return page(
        *map(_dimension, shown),
        note(f"No two entries differ only in the {' or only in the '.join(rest)} yet.")
        if rest
        else NOTHING,
    )


def _known(board: Board, state: State) -> tuple[Column, dict[str, dict[str, Any]], int, bool]:
    """The measure, entries with both numbers, how many lack one, whether any has the measure."""
    measure = next(c for c in columns_of([]) if c.name == state.measure)
    # Only fields that affect the figure, so that controls of other tabs do not trigger a recompute.
    frame = frame_of(board, State(protocol=state.protocol, panels=state.panels))
    frame = frame[frame["kind"].isin(RANKED)]
    if state.base:
        frame = frame[frame["base_model"] == state.base]
    both = frame[frame[SUCCESS].notna() & frame[measure.name].notna()]
    names = ["name", "recipe", "track", SUCCESS, _LOW, _HIGH, measure.name]
    lines: dict[str, dict[str, Any]] = both[names].to_dict("index")
    return measure, lines, len(frame) - len(both), bool(frame[measure.name].notna().any())


@lru_cache(maxsize=64)
def against_chart(board: Board, state: State) -> charts.Value:
    """A stability measure with one row per entry and its success at the end of the row."""
    if not panels_of_name(board, state.protocol, state.panels):
        return charts.NOTHING
    measure, lines, _, _ = _known(board, state)
    if not lines or _all_noise(measure, lines):
        return charts.NOTHING
    scale = 100 if measure.unit == "share" else 1
    rows = by_track([row for entry in lines if (row := board.row(entry, state.protocol))])
    dots = []
    for row, track in zip(rows, tracks_of(rows), strict=True):
        values, (fallen, _) = lines[row.id], fallen_of(row)
        value = values[measure.name]
        success = cells.interval(values[SUCCESS], values[_LOW], values[_HIGH], "%")
        finite = math.isfinite(value)
        dots.append(
            Dot(
                method=row.method,
                track=track,
                name=row.name,
                href="?" + entry_query(state.protocol, row.id),
                value=scale * value if finite else None,
                shown=_shown(value, measure.unit),
                end=f"{_shown(values[SUCCESS], 'share')}{'' if finite else ', infinite'}",
                seeds=_seeds(row, measure.name, scale),
                told={"success": success, "collapse": fallen},
            )
        )
    title = f"{measure.title}{_of_unit(measure)}, {measure.better} is better"
    axis = {"scale": {"zero": True, "nice": False, "padding": 8}, "axis": {"format": ".3~g"}}
    return dot_plot(dots, title, axis, measure.title, "At the end: success.")


def _seeds(row: BoardRow, name: str, scale: int) -> tuple[tuple[float, bool], ...]:
    """The measure of every seed that has one, and whether the seed collapsed."""
    if row.stability is None:
        return ()
    fallen, seeds = fallen_seeds(row), row.stability.seeds
    values = next((each.values for each in row.stability.numbers if each.name == name), ())
    known = tuple(
        (scale * value, seed in fallen)
        for seed, value in zip(seeds, values, strict=bool(values))
        if value is not None and math.isfinite(value)
    )
    return known if len(known) > 1 or any(fell for _, fell in known) else ()


def _all_noise(measure: Column, lines: dict[str, dict[str, Any]]) -> bool:
    return is_noise(measure.name, (values[measure.name] for values in lines.values()))


def _of_unit(measure: Column) -> str:
    if measure.unit == "share":
        return " (%)"
    return "" if measure.unit == "ratio" else f" ({measure.unit})"


def _against(board: Board, state: State) -> Markup:
    measure, lines, left_out, there = _known(board, state)
    if not lines:
        known = "evaluated on all of these panels " if there else ""
        return note(f"No entry {known}has a number for {measure.title}: choose another task.")
    rows = []
    for entry, values in lines.items():
        query = entry_query(state.protocol, entry)
        shown = _shown(values[SUCCESS], "share"), _shown(values[measure.name], measure.unit)
        rows.append([link(query, line(values["name"])), line(values["recipe"]), *shown])
    listed = table(
        f"Success and {measure.title}",
        [
            Head("entry"),
            Head("recipe"),
            Head("success", number=True),
            Head(measure.title, number=True, text=measure.text),
        ],
        rows,
    )
    said = element("p", _summary(len(lines), left_out, measure), "lb-count", role="status")
    if _all_noise(measure, lines):
        floor = cells.number(NOISE[measure.name], measure.unit)
        text = (
            f"All are below {floor} {measure.unit}: only how sums were rounded. Nothing is drawn."
        )
        said += note(text)
    return said + folded("The same as a table", listed)


def _summary(count: int, left_out: int, measure: Column) -> str:
    missing = f"; {left_out} without both numbers are not drawn" if left_out else ""
    return f"{counted(count, 'entry')}, {measure.title} and success{missing}"


def _shown(value: float, unit: str) -> str:
    return cells.number(value, unit) + ("%" if unit == "share" else "")


def _dimension(dimension: Dimension) -> Markup:
    about = note(_ABOUT[dimension.name])
    parts = [element("h3", dimension.name), about, _contrasts(dimension)]
    if dimension.alone:
        names = joined(map(line, dimension.alone), ", ")
        parts.append(note(joined(["Not yet compared: ", names, "."])))
    if dimension.unknown:
        parts.append(note(f"{dimension.unknown} entries do not say what they chose."))
    return element("section", joined(parts))


@lru_cache(maxsize=64)
def gains_chart(board: Board, state: State) -> charts.Value:
    """The gain in success of each choice, in all dimensions that have pairs."""
    found = _dimensions(board, state)
    rows = [_estimate(each.name, contrast) for each in found for contrast in each.contrasts]
    if not rows:
        return charts.NOTHING
    said = "; ".join(row["note"] for row in rows)
    return charts.error_bars(rows, "gain of success (points)", said=said)


def _estimate(dimension: str, contrast: Contrast) -> dict[str, Any]:
    found = contrast.gain
    ends = (found.low, found.high) if not math.isnan(found.low) else (found.value, found.value)
    value, low, high = (100 * each for each in (found.value, *ends))
    name = f"{cells.text(contrast.choice)} over {cells.text(contrast.over)}"
    name += f", {cells.text(contrast.kind)}" if contrast.kind else ""
    parts = [100 * gain for gain in contrast.gains] if len(contrast.gains) > 1 else []
    said = f"{name}: {_gain(contrast)} points ({_trainings(contrast)})"
    return {
        "label": f"{dimension}: {name}", "value": value, "low": low, "high": high,
        "parts": parts, "note": said,
    }  # fmt: skip


def _trainings(contrast: Contrast) -> str:
    pairs = counted(len(contrast.gains), "pair")
    return f"{pairs}, {contrast.seeds[0]} + {contrast.seeds[1]} seeds"


def _gain(contrast: Contrast) -> str:
    if math.isnan(contrast.gain.low):
        return f"{cells.signed(100 * contrast.gain.value)}, no spread: no interval"
    return cells.points(contrast.gain)


def _contrasts(dimension: Dimension) -> Markup:
    heads = [
        Head("choice"),
        Head("over"),
        Head(explained("track", "tracks")),
        Head("gain (points, 95% CI)", number=True),
        Head("interval"),
        Head("runs"),
        Head("collapsed", number=True),
        Head("collapsed (other)", number=True),
        Head("setting"),
    ]
    rows: list[list[Piece]] = [
        [
            line(each.choice),
            line(each.over),
            line(each.kind or cells.UNKNOWN),
            _gain(each),
            each.method,
            _trainings(each),
            *(
                collapses_text(side.happened, side.known, side.halved, cells.UNKNOWN, side.unknown)
                for side in each.collapses
            ),
            joined(map(line, each.settings), "; "),
        ]
        for each in dimension.contrasts
    ]
    return table(f"Gains of {dimension.name}", heads, rows, "lb-wrapped lb-choices")
