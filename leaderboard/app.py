"""The page: tabs with their controls, and the events of these controls.

    demo = build(load(Path("leaderboard.parquet")), Path("submissions"))

It shows only what is in the board's file. `leaderboard.tabs` makes the contents of tabs, as HTML
with escaped text; this module has Gradio's components and their wiring. There are two kinds of
events, neither of which triggers another:

- a visitor uses a control: the controls of its tab are read, and its tab is redrawn;
- a visitor opens the page or follows a link in it: the query says which tab is shown and how.

`leaderboard.serve.server` serves it.
"""

import re
from functools import partial
from pathlib import Path
from typing import Final

import gradio as gr
from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from leaderboard.board.board import Board
from leaderboard.board.curves import CURVES, SIGNALS
from leaderboard.page.components import (
    content,
    drawn_for,
    dropdown,
    dropdown_of_many,
    figure,
    offered_by,
    pills,
    plain_html,
)
from leaderboard.page.events import (
    Controls,
    Draw,
    Page,
    TabPart,
    Updates,
    key_of,
    on_control,
    on_following_tab,
    on_link,
    on_panels,
    on_protocol,
    on_slow_parts,
    on_tab,
)
from leaderboard.page.header import TITLE, address_of, footer
from leaderboard.page.markup import page, view_link
from leaderboard.page.query import choices_of, parsed
from leaderboard.page.state import MOST_CURVES, State
from leaderboard.tabs.answer import answer, summary
from leaderboard.tabs.board import board_page
from leaderboard.tabs.collapses import aligned_chart, collapses_lead, collapses_page
from leaderboard.tabs.compare import compare_chart, compare_curves, compare_lead, compare_page
from leaderboard.tabs.coverage import coverage_page
from leaderboard.tabs.curve_charts import curve_chart, survival_chart
from leaderboard.tabs.curves import curves_page
from leaderboard.tabs.entry.head import entry_curve, entry_head
from leaderboard.tabs.entry.page import entry_page
from leaderboard.tabs.episodes import episodes_page
from leaderboard.tabs.paper import paper_chart, paper_lead, paper_page
from leaderboard.tabs.published import published_tables
from leaderboard.tabs.stability import (
    against_chart,
    choices_lead,
    choices_page,
    gains_chart,
    stability_lead,
    stability_page,
)
from leaderboard.tabs.submit import submit_lead
from leaderboard.tabs.success import success_chart

FOLDER: Final = Path(__file__).parent
TABS: Final = {
    "board": "Board",
    "stability": "Stability",
    "curves": "Curves",
    "collapses": "Collapses",
    "entry": "Entry",
    "compare": "Compare",
    "paper": "Paper",
    "coverage": "Coverage",
    "submit": "Submit",
    "about": "About",
}
OPEN_TAB: Final = (
    "protocol => [protocol, "
    "document.querySelector('[role=tab][aria-selected=true]')?.textContent.trim() ?? '']"
)
"""The selected protocol and the title of the open tab, in the browser."""
_FILE: Final = re.compile(r"`((?:benchmark|submissions)/[\w./]+\.(?:json|md|py))`")
SLOW_AT_ONCE: Final = 2
MAX_WAITING: Final = 30
"""Maximum number of visitors who wait for an episode to be read and replayed."""


def build(board: Board, submissions: Path) -> gr.Blocks:
    """Build the page.

    Args:
        board: The board to show.
        submissions: Folder of the board's submissions, for single episodes.
    """
    protocols = choices_of(board, board.protocols[0].name)["protocol"]
    demo = gr.Blocks(title=TITLE, analytics_enabled=False, fill_width=True)
    with demo:
        notice = plain_html("")
        protocol = gr.Dropdown(
            protocols,
            value=board.protocols[0].name,
            label="Protocol",
            visible=len(protocols) > 1,
            elem_classes="lb-protocol",
        )
        with gr.Tabs(selected="board") as tabs:
            parts = (
                _board(board),
                _stability(board),
                _curves(board),
                _collapses(board),
                _entry(board, submissions),
                _compare(board),
                _paper(board),
                _coverage(board),
                _prose(board, "submit", _submit_page, partial(submit_lead, board)),
                _prose(board, "about", _about_page),
            )
        plain_html(footer(board))
        shown = drawn_for(board.protocols[0].name)
        for part in parts:
            # The initial contents of tabs are cached, so that nobody waits for their intervals and
            # tests.
            _, first = offered_by(board, part.tab)
            part.drawn(first)
        _wire(demo, Page(board, parts, tabs, notice, protocol, drawn_for(), shown))
    return demo


def text_of_tab(board: Board, name: str) -> str:
    """A Markdown text, with names of files in the repository as links."""
    text = (FOLDER / "texts" / f"{name}.md").read_text("utf-8")
    if not board.facts.repository:
        return text
    return _FILE.sub(lambda found: f"[{found[0]}]({address_of(board, found[1])})", text)


def _submit_page(state: State) -> str:
    return page(view_link(f"tab={state.tab}"))


def _about_page(state: State) -> str:
    return published_tables() + page(view_link(f"tab={state.tab}"))


