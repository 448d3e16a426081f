"""The page: tabs with their controls, and what happens when one of them is used.

    demo = build(load(Path("leaderboard.parquet")), Path("submissions"))

It only shows what the board's file says. What a tab shows is made by `leaderboard.tabs`, as HTML of
escaped texts; here are gradio's components and their wiring. There are two kinds of events, neither
of which sets off another:

- somebody uses a control: the controls of its tab are read, and its tab is redrawn;
- somebody opens the page or follows a link in it: the query says which tab is shown and how.

`leaderboard.serve.server` serves it.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import gradio as gr
from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from leaderboard.board.board import Board
from leaderboard.board.curves import CURVES
from leaderboard.page.events import (
    Controls,
    Draw,
    Page,
    TabPart,
    Updates,
    fetched,
    moved,
    opened,
    used,
)
from leaderboard.page.header import TITLE, footer, header
from leaderboard.page.markup import page, view_link
from leaderboard.page.state import (
    MOST_CURVES,
    Choices,
    State,
    choices_of,
    filled,
    open_query,
    parsed,
)
from leaderboard.tabs.answer import answer, plane
from leaderboard.tabs.board import board_page
from leaderboard.tabs.compare import compare_chart, compare_page
from leaderboard.tabs.coverage import coverage_page
from leaderboard.tabs.curve_charts import curve_chart, survival_chart
from leaderboard.tabs.curves import curves_page
from leaderboard.tabs.entry import entry_page
from leaderboard.tabs.episodes import episodes_page
from leaderboard.tabs.published import published_tables
from leaderboard.tabs.stability import (
    against_chart,
    choices_page,
    gains_chart,
    stability_page,
)

FOLDER: Final = Path(__file__).parent
TABS: Final = {
    "board": "Board",
    "stability": "Stability",
    "curves": "Curves",
    "entry": "Entry",
    "compare": "Compare",
    "coverage": "Coverage",
    "submit": "Submit",
    "about": "About",
}
SLOW_AT_ONCE: Final = 2
MAX_WAITING: Final = 30
"""Visitors who may wait for an episode that is read and played again."""
EVENT: Final[Mapping[str, Any]] = {
    # Answered at once, and under no name that programs could call.
    "queue": False,
    "show_progress": "hidden",
    "api_visibility": "private",
}


def build(board: Board, submissions: Path) -> gr.Blocks:
    """Make the page.

    Args:
        board: What it shows.
        submissions: Where the folders of its entries are, for single episodes.
    """
    names = [protocol.name for protocol in board.protocols]
    demo = gr.Blocks(title=TITLE, analytics_enabled=False, fill_width=True)
    with demo:
        _plain(header(board))
        notice = _plain("")
        protocol = gr.Dropdown(
            names,
            value=names[0],
            label="Protocol",
            visible=len(names) > 1,
            elem_classes="lb-protocol",
        )
        with gr.Tabs(selected="board") as tabs:
            parts = (
                _board(board),
                _stability(board),
                _curves(board),
                _entry(board, submissions),
                _compare(board),
                _coverage(board),
            )
            with gr.Tab(TABS["submit"], id="submit"):
                gr.Markdown(_text("submit"), elem_classes="lb-prose")
                _plain(page(view_link("tab=submit")))
            with gr.Tab(TABS["about"], id="about"):
                gr.Markdown(_text("about"), elem_classes="lb-prose")
                _plain(published_tables() + page(view_link("tab=about")))
        _plain(footer(board))
        _wire(demo, Page(board, parts, tabs, notice, protocol))
    return demo


def _plain(content: str) -> gr.HTML:
    return gr.HTML(content, js_on_load=None, apply_default_css=False)


def _text(name: str) -> str:
    return (FOLDER / "texts" / f"{name}.md").read_text("utf-8")


def _board(board: Board) -> TabPart:
    choices, state = _offered(board, "board")
    with gr.Tab(TABS["board"], id="board"):
        controls: Controls = {"panels": _pills(choices, state)}
        with gr.Row(elem_classes="lb-first"):
            with gr.Column(scale=2, min_width=320):
                answered = _content(partial(answer, board), state)
            with gr.Column(scale=3, min_width=320):
                plotted = _plot(partial(plane, board), state)
        with gr.Row(elem_classes="lb-controls"):
            controls["search"] = gr.Textbox(
                label="Search", placeholder="name, recipe, author, model", elem_id="search"
            )
            track = _one(choices, state, "track", "Track")
        with gr.Accordion("Filters and columns", open=False):
            with gr.Row(elem_classes="lb-controls"):
                controls |= {
                    "kinds": _several(choices, "kinds", "Kind"),
                    "bases": _several(choices, "bases", "Base model"),
                    "inits": _several(choices, "inits", "Init"),
                    "badges": _several(choices, "badges", "Badges (all)"),
                    "size": _one(choices, state, "size", "Parameters"),
                    "sort": _one(choices, state, "sort", "Sort by"),
                }
            shown = list(state.columns)
            controls["columns"] = gr.CheckboxGroup(choices["columns"], value=shown, label="Columns")
            controls["reverse"] = gr.Checkbox(False, label="Worst first", elem_id="reverse")
            controls["track"] = track
        drawn: tuple[tuple[gr.components.Component, Draw], ...] = (
            answered,
            plotted,
            _content(partial(board_page, board), state),
            # A panel that is not shown any more cannot be sorted by.
            (controls["sort"], lambda state: state.sort),
        )
    return TabPart("board", controls, drawn, steady=2)


def _pills(choices: Mapping[str, Choices], state: State) -> gr.Radio:
    return gr.Radio(
        choices["panels"], value=state.panels or None, label="Task", elem_classes="lb-pills",
        show_label=False, container=False,
        elem_id="panels" if state.tab == "board" else None,
    )  # fmt: skip


def _plot(draw: Draw, state: State) -> tuple[gr.Plot, Draw]:
    """A figure, as Gradio's plot gets it from Vega-Lite."""
    plot = gr.Plot(show_label=False, container=False, buttons=[], elem_classes="lb-plot")
    # What `postprocess` would make of an object of the library altair.
    plot.value = draw(state)
    return plot, draw


