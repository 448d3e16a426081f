"""Handles events of the page's controls and links, as plain functions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

import gradio as gr

from leaderboard.board.board import Board
from leaderboard.page.markup import note
from leaderboard.page.markup import page as wrapped
from leaderboard.page.query import choices_of, open_query, parsed
from leaderboard.page.state import State, filled, query_of

Control = gr.Dropdown | gr.Radio | gr.Textbox | gr.CheckboxGroup | gr.Checkbox
Controls = dict[str, Control]
Draw = Callable[[State], Any]
Updates = dict[gr.blocks.Block, Any]
FOLLOWING: Final = ("entries", "first", "second")
"""Fields that follow the task and the track where a tab does."""


@dataclass(frozen=True, slots=True)
class TabPart:
    """One tab. It is drawn when it is opened: a page with all tabs would be a megabyte.

    Attributes:
        tab: Name of the tab.
        opened_by: The Gradio tab.
        drawn_for: Hidden field with the controls' state for which the contents were drawn, as a
            query.
        controls: Its controls, by their field names in `State`.
        contents: Components that are redrawn when a control is used, and the functions that draw
            them.
        slow: Contents that are incomplete at first because they may take seconds, and the functions
            that draw them completely, in a separate event so that nothing has to wait.
        reusable: Number of leading contents that depend only on the fields in `reusable_by`: a
            search or a sort does not redraw them.
        reusable_by: Names of these fields, which are controls.
        followed: Where entries follow the task and the track that are chosen on the board: holds
            what they were chosen for last, as `choice_of` says it.
    """

    tab: str
    opened_by: gr.Tab
    drawn_for: gr.Textbox
    controls: Controls
    contents: tuple[tuple[gr.components.Component, Draw], ...]
    slow: tuple[tuple[gr.HTML, Draw], ...] = ()
    reusable: int = 0
    reusable_by: tuple[str, ...] = ()
    followed: gr.Textbox | None = None

    def reusable_state(self, state: State) -> State:
        """The part of a state on which the reusable contents depend."""
        known = {name: getattr(state, name) for name in self.reusable_by}
        return State(tab=state.tab, protocol=state.protocol, **known)

    def drawn(self, state: State, start: int = 0) -> list[Any]:
        """Draw the contents from index `start` on."""
        shared = self.reusable_state(state)
        return [
            draw(shared if place < self.reusable else state)
            for place, (_, draw) in enumerate(self.contents)
            if place >= start
        ]


@dataclass(frozen=True, slots=True)
class Page:
    """Everything that event handlers read and write.

    Attributes:
        board: The board.
        parts: The tabs.
        tabs: The tab selection.
        notice: Message about values in a link that are not on the board.
        protocol: The protocol selection.
        task: Hidden field with the last selected panels: a tab that was never open does not know
            yet what its own selection was set to.
        shown: Hidden field with the name of the protocol that the controls belong to. While it
            differs from `protocol`, the response to a change of protocol is pending.
    """

    board: Board
    parts: tuple[TabPart, ...]
    tabs: gr.Tabs
    notice: gr.HTML
    protocol: gr.Dropdown
    task: gr.Textbox
    shown: gr.Textbox

    @property
    def event(self) -> dict[str, Any]:
        """Options of every event."""
        return {
            # Respond immediately, and do not expose the event in the API.
            "queue": False,
            "api_visibility": "private",
            "show_progress": "hidden",
            # Gradio copies all components that show progress, with their choices, twice per event,
            # even if progress is hidden. By default these are all that any event has changed so
            # far.
            "show_progress_on": self.task,
        }

    @property
    def all(self) -> list[gr.blocks.Block]:
        """Everything that a link may change."""
        found: list[gr.blocks.Block] = [
            self.tabs,
            self.notice,
            self.protocol,
            self.task,
            self.shown,
        ]
        for part in self.parts:
            found += [part.drawn_for, *part.controls.values()]
            found += [part.followed] if part.followed else []
            found += [component for component, _ in part.contents]
        return list(dict.fromkeys(found))

    @property
    def chosen(self) -> list[Control | gr.Textbox]:
        """The task and the track that are chosen on the board."""
        return [self.task, next(p.controls["track"] for p in self.parts if "track" in p.controls)]

    @property
    def slow(self) -> list[gr.HTML]:
        """Contents that are requested again once they are shown."""
        return [component for part in self.parts for component, _ in part.slow]


def key_of(board: Board, part: TabPart, state: State) -> str:
    """The query of a tab for its controls alone, as in `TabPart.drawn_for`."""
    asked = {name: getattr(state, name) for name in part.controls}
    return query_of(open_query(board, asked | {"tab": part.tab, "protocol": state.protocol}).state)


def on_control(page: Page, part: TabPart, protocol: str, *values: Any, start: int = 0) -> list[Any]:
    """Redraw a tab after one of its controls was used.

    Args:
        page: The page.
        part: The tab.
        protocol: Name of the current protocol.
        values: Values of all its controls, in order.
        start: Index of the first content to draw.

    Returns:
        The query for which the tab was drawn, and the contents.
    """
    asked = dict(zip(part.controls, values, strict=True))
    # No defaults here: a cleared selection stays empty.
    state = open_query(page.board, asked | {"tab": part.tab, "protocol": protocol}).state
    return [query_of(state), *part.drawn(state, start)]


def on_panels(page: Page, part: TabPart, others: int, protocol: str, *values: Any) -> list[Any]:
    """Redraw a tab after panels were selected; others get the selection and are drawn when opened.

    Args:
        page: The page.
        part: The tab.
        others: Number of other tabs with a selection of panels.
        protocol: Name of the current protocol.
        values: Values of all of the tab's controls, in order.
    """
    panels = dict(zip(part.controls, values, strict=True))["panels"]
    return [*on_control(page, part, protocol, *values), panels, *[panels] * others]


def on_tab(
    page: Page,
    part: TabPart,
    protocol: str,
    shown: str,
    task: str,
    drawn_for: str,
    *values: Any,
) -> list[Any]:
    """Draw a tab when it is opened, unless its contents already match its controls.

    While a change of protocol is pending, the controls still hold the old protocol's values: the
    tab is drawn for the values that they will have.

    Args:
        page: The page.
        part: The tab.
        protocol: Name of the selected protocol.
        shown: Name of the protocol that the controls belong to.
        task: The panels last selected in any tab; empty for none.
        drawn_for: Query for which it was drawn.
        values: Values of all its controls, in order.
    """
    if shown != protocol:
        state = filled(page.board, open_query(page.board, _first(part, protocol)).state)
        return [key_of(page.board, part, state), *part.drawn(state)]
    asked = dict(zip(part.controls, values, strict=True))
    if task and "panels" in asked:
        asked["panels"] = task
        values = tuple(asked.values())
    state = open_query(page.board, asked | {"tab": part.tab, "protocol": protocol}).state
    if query_of(state) == drawn_for:
        return [gr.skip()] * (len(part.contents) + 1)
    return on_control(page, part, protocol, *values)


def choice_of(task: str, track: str) -> str:
    """What a tab that follows is drawn for: panels and track, empty for none that were chosen."""
    return urlencode({name: value for name, value in (("panels", task), ("track", track)) if value})


def on_following_tab(
    page: Page,
    part: TabPart,
    protocol: str,
    shown: str,
    task: str,
    track: str | None,
    followed: str,
    drawn_for: str,
    *values: Any,
) -> list[Any]:
    """A tab was opened whose entries follow the task and the track: choose them if these changed.

    Args:
        page: The page.
        part: The tab.
        protocol: Name of the protocol that is chosen.
        shown: Name of the one that the controls belong to.
        task: The panels that were asked for last, in any tab; empty for none.
        track: The track that is chosen on the board; empty for all.
        followed: What its entries were chosen for last.
        drawn_for: What it was drawn for.
        values: Of all of its controls, in order.

    Returns:
        What was drawn for, what its entries were chosen for, the controls, and the contents.
    """
    choice = choice_of(task, track or "")
    if shown != protocol or followed == choice:
        first, *contents = on_tab(page, part, protocol, shown, task, drawn_for, *values)
        return [first, *[gr.skip()] * (len(part.controls) + 1), *contents]
    kept = {n: v for n, v in zip(part.controls, values, strict=True) if n not in FOLLOWING}
    asked = kept | _first(part, protocol) | {"panels": task, "track": track}
    state = filled(page.board, open_query(page.board, asked).state)
    key = key_of(page.board, part, state)
    return [key, choice, *_values(part, state).values(), *part.drawn(state)]


def on_link(
    page: Page,
    asked: Mapping[str, Sequence[str] | str],
    shown: str,
    *drawn: str,
    task: str = "",
    track: str | None = "",
) -> Updates:
    """Show what a link requests, whether from outside or within the page.

    Args:
        page: The page.
        asked: Its query, by names.
        shown: Name of the protocol that was shown before; the controls of another one differ.
        drawn: What each tab was drawn for (`TabPart.drawn_for`), in order; without it, all of the
            tab is drawn.
        task: The panels that were asked for before, in any tab; empty for none.
        track: The track that was chosen on the board; empty for all.

    Returns:
        The components to update.
    """
    if not asked:
        return {page.notice: gr.skip()}
    found = open_query(page.board, asked)
    same = found.state.protocol == shown
    choice = choice_of(task, track or "") if same else ""
    if found.state.tab in (part.tab for part in page.parts if part.followed):
        # What a link names wins; what it leaves open follows.
        found = open_query(page.board, parsed(choice) | dict(asked))
    state = filled(page.board, found.state)
    changes: Updates = {page.tabs: gr.Tabs(selected=state.tab), page.shown: state.protocol}
    said = found.ignored.text
    changes[page.notice] = wrapped(note(said, "lb-notice")) if said else ""
    shares = any(part.tab == state.tab and "panels" in part.controls for part in page.parts)
    if shares or not same:
        changes[page.task] = state.panels if shares else ""
    for place, part in enumerate(page.parts):
        with_panels = shares and "panels" in part.controls
        if part.tab == state.tab:
            changes |= _values(part, state)
            changes[part.drawn_for] = key_of(page.board, part, state)
            start = _start(page.board, part, state, drawn[place]) if drawn else 0
            there = [component for component, _ in part.contents[start:]]
            changes |= zip(there, part.drawn(state, start), strict=True)
        elif with_panels or not same:
            asked = _first(part, state.protocol)
            asked |= {"panels": state.panels} if with_panels else {}
            other = filled(page.board, open_query(page.board, asked).state)
            changes |= _values(part, other)
        if part.followed and (part.tab == state.tab or not same):
            changes[part.followed] = choice
    if not same:
        changes[page.protocol] = state.protocol
        offered = choices_of(page.board, state.protocol)
        for part in page.parts:
            for name, control in part.controls.items():
                if name in offered:
                    changes[control] = gr.update(choices=offered[name], value=changes[control])
    return changes


def on_protocol(page: Page, protocol: str, tab: str | None) -> Updates:
    """Draw the open tab for a newly selected protocol, and set all controls.

    The tab and protocol selections are not changed, because the visitor may have moved on.

    Args:
        page: The page.
        protocol: Name of the selected protocol.
        tab: The open tab; if `None`, the first one is opened.
    """
    changes = on_link(page, {"protocol": protocol, "tab": tab or page.parts[0].tab}, "")
    kept = (page.protocol, page.tabs) if tab else (page.protocol,)
    return {each: value for each, value in changes.items() if each not in kept}


def on_slow_parts(page: Page, asked: Mapping[str, Sequence[str] | str]) -> Updates:
    """Draw the slow contents of a view that is already shown."""
    state = filled(page.board, open_query(page.board, asked).state)
    changes: Updates = {
        component: draw(state)
        for part in page.parts
        if part.tab == state.tab
        for component, draw in part.slow
    }
    return changes or {component: gr.skip() for component in page.slow[:1]}


def _start(board: Board, part: TabPart, state: State, drawn_for: str) -> int:
    """Index of the first of a tab's contents that must be drawn; earlier ones are already shown."""
    if not drawn_for:
        return 0
    before = open_query(board, parsed(str(drawn_for))).state
    return part.reusable if part.reusable_state(before) == part.reusable_state(state) else 0


def _first(part: TabPart, protocol: str) -> dict[str, str]:
    """The initial query of a tab."""
    return {"tab": part.tab, "protocol": protocol}


def _values(part: TabPart, state: State) -> Updates:
    return {control: _value(name, state) for name, control in part.controls.items()}


def _value(name: str, state: State) -> Any:
    value = getattr(state, name)
    if isinstance(value, tuple):
        return list(value)
    # Without an entry, nothing is selected.
    return None if value == "" and name in ("panels", "entry", "first", "second") else value
