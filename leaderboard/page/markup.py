"""Pieces of the page's HTML: everything that comes in as a `str` is escaped, `Markup` is not.

Texts of submissions are hostile until shown: `line` and `block` write hidden characters as their
code points and escape the rest. All HTML of the page is made of these functions and of literals.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup, escape

from leaderboard.table import cells

NOTHING: Final = Markup("")
_LONG: Final = 1_200
"""Characters of a text that is shown whole."""
_MANY_LINES: Final = 14

Piece = str | Markup


@dataclass(frozen=True, slots=True)
class Head:
    """One column of a small table.

    Attributes:
        title: What stands above it.
        number: Its cells are numbers: they stand to the right.
        text: What it is, for those who point at it.
    """

    title: Piece
    number: bool = False
    text: str = ""


def line(text: str | None) -> Markup:
    """A foreign text on one line, whatever it holds; a dash for none."""
    return escape(cells.text(text))


def block(text: str, name: str = "text") -> Markup:
    """A foreign text of several lines, with its blanks and its line ends.

    A long one scrolls in a frame of its own, also with the keys; all others are as high as they
    are.

    Args:
        text: Any text.
        name: What a screen reader calls the frame.
    """
    # The report's package is more than the start of the page needs.
    from benchmark.html_text import visible

    if len(text) <= _LONG and text.count("\n") < _MANY_LINES:
        return element("pre", visible(text), "lb-text")
    return element(
        "pre", visible(text), "lb-text lb-long", tabindex="0", role="region", aria_label=name
    )


def copied(text: str, name: str) -> Markup:
    """A text of ours with a button that copies it (`assets/page.js`).

    Args:
        text: The text, such as a command.
        name: What it does, in words.
    """
    button = element("button", "Copy", "lb-copy", type="button", aria_label=f"Copy: {name}")
    return element("div", element("code", line(text)) + button, "lb-copied")


def joined(pieces: Iterable[Piece], between: str = "") -> Markup:
    """Pieces one after the other."""
    return Markup(str(escape(between)).join(map(escape, pieces)))  # noqa: S704 - all were escaped


def element(name: str, content: Piece = NOTHING, css: str = "", **attributes: str) -> Markup:
    """An element of a name of ours.

    Args:
        name: Its name.
        content: What is in it.
        css: Its classes.
        attributes: Its other attributes; an underscore in a name is a hyphen, one in front goes.
    """
    # A table has thousands of these, and `Markup.format` takes ten times as long.
    given = f' class="{escape(css)}"' if css else ""
    for key, value in attributes.items():
        given += f' {key.lstrip("_").replace("_", "-")}="{escape(value)}"'
    return Markup(f"<{name}{given}>{escape(content)}</{name}>")  # noqa: S704 - escaped


def link(query: str, text: Piece, css: str = "", **attributes: str) -> Markup:
    """A link within the page, which the page follows without being reloaded."""
    return element("a", text, css, href=f"?{query}", data_go="", **attributes)


def outside(address: str | None, text: Piece) -> Markup:
    """A link to an address of a submission; nothing if it is none that a browser may follow.

    The check of submissions lets plain https addresses pass and no others; this does not rely on
    it.
    """
    from benchmark.submissions.format.texts import check_link

    if not address:
        return NOTHING
    try:
        check_link(address)
    except ValueError:
        return line(address)
    return element("a", text, href=address, rel="nofollow noopener noreferrer", target="_blank")


def table(
    caption: Piece,
    heads: Sequence[Head],
    rows: Iterable[Sequence[Piece]],
    css: str = "",
    shown_caption: bool = False,
) -> Markup:
    """A table whose first column names the rows, in a frame that scrolls sideways.

    Args:
        caption: What it shows; also the frame's name.
        heads: Its columns.
        rows: Cells of each row.
        css: Further classes.
        shown_caption: Whether the caption is seen, or for screen readers alone.
    """
    kinds = ["num" if head.number else "" for head in heads]
    top = joined(
        element("th", head.title, kind, scope="col", **({"title": head.text} if head.text else {}))
        for head, kind in zip(heads, kinds, strict=True)
    )
    body = joined(
        element(
            "tr",
            joined(
                element("td", cell, kind) if place else element("th", cell, kind, scope="row")
                for place, (kind, cell) in enumerate(zip(kinds, row, strict=True))
            ),
        )
        for row in rows
    )
    # What a pointer sees as a title can also be unfolded, by key or touch.
    told = facts((head.title, head.text) for head in heads if head.text)
    more = folded("What the columns mean", told) if any(head.text for head in heads) else NOTHING
    return framed(caption, top, body, css, shown_caption) + more


def framed(
    caption: Piece, head: Markup, body: Markup, css: str = "", shown_caption: bool = False
) -> Markup:
    """A table of a row of heads and of rows, as `table` makes them."""
    parts = [
        element("caption", caption, "" if shown_caption else "lb-sr"),
        element("thead", element("tr", head)),
        element("tbody", body),
    ]
    return scrolled(caption, element("table", joined(parts), f"lb-table {css}".rstrip()))


def scrolled(name: Piece, content: Markup) -> Markup:
    """A frame that scrolls sideways, also with the keys."""
    label = Markup(name).striptags() if isinstance(name, Markup) else name  # noqa: S704
    return element("div", content, "lb-scroll", tabindex="0", role="region", aria_label=label)


def facts(pairs: Iterable[tuple[Piece, Piece]]) -> Markup:
    """Names and what they stand for; pairs without content are left out."""
    lines = joined(
        element("dt", name) + element("dd", content) for name, content in pairs if content
    )
    return element("dl", lines, "lb-facts")


def folded(summary: Piece, content: Piece) -> Markup:
    """Something that is unfolded on demand."""
    return element("details", element("summary", summary) + content, "lb-details")


def note(text: Piece, css: str = "") -> Markup:
    """A remark below or above what it is about."""
    return element("p", text, f"lb-note {css}".rstrip())


def view_link(query: str, *further: Markup) -> Markup:
    """The address of what is shown; the page's address follows it."""
    own = link(query, "Link to this view", "lb-view")
    return element("p", joined([own, *further], " \u00b7 "), "lb-foot")


def page(*parts: Piece) -> str:
    """What a tab shows, for `gradio.HTML`."""
    return str(element("div", joined(parts), "lb"))
