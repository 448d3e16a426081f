"""Prompts: a task's `prompt.md`, as text and as a template."""

from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, StrictUndefined, Template


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a model is told, with places for what changes.

    Attributes:
        text: As written; its hash is part of the protocol.
        template: The same, to be filled in.
    """

    text: str
    template: Template


def read_prompt(folder: Path) -> Prompt:
    """Read the `prompt.md` of a task's folder."""
    text = (folder / "prompt.md").read_text("utf-8")
    # No autoescape: the text goes to a model, not to a browser.
    environment = Environment(undefined=StrictUndefined, autoescape=False)  # noqa: S701
    return Prompt(text, environment.from_string(text))
