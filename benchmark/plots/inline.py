"""Inlines a matplotlib figure into a page, with the page's colors and font.

matplotlib writes style attributes, which the content security policy of the reports forbids, and
fixed colors, which do not change with the page's theme. Both become attributes that refer to
variables of the page's style sheet. Text remains text.
"""

import io
import re
from collections.abc import Mapping
from typing import Final
from xml.etree import ElementTree as ET

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.figure import Figure

from benchmark.html_text import visible

_LEFT_OUT: Final = ("style", "metadata", "clipPath")
"""Elements to drop; the caller clips artists that must stay inside their plot."""
_OF_THE_PAGE: Final = ("font-family", "stroke-linejoin", "stroke-linecap")
"""Declarations that the style sheet makes for all figures."""
_METADATA: Final = dict.fromkeys(("Creator", "Date", "Format", "Type"))
_LONG_NUMBER: Final = re.compile(r"-?\d+\.\d{3,}")


def inline_svg(
    figure: Figure,
    key: str,
    title: str,
    description: str,
    notes: Mapping[str, str],
    colors: Mapping[str, str],
) -> Markup:
    """Convert a figure to an element of an HTML page.

    The output is deterministic for a given version of matplotlib.

    Args:
        figure: The figure, with 72 dots per inch, so that one point is one CSS pixel. Nothing in it
            is clipped, and its texts are printable.
        key: Prefix of all ids in it, unique within the page.
        title: What it shows, for screen readers.
        description: The same in one sentence.
        notes: Tooltips, by the `gid` of their artists.
        colors: The CSS value for each color of the figure, given as `#rrggbb`.

    Raises:
        KeyError: The figure has a color that is not in `colors`.
    """
    file = io.BytesIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": key}):
        figure.savefig(file, format="svg", metadata=_METADATA)
    drawn = _cleaned(ET.fromstring(file.getvalue()), notes, colors)  # noqa: S314 - ours
    width, height = (f"{72 * inches:g}" for inches in figure.get_size_inches())
    root = ET.Element(
        "svg",
        {
            "class": "figure",
            "viewBox": f"0 0 {width} {height}",
            "width": width,
            "height": height,
            "role": "img",
            "aria-labelledby": f"{key}-title {key}-description",
        },
    )
    _add(root, "title", title).set("id", f"{key}-title")
    _add(root, "desc", description).set("id", f"{key}-description")
    root.extend(drawn)
    return Markup(ET.tostring(root, "unicode"))  # noqa: S704 - ElementTree escapes all texts


def _cleaned(
    element: ET.Element, notes: Mapping[str, str], colors: Mapping[str, str]
) -> ET.Element:
    """Copy an element without namespaces, empty groups, unreferenced ids and styles."""
    copy = ET.Element(element.tag.rpartition("}")[2])
    copy.text = (element.text or "").strip() or None
    for name, value in element.attrib.items():
        if name == "style":
            copy.attrib |= _attributes(value, colors)
        elif name == "id" and copy.tag == "g":
            if value in notes:
                _add(copy, "title", notes[value])
        elif name != "clip-path" and not value.startswith("rotate(-0 "):
            copy.set(name.rpartition("}")[2], _LONG_NUMBER.sub(_rounded, " ".join(value.split())))
    for child in element:
        if child.tag.endswith(_LEFT_OUT):
            continue
        part = _cleaned(child, notes, colors)
        if part.tag not in ("g", "defs") or len(part):
            copy.append(part)
    return copy


def _attributes(style: str, colors: Mapping[str, str]) -> dict[str, str]:
    declarations = [part.split(":") for part in style.split(";") if part.strip()]
    values = {name.strip(): value.strip() for name, value in declarations}
    return {
        name: colors[value] if value.startswith("#") else value
        for name, value in values.items()
        if name not in _OF_THE_PAGE
    }


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")


def _add(parent: ET.Element, tag: str, text: str) -> ET.Element:
    child = ET.SubElement(parent, tag)
    child.text = visible(text, tag=False).unescape()
    return child
