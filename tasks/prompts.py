"""Prompts: a task's `prompt.md`, as text and as a template."""

from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, StrictUndefined, Template, TemplateSyntaxError

from tasks.errors import UserError

PROMPT = "prompt.md"
"""A task's prompt, in its folder."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a model is told, with places for what changes.

    Attributes:
        text: As written; its hash is part of the protocol.
        template: The same, to be filled in.
    """

    text: str
    template: Template


def read_prompt(folder: Path, name: str = PROMPT) -> Prompt:
    """Read the `prompt.md` of a task's folder, or another prompt in it.

    Raises:
        UserError: It is missing or is not a template.
    """
    path = folder / name
    try:
        text = path.read_text("utf-8")
        # No autoescape: the text goes to a model, not to a browser.
        environment = Environment(undefined=StrictUndefined, autoescape=False)  # noqa: S701
        return Prompt(text, environment.from_string(text))
    except (OSError, UnicodeError) as error:
        raise UserError(f"the prompt {path} cannot be read: {error}") from error
    except TemplateSyntaxError as error:
        raise UserError(f"{path}, line {error.lineno}: {error}") from error
