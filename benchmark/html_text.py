"""Text of reports: readable numbers, and external text with nothing hidden."""

import math
import re
from typing import Any

from markupsafe import Markup, escape

from benchmark.stats.formatting import percent_text

# Characters that are invisible, reorder text or end the line unnoticed: controls (but tab and line
# feed), formats (bidirectional ones included), private use, lone surrogates, line separators,
# fillers and variation selectors that carry hidden data. page.js has the same list.
_HIDDEN = re.compile(
    "[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u0600-\u0605\u061c\u06dd\u070f"
    "\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164"
    "\ud800-\udfff\ue000-\uf8ff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff"
    "\U000f0000-\U0010ffff]"
)


def visible(text: str, tag: bool = True) -> Markup:
    """Escape text for HTML or SVG and write hidden characters as their code points.

    Args:
        text: Any text.
        tag: Mark code points with an element; False where only text is allowed.
    """
    mark = '<span class="hidden-character">{}</span>' if tag else "{}"
    parts, end = [], 0
    for match in _HIDDEN.finditer(text):
        parts.append(str(escape(text[end : match.start()])))
        parts.append(mark.format(f"U+{ord(match[0]):04X}"))
        end = match.end()
    parts.append(str(escape(text[end:])))
    return Markup("".join(parts))  # noqa: S704 - every part was escaped


def finalized(value: Any) -> Any:
    """Every text that a template inserts is escaped and shows its hidden characters."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def percent(share: float, decimals: int = 1) -> str:
    """Format `0.527` as `52.7%`, and a non-finite value as a dash."""
    if not math.isfinite(share):
        return "\u2013"
    return percent_text(share, decimals)


def number(value: float | None, decimals: int = 2) -> str:
    """Format a number with a real minus sign and grouped digits; a missing one as a dash."""
    if value is None or not math.isfinite(value):
        return "\u2013"
    text = f"{value:z,.{decimals}f}"
    return "\u2212" + text[1:] if text.startswith("-") else text