def _prose(board: Board, name: str, draw: Draw, lead: Draw | None = None) -> TabPart:
    """A tab of prose, with drawn contents above and below it."""
    with gr.Tab(TABS[name], id=name) as tab:
        above = (content(lead),) if lead else ()
        gr.Markdown(text_of_tab(board, name), elem_classes="lb-prose")
        return TabPart(name, tab, drawn_for(), {}, (*above, content(draw)))


def _board(board: Board) -> TabPart:
    choices, state = offered_by(board, "board")
    with gr.Tab(TABS["board"], id="board") as tab:
        query = drawn_for()
        summed = content(partial(summary, board), first=state)
        controls: Controls = {"panels": pills(choices, state)}
        with gr.Row(elem_classes="lb-first"):
            with gr.Column(scale=2, min_width=320):
                answered = content(partial(answer, board), first=state)
            with gr.Column(scale=3, min_width=320):
                plotted = figure(partial(success_chart, board), first=state)
        with gr.Row(elem_classes="lb-controls"):
            controls["search"] = gr.Textbox(
                label="Search", placeholder="name, recipe, author, model", elem_id="search"
            )
            track = dropdown(choices, state, "track", "Track")
        with gr.Accordion("Filters and columns", open=False):
            with gr.Row(elem_classes="lb-controls"):
                controls |= {
                    "kinds": dropdown_of_many(choices, "kinds", "Kind"),
                    "bases": dropdown_of_many(choices, "bases", "Base model"),
                    "inits": dropdown_of_many(choices, "inits", "Init"),
                    "badges": dropdown_of_many(choices, "badges", "Badges (all)"),
                    "size": dropdown(choices, state, "size", "Parameters"),
                    "sort": dropdown(choices, state, "sort", "Sort by"),
                }
            shown = list(state.columns)
            controls["columns"] = gr.CheckboxGroup(choices["columns"], value=shown, label="Columns")
            controls["reverse"] = gr.Checkbox(False, label="Worst first", elem_id="reverse")
            controls["track"] = track
        drawn: tuple[tuple[gr.components.Component, Draw], ...] = (
            summed,
            answered,
            plotted,
            content(partial(board_page, board), first=state),
            # A panel that is no longer shown cannot be used for sorting.
            (controls["sort"], lambda state: state.sort),
        )
    part = TabPart(
        "board", tab, query, controls, drawn, reusable=3, reusable_by=("panels", "track")
    )
    query.value = key_of(board, part, state)
    return part


def _stability(board: Board) -> TabPart:
    choices, state = offered_by(board, "stability")
    with gr.Tab(TABS["stability"], id="stability") as tab:
        controls: Controls = {"panels": pills(choices, state)}
        with gr.Row(elem_classes="lb-controls"):
            controls |= {
                "measure": dropdown(choices, state, "measure", "Stability measure"),
                "base": dropdown(choices, state, "base", "Base model"),
            }
        contents = (
            content(partial(stability_lead, board)),
            figure(partial(against_chart, board)),
            content(partial(stability_page, board)),
            content(partial(choices_lead, board)),
            figure(partial(gains_chart, board)),
            content(partial(choices_page, board)),
        )
        return TabPart("stability", tab, drawn_for(), controls, contents)


def _curves(board: Board) -> TabPart:
    choices, state = offered_by(board, "curves")
    with gr.Tab(TABS["curves"], id="curves") as tab:
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
                "x": dropdown(choices, state, "x", "Horizontal axis"),
                "linear": gr.Checkbox(False, label="Linear axes"),
            }
        with gr.Row(elem_classes="lb-plots"):
            figures = [figure(partial(curve_chart, name, board)) for name in CURVES]
            figures.append(figure(partial(survival_chart, board)))
        text = content(partial(curves_page, board))
        return TabPart("curves", tab, drawn_for(), controls, (*figures, text), followed=drawn_for())


def _entry(board: Board, submissions: Path) -> TabPart:
    choices, state = offered_by(board, "entry")
    with gr.Tab(TABS["entry"], id="entry") as tab:
        controls: Controls = {"entry": dropdown(choices, state, "entry", "Entry")}
        head = content(partial(entry_head, board))
        curve = figure(partial(entry_curve, board))
        about = content(partial(entry_page, board))
        listed = content(partial(episodes_page, board, None), "episodes.js")
        episode = (listed[0], partial(episodes_page, board, submissions))
        contents = (head, curve, about, listed)
        # The first three are the same for all of its episodes.
        return TabPart("entry", tab, drawn_for(), controls, contents, (episode,), 3, ("entry",))


def _compare(board: Board) -> TabPart:
    choices, state = offered_by(board, "compare")
    with gr.Tab(TABS["compare"], id="compare") as tab:
        with gr.Row(elem_classes="lb-controls"):
            controls: Controls = {
                "first": dropdown(choices, state, "first", "First entry"),
                "second": dropdown(choices, state, "second", "Second entry"),
            }
        lead = content(partial(compare_lead, board))
        with gr.Row(elem_classes="lb-plots"):
            figures = [figure(partial(draw, board)) for draw in (compare_chart, compare_curves)]
        text = content(partial(compare_page, board))
        drawn = (lead, *figures, text)
        return TabPart("compare", tab, drawn_for(), controls, drawn, followed=drawn_for())


