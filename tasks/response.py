"""The response format of the environment tasks: `<think>...</think><action>...</action>`.

One parser for every task. The rule is part of the protocol, so a change of behavior here must
change `CONTRACT`.
"""

import re
from dataclasses import dataclass

CONTRACT = "think-action-1"
"""Name of this parse rule in the protocol."""

# ASCII: with Unicode case folding, U+212A (Kelvin sign) would pass for the k of "think".
_TAG = re.compile(r"<(/?)(think|action)>", re.IGNORECASE | re.ASCII)
_WELL_FORMED = [("", "think"), ("/", "think"), ("", "action"), ("/", "action")]


@dataclass(frozen=True, slots=True)
class ParsedResponse:
    """What one response says.

    Attributes:
        thought: Text of the think block; empty unless `format_ok`.
        action: Text of the action block without surrounding white space, as the model wrote it,
            or None where no complete action block exists.
        format_ok: Each tag once, in order, with nothing but white space around the blocks.
    """

    thought: str
    action: str | None
    format_ok: bool


def parse_response(text: str) -> ParsedResponse:
    """Read a response; linear in its length, never raises.

    Tags are matched without regard to (ASCII) case. In a response that is not well-formed, the
    first action block to be completed is still returned; of nested blocks this is the innermost.
    """
    tags = list(_TAG.finditer(text))
    kinds = [(tag[1], tag[2].lower()) for tag in tags]
    if kinds == _WELL_FORMED:
        think, end_think, action, end_action = tags
        outside = (
            text[: think.start()],
            text[end_think.end() : action.start()],
            text[end_action.end() :],
        )
        if not any(part.strip() for part in outside):
            return ParsedResponse(
                thought=text[think.end() : end_think.start()].strip(),
                action=text[action.end() : end_action.start()].strip(),
                format_ok=True,
            )
    opened: int | None = None
    for tag, kind in zip(tags, kinds, strict=True):
        if kind == ("", "action"):
            opened = tag.end()
        elif kind == ("/", "action") and opened is not None:
            return ParsedResponse("", text[opened : tag.start()].strip(), format_ok=False)
    return ParsedResponse("", None, format_ok=False)


def normalize_action(action: str) -> str:
    """Lower-case an action and collapse its white space: `" Go  Up "` becomes `"go up"`."""
    return " ".join(action.lower().split())


def format_response(thought: str, action: str) -> str:
    """Write a well-formed response; the inverse of `parse_response`."""
    return f"<think>{thought}</think><action>{action}</action>"