def _stability(board: Board) -> TabPart:
    choices, state = _offered(board, "stability")
    with gr.Tab(TABS["stability"], id="stability"):
        with gr.Row(elem_classes="lb-controls"):
            controls: Controls = {
                "panels": _pills(choices, state),
                "measure": _one(choices, state, "measure", "Stability measure"),
                "base": _one(choices, state, "base", "Base model"),
            }
        contents = (
            _plot(partial(against_chart, board), state),
            _content(partial(stability_page, board), state),
            _plot(partial(gains_chart, board), state),
            _content(partial(choices_page, board), state),
        )
        return TabPart("stability", controls, contents)


def _curves(board: Board) -> TabPart:
    choices, state = _offered(board, "curves")
    with gr.Tab(TABS["curves"], id="curves"):
        with gr.Row(elem_classes="lb-controls"):
            controls: Controls = {
                "entries": gr.Dropdown(
                    choices["entries"],
                    value=list(state.entries),
                    multiselect=True,
                    max_choices=MOST_CURVES,
                    label=f"Entries with training logs, at most {MOST_CURVES}",
                    scale=3,
                ),
                "x": _one(choices, state, "x", "Over"),
                "linear": gr.Checkbox(False, label="Linear axes"),
            }
        with gr.Row(elem_classes="lb-plots"):
            figures = [_plot(partial(curve_chart, name, board), state) for name in CURVES]
            figures.append(_plot(partial(survival_chart, board), state))
        content = _content(partial(curves_page, board), state)
        return TabPart("curves", controls, (*figures, content))


def _entry(board: Board, submissions: Path) -> TabPart:
    choices, state = _offered(board, "entry")

    def facts(state: State) -> str:
        # The same whichever of its episodes is shown.
        return entry_page(board, State(tab="entry", protocol=state.protocol, entry=state.entry))

    with gr.Tab(TABS["entry"], id="entry"):
        controls: Controls = {"entry": _one(choices, state, "entry", "Entry")}
        content = _content(facts, state)
        listed = _content(partial(episodes_page, board, None), state, "episodes.js")
        episode = (listed[0], partial(episodes_page, board, submissions))
        return TabPart("entry", controls, (content, listed), (episode,))


