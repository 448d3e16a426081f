"""Gradio components as the page uses them, each with the function that draws its content."""

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
    """HTML whose links the page does not handle."""
    return gr.HTML(content, js_on_load=None, apply_default_css=False)


def drawn_for(query: str = "") -> gr.Textbox:
    """A hidden field with the state for which a tab was drawn (`events.TabPart`)."""
    return gr.Textbox(query, visible=False)


def pills(choices: Mapping[str, Choices], state: State) -> gr.Radio:
    """The selection of a task."""
    return gr.Radio(
        choices["panels"], value=state.panels or None, label="Task", elem_classes="lb-pills",
        show_label=False, container=False,
        elem_id="panels" if state.tab == "board" else None,
    )  # fmt: skip


def figure(draw: Draw, first: State | None = None) -> tuple[gr.Plot, Draw]:
    """A figure in Vega-Lite for Gradio's plot component; empty until its tab is opened."""
    plot = gr.Plot(show_label=False, container=False, buttons=[], elem_classes="lb-plot")
    # This is what `postprocess` would make of an altair object.
    plot.value = draw(first) if first else None
    return plot, draw


def offered_by(board: Board, tab: str) -> tuple[dict[str, Choices], State]:
    """The choices of the newest protocol, and the initial state of a tab."""
    state = filled(board, open_query(board, {"tab": tab}).state)
    return choices_of(board, state.protocol), state


def dropdown(choices: Mapping[str, Choices], state: State, name: str, label: str) -> gr.Dropdown:
    """A selection of one value for a field of `State`."""
    offered = choices[name]
    value = getattr(state, name)
    known = value if value in {each for _, each in offered} else None
    return gr.Dropdown(offered, value=known, label=label)


def dropdown_of_many(choices: Mapping[str, Choices], name: str, label: str) -> gr.Dropdown:
    """A selection of several values for a field of `State`."""
    return gr.Dropdown(choices[name], value=[], multiselect=True, label=label)


def content(draw: Draw, *more: str, first: State | None = None) -> tuple[gr.HTML, Draw]:
    """Text and tables; empty until the tab is opened."""
    scripts = [(ASSETS / name).read_text("utf-8") for name in ("content.js", *more)]
    shown = draw(first) if first else ""
    return gr.HTML(shown, js_on_load="\n".join(scripts), apply_default_css=False), draw