def _collapses(board: Board) -> TabPart:
    with gr.Tab(TABS["collapses"], id="collapses") as tab:
        lead = content(partial(collapses_lead, board))
        with gr.Row(elem_classes="lb-plots"):
            figures = [figure(partial(aligned_chart, name, board)) for name in SIGNALS]
        text = content(partial(collapses_page, board))
        return TabPart("collapses", tab, drawn_for(), {}, (lead, *figures, text))


def _paper(board: Board) -> TabPart:
    with gr.Tab(TABS["paper"], id="paper") as tab:
        contents = (
            content(partial(paper_lead, board)),
            figure(partial(paper_chart, board)),
            content(partial(paper_page, board)),
        )
        return TabPart("paper", tab, drawn_for(), {}, contents)


def _coverage(board: Board) -> TabPart:
    with gr.Tab(TABS["coverage"], id="coverage") as tab:
        return TabPart("coverage", tab, drawn_for(), {}, (content(partial(coverage_page, board)),))


def _wire_part(whole: Page, part: TabPart) -> None:
    """Connect a tab and its controls to what they change."""
    contents = [component for component, _ in part.contents]
    alone = {name: each for name, each in part.controls.items() if name != "panels"}
    own = [each for name, each in alone.items() if name not in part.reusable_by]
    wide = [each for name, each in alone.items() if name in part.reusable_by]
    for controls, start in ((own, part.reusable), (wide, 0)):
        if controls:
            gr.on(
                [control.input for control in controls],
                partial(on_control, whole, part, start=start),
                inputs=[whole.protocol, *part.controls.values()],
                outputs=[part.drawn_for, *contents[start:]],
                trigger_mode="always_last",
                **whole.event,
            )
    if "panels" in part.controls:
        # A task selected in one tab is also selected in the others.
        others = [each.controls["panels"] for each in whole.parts
                  if each is not part and "panels" in each.controls]  # fmt: skip
        # In the browser, before the server answers, so that a tab opened in the meantime shows it,
        # too.
        part.controls["panels"].input(
            None,
            inputs=part.controls["panels"],
            outputs=whole.task,
            js="panels => panels",
            **whole.event,
        )
        part.controls["panels"].input(
            partial(on_panels, whole, part, len(others)),
            inputs=[whole.protocol, *part.controls.values()],
            outputs=[part.drawn_for, *contents, whole.task, *others],
            trigger_mode="always_last",
            **whole.event,
        )
    own = [part.drawn_for, *part.controls.values()]
    if part.followed is None:
        part.opened_by.select(
            partial(on_tab, whole, part),
            inputs=[whole.protocol, whole.shown, whole.task, *own],
            outputs=[part.drawn_for, *contents],
            **whole.event,
        )
        return
    part.opened_by.select(
        partial(on_following_tab, whole, part),
        inputs=[whole.protocol, whole.shown, *whole.chosen, part.followed, *own],
        outputs=[part.drawn_for, part.followed, *part.controls.values(), *contents],
        **whole.event,
    )


def _wire(demo: gr.Blocks, whole: Page) -> None:
    """Connect controls and links to what they change."""
    contents: list[gr.HTML] = []
    for part in whole.parts:
        contents += [each for each, _ in part.contents if isinstance(each, gr.HTML)]
        _wire_part(whole, part)

    def follow(event: gr.EventData, shown: str, task: str, track: str, *drawn: str) -> Updates:
        return on_link(whole, parsed(str(event.href)), shown, *drawn, task=task, track=track)

    reading = CapacityLimiter(SLOW_AT_ONCE)

    async def fetch(event: gr.EventData) -> Updates:
        if reading.statistics().tasks_waiting >= MAX_WAITING:
            # The placeholder requests it again.
            return {whole.slow[0]: gr.skip()}
        # Waiting requests must not occupy threads that others need.
        asked = parsed(str(event.href))
        return await run_sync(on_slow_parts, whole, asked, limiter=reading)

    def open_page(request: gr.Request, shown: str, *drawn: str) -> Updates:
        return on_link(whole, parsed(str(request.query_params)), shown, *drawn)

    def change_protocol(chosen: str, title: str) -> Updates:
        tab = next((name for name, known in TABS.items() if known == title), None)
        return on_protocol(whole, chosen, tab)

    drawn = [part.drawn_for for part in whole.parts]
    shown, chosen = [whole.protocol, *drawn], [whole.protocol, *whole.chosen, *drawn]
    followed = [component.select for component in contents]
    gr.on(followed, follow, inputs=chosen, outputs=whole.all, **whole.event)
    gr.on([each.input for each in whole.slow], fetch, outputs=whole.slow, **whole.event)
    demo.load(open_page, inputs=shown, outputs=whole.all, **whole.event)
    # The server does not know which tab is open, so the browser sends it in place of the task.
    whole.protocol.input(
        change_protocol,
        inputs=[whole.protocol, whole.task],
        outputs=whole.all,
        js=OPEN_TAB,
        trigger_mode="always_last",
        **whole.event,
    )