def _compare(board: Board) -> TabPart:
    choices, state = _offered(board, "compare")
    with gr.Tab(TABS["compare"], id="compare"):
        with gr.Row(elem_classes="lb-controls"):
            controls: Controls = {
                "first": _one(choices, state, "first", "First entry"),
                "second": _one(choices, state, "second", "Second entry"),
            }
        plotted = _plot(partial(compare_chart, board), state)
        return TabPart(
            "compare", controls, (plotted, _content(partial(compare_page, board), state))
        )


def _coverage(board: Board) -> TabPart:
    _, state = _offered(board, "coverage")
    with gr.Tab(TABS["coverage"], id="coverage"):
        return TabPart("coverage", {}, (_content(partial(coverage_page, board), state),))


def _offered(board: Board, tab: str) -> tuple[dict[str, Choices], State]:
    """What the newest protocol offers, and what a tab shows first."""
    state = filled(board, open_query(board, {"tab": tab}).state)
    return choices_of(board, state.protocol), state


def _one(
    choices: Mapping[str, Choices], state: State, name: str, label: str, elem_id: str | None = None
) -> gr.Dropdown:
    offered = choices[name]
    value = getattr(state, name)
    known = value if value in {each for _, each in offered} else None
    return gr.Dropdown(offered, value=known, label=label, elem_id=elem_id)


def _several(choices: Mapping[str, Choices], name: str, label: str) -> gr.Dropdown:
    return gr.Dropdown(choices[name], value=[], multiselect=True, label=label)


def _content(draw: Draw, state: State, *more: str) -> tuple[gr.HTML, Draw]:
    scripts = [(FOLDER / "assets" / name).read_text("utf-8") for name in ("content.js", *more)]
    return gr.HTML(draw(state), js_on_load="\n".join(scripts), apply_default_css=False), draw


def _wire_panels(whole: Page, part: TabPart) -> None:
    """Who asks for a task in one tab asks for it in the others, too."""
    others = [each for each in whole.parts if each is not part and "panels" in each.controls]
    parts = [part, *others]
    part.controls["panels"].input(
        partial(moved, whole, parts),
        inputs=[whole.protocol, *(each for one in parts for each in one.controls.values())],
        outputs=[
            *(component for one in parts for component, _ in one.contents),
            *(each.controls["panels"] for each in others),
        ],
        trigger_mode="always_last",
        **EVENT,
    )


def _wire(demo: gr.Blocks, whole: Page) -> None:
    """Tie controls and links to what they change."""
    contents: list[gr.HTML] = []
    for part in whole.parts:
        contents += [each for each, _ in part.contents if isinstance(each, gr.HTML)]
        own = {name: each for name, each in part.controls.items() if name != "panels"}
        whole_tab = [own.pop("track")] if part.steady else []
        for controls, start in ((list(own.values()), part.steady), (whole_tab, 0)):
            if controls:
                gr.on(
                    [control.input for control in controls],
                    partial(used, whole, part, start=start),
                    inputs=[whole.protocol, *part.controls.values()],
                    outputs=[component for component, _ in part.contents[start:]],
                    trigger_mode="always_last",
                    **EVENT,
                )
        if "panels" in part.controls:
            _wire_panels(whole, part)

    def follow(shown: str, event: gr.EventData) -> Updates:
        return opened(whole, parsed(str(event.href)), shown)

    reading = CapacityLimiter(SLOW_AT_ONCE)

    async def fetch(event: gr.EventData) -> Updates:
        if reading.statistics().tasks_waiting >= MAX_WAITING:
            # What stands in its place asks again.
            return {whole.slow[0]: gr.skip()}
        # Who waits holds no thread that the others need.
        asked = parsed(str(event.href))
        return await run_sync(fetched, whole, asked, limiter=reading)

    def open_page(shown: str, request: gr.Request) -> Updates:
        return opened(whole, parsed(str(request.query_params)), shown)

    def change_protocol(chosen: str) -> Updates:
        return opened(whole, {"protocol": chosen}, "")

    protocol = [whole.protocol]
    followed = [component.select for component in contents]
    gr.on(followed, follow, inputs=protocol, outputs=whole.all, **EVENT)
    gr.on([each.input for each in whole.slow], fetch, outputs=whole.slow, **EVENT)
    demo.load(open_page, inputs=protocol, outputs=whole.all, **EVENT)
    whole.protocol.input(change_protocol, inputs=protocol, outputs=whole.all, **EVENT)
