"""`arlarena-bench play`: play one episode in the terminal."""

import argparse
import random
import sys
from collections.abc import Mapping

from rich.console import Console
from rich.text import Text

from benchmark.cli.say import say
from benchmark.cli.tables import plain
from benchmark.stats.formatting import with_unit
from tasks.base import Task
from tasks.chat.messages import shown_text
from tasks.episode import View
from tasks.errors import UserError
from tasks.options import chosen_task
from tasks.panels import Panel, PanelEntry

_QUIT = "q"
_INTERRUPT = "\x03"
_END_OF_INPUT = "\x04"
_ESCAPE_LENGTH = 3


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    task = chosen_task(arguments.task, arguments.set)
    panel = task.panel(arguments.panel)
    task.require()
    entry = _entry(panel, arguments.episode)
    console = Console(highlight=False)
    about = task.info.presentation
    console.print(plain(f"{about.title}, episode {entry.id} of {panel.name}: {about.summary}"))
    if asked := task.describe(entry):
        console.print(plain(f"instruction: {asked}"))
    console.print(plain(_help(task)))
    episode = task.episode(entry, panel.info.max_turns)
    reward = 0.0
    try:
        view = episode.reset()
        for turn in range(1, panel.info.max_turns + 1):
            _show(console, task, view, arguments.prompt)
            action = _ask(f"turn {turn} of {panel.info.max_turns}> ", about.keys)
            if action is None:
                console.print("\nstopped")
                return 0
            step = episode.step(task.typed_response(action))
            reward += step.reward
            valid = "" if step.action_ok else "  (not a valid action)"
            console.print(plain(f"{action}{valid}  reward {step.reward:+.1f}\n"))
            view = step.view
            if step.outcome is not None:
                _show(console, task, view, whole_prompt=False)
                verdict = "solved" if step.outcome.success else "not solved"
                score = (
                    f"{about.score_name} {with_unit(f'{step.outcome.score:.1f}', about.score_unit)}"
                )
                console.print(plain(f"{verdict} in {turn} turns, return {reward:.1f}, {score}"))
                for name, value in step.info.items():
                    console.print(plain(f"  {name}: {value}"))
                break
    finally:
        episode.close()
    return 0


def _entry(panel: Panel, wanted: str | None) -> PanelEntry:
    if wanted is None:
        return random.choice(panel.entries)
    if wanted.isascii() and wanted.isdigit() and int(wanted) < len(panel.entries):
        return panel.entries[int(wanted)]
    for entry in panel.entries:
        if entry.id == wanted:
            return entry
    last = panel.entries[-1].id
    raise UserError(
        f"panel {panel.name} has no episode {wanted!r}; use an id from "
        f"{panel.entries[0].id} to {last}, or a number from 0 to "
        f"{len(panel.entries) - 1}"
    )


def _help(task: Task) -> str:
    about = task.info.presentation
    if about.keys and sys.stdin.isatty():
        keys = " ".join(sorted(key for key in about.keys if key.isprintable()))
        return f"keys: arrows or {keys}; {_QUIT} quits"
    return f"{about.typing} and press Enter; an empty line quits"


def _show(console: Console, task: Task, view: View, whole_prompt: bool) -> None:
    if whole_prompt:
        for message in view.messages:
            console.print(plain(shown_text(message)))
        return
    tiles = task.info.presentation.tiles
    # Without colors, the symbols themselves are easier to read.
    colors = console.color_system and not console.no_color
    for line in view.observation.splitlines():
        if colors and tiles and line and set(line) <= set(tiles):
            console.print(_drawn(line, task))
        else:
            console.print(plain(line))
    if view.admissible and not tiles:
        console.print(plain("actions: " + ", ".join(view.admissible)))


def _drawn(line: str, task: Task) -> Text:
    """Draw a row of tiles, two columns per cell, in the tiles' own colors."""
    text = Text()
    for symbol in line:
        tile = task.info.presentation.tiles[symbol]
        glyph = {"": " ", "dot": "."}.get(tile.glyph, symbol)
        text.append(f"{glyph} ", style=f"bold #202020 on {tile.fill}")
    return text


def _ask(prompt: str, keys: Mapping[str, str]) -> str | None:
    """Read one action: a single key if the task defines keys and stdin is a terminal, else a line.

    Returns:
        The action; None to quit.
    """
    if keys and sys.stdin.isatty():
        say(prompt, end="", flush=True)
        while True:
            key = _read_key()
            if key in keys:
                return keys[key]
            if key in (_QUIT, _END_OF_INPUT, _INTERRUPT, ""):
                return None
    try:
        return input(prompt).strip() or None
    except EOFError:
        return None


def _read_key() -> str:
    """Read one key press from the terminal without waiting for Enter; arrows send three bytes."""
    import os
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setraw(descriptor)
        return os.read(descriptor, _ESCAPE_LENGTH).decode("utf-8", "replace")
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
