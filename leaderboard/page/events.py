"""What happens when a control of the page is used or a link is followed, as plain functions."""

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
    """One tab. It is drawn when it is opened: a page with all of them would be a megabyte.

    Attributes:
        tab: Its name.
        opened_by: Gradio's tab.
        drawn_for: Holds the state of the controls that the contents were drawn for, as a query.
        controls: Its controls, by their names in `State`.
        contents: What is redrawn when one of them is used, and how.
        slow: Which of the contents are not whole yet, since it may take seconds, and what draws all
            of them: by an event of its own, so that nothing waits.
        reusable: How many of the first contents depend only on the fields in `reusable_by`: a
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
        """The part of a state that the reusable contents depend on."""
        known = {name: getattr(state, name) for name in self.reusable_by}
        return State(tab=state.tab, protocol=state.protocol, **known)

    def drawn(self, state: State, start: int = 0) -> list[Any]:
        """The contents from one of them on."""
        shared = self.reusable_state(state)
        return [
            draw(shared if place < self.reusable else state)
            for place, (_, draw) in enumerate(self.contents)
            if place >= start
        ]


@dataclass(frozen=True, slots=True)
class Page:
    """All that events read and write.

    Attributes:
        board: What is shown.
        parts: The tabs.
        tabs: Which tab is open.
        notice: Says what a link has asked for in vain.
        protocol: Which protocol is shown.
        task: Holds the panels that were asked for last: a tab that was never open does not know
            yet what its own choice was set to.
        shown: Holds the name of the protocol that the controls belong to. While it differs from
            `protocol`, the answer to a choice of protocol is under way.
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
        """How every event is set up."""
        return {
            # Answered at once, and under no name that programs could call.
            "queue": False,
            "api_visibility": "private",
            "show_progress": "hidden",
            # Gradio copies whatever shows progress, with all of its choices, twice an event, even
            # where progress is hidden: by default all that any event has changed so far.
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
        """What is asked for once more when it is shown."""
        return [component for part in self.parts for component, _ in part.slow]


def key_of(board: Board, part: TabPart, state: State) -> str:
    """The query of a tab by its controls alone: what `TabPart.drawn_for` holds."""
    asked = {name: getattr(state, name) for name in part.controls}
    return query_of(open_query(board, asked | {"tab": part.tab, "protocol": state.protocol}).state)


def on_control(page: Page, part: TabPart, protocol: str, *values: Any, start: int = 0) -> list[Any]:
    """A control of a tab was used: redraw the tab.

    Args:
        page: The page.
        part: The tab.
        protocol: Name of the protocol that is shown.
        values: Of all of its controls, in order.
        start: The first of its contents that is drawn.

    Returns:
        What was drawn for, and the contents.
    """
    asked = dict(zip(part.controls, values, strict=True))
    # Nothing is filled in: what was cleared is empty.
    state = open_query(page.board, asked | {"tab": part.tab, "protocol": protocol}).state
    return [query_of(state), *part.drawn(state, start)]


def on_panels(page: Page, part: TabPart, others: int, protocol: str, *values: Any) -> list[Any]:
    """Panels were chosen in a tab: the others choose them too, and are drawn when they are opened.

    Args:
        page: The page.
        part: The tab.
        others: How many other tabs have a choice of panels.
        protocol: Name of the protocol that is shown.
        values: Of all of the tab's controls, in order.
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
    """A tab was opened: draw it, unless it shows what its controls say already.

    While another protocol was chosen and its controls have not come, what they say is of the old
    one: the tab is drawn as they will be.

    Args:
        page: The page.
        part: The tab.
        protocol: Name of the protocol that is chosen.
        shown: Name of the one that the controls belong to.
        task: The panels that were asked for last, in any tab; empty for none.
        drawn_for: What it was drawn for.
        values: Of all of its controls, in order.
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
    """A link was followed, from outside or within: show what it asks for.

    Args:
        page: The page.
        asked: Its query, by names.
        shown: Name of the protocol that was shown before; the controls of another one differ.
        drawn: What each tab was drawn for (`TabPart.drawn_for`), in order; without it, all of the
            tab is drawn.
        task: The panels that were asked for before, in any tab; empty for none.
        track: The track that was chosen on the board; empty for all.

    Returns:
        What changes; what is not in it stays as it is.
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
    """Another protocol was chosen: draw the open tab for it, and set the controls of all.

    Which tab is open and what the choice says is left alone: the visitor may have gone on.

    Args:
        page: The page.
        protocol: Name of the chosen one.
        tab: The open tab; if `None`, the first one is opened.
    """
    changes = on_link(page, {"protocol": protocol, "tab": tab or page.parts[0].tab}, "")
    kept = (page.protocol, page.tabs) if tab else (page.protocol,)
    return {each: value for each, value in changes.items() if each not in kept}


def on_slow_parts(page: Page, asked: Mapping[str, Sequence[str] | str]) -> Updates:
    """What takes its time of a view that is shown already."""
    state = filled(page.board, open_query(page.board, asked).state)
    changes: Updates = {
        component: draw(state)
        for part in page.parts
        if part.tab == state.tab
        for component, draw in part.slow
    }
    return changes or {component: gr.skip() for component in page.slow[:1]}


def _start(board: Board, part: TabPart, state: State, drawn_for: str) -> int:
    """The first of a tab's contents that must be drawn, after those that are shown already."""
    if not drawn_for:
        return 0
    before = open_query(board, parsed(str(drawn_for))).state
    return part.reusable if part.reusable_state(before) == part.reusable_state(state) else 0


def _first(part: TabPart, protocol: str) -> dict[str, str]:
    """The query of a tab as it is before any of its controls was used."""
    return {"tab": part.tab, "protocol": protocol}


def _values(part: TabPart, state: State) -> Updates:
    return {control: _value(name, state) for name, control in part.controls.items()}


def _value(name: str, state: State) -> Any:
    value = getattr(state, name)
    if isinstance(value, tuple):
        return list(value)
    # An entry that there is none of: nothing is chosen.
    return None if value == "" and name in ("panels", "entry", "first", "second") else value
