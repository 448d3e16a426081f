"""Gradio's components as the page uses them: what each shows, and what draws it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import gradio as gr

from leaderboard.board.board import Board
from leaderboard.page.events import Draw
from leaderboard.page.query import Choices, choices_of, open_query
from leaderboard.page.state import State, filled

ASSETS: Final = Path(__file__).parents[1] / "assets"


def plain_html(content: str) -> gr.HTML:
    """HTML without links that the page follows."""
    return gr.HTML(content, js_on_load=None, apply_default_css=False)


def drawn_for(query: str = "") -> gr.Textbox:
    """Holds what a tab was drawn for (`events.TabPart`); nobody sees it."""
    return gr.Textbox(query, visible=False)


def pills(choices: Mapping[str, Choices], state: State) -> gr.Radio:
    """The choice of a task."""
    return gr.Radio(
        choices["panels"], value=state.panels or None, label="Task", elem_classes="lb-pills",
        show_label=False, container=False,
        elem_id="panels" if state.tab == "board" else None,
    )  # fmt: skip


def figure(draw: Draw, first: State | None = None) -> tuple[gr.Plot, Draw]:
    """A figure, as Gradio's plot gets it from Vega-Lite; empty until its tab is opened."""
    plot = gr.Plot(show_label=False, container=False, buttons=[], elem_classes="lb-plot")
    # What `postprocess` would make of an object of the library altair.
    plot.value = draw(first) if first else None
    return plot, draw


def offered_by(board: Board, tab: str) -> tuple[dict[str, Choices], State]:
    """What the newest protocol offers, and what a tab shows first."""
    state = filled(board, open_query(board, {"tab": tab}).state)
    return choices_of(board, state.protocol), state


def dropdown(choices: Mapping[str, Choices], state: State, name: str, label: str) -> gr.Dropdown:
    """The choice of one value of a field of `State`."""
    offered = choices[name]
    value = getattr(state, name)
    known = value if value in {each for _, each in offered} else None
    return gr.Dropdown(offered, value=known, label=label)


def dropdown_of_many(choices: Mapping[str, Choices], name: str, label: str) -> gr.Dropdown:
    """The choice of several values of a field of `State`."""
    return gr.Dropdown(choices[name], value=[], multiselect=True, label=label)


def content(draw: Draw, *more: str, first: State | None = None) -> tuple[gr.HTML, Draw]:
    """Text and tables; nothing until the tab is opened."""
    scripts = [(ASSETS / name).read_text("utf-8") for name in ("content.js", *more)]
    shown = draw(first) if first else ""
    return gr.HTML(shown, js_on_load="\n".join(scripts), apply_default_css=False), draw
