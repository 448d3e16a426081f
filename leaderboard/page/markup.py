"""Builds the page's HTML: every `str` argument is escaped, `Markup` is not.

Texts of submissions are untrusted: `line` and `block` write hidden characters as code points and
escape the rest. All HTML of the page is built from these functions and literals.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup, escape

from leaderboard.table import cells

NOTHING: Final = Markup("")
_LONG: Final = 1_200
"""Maximum length of a text shown without scrolling, in characters."""
_MANY_LINES: Final = 14

Piece = str | Markup


@dataclass(frozen=True, slots=True)
class Head:
    """One column of a small table.

    Attributes:
        title: Its header.
        number: Whether its cells are numbers, which are right-aligned.
        text: Its explanation, as a tooltip.
    """

    title: Piece
    number: bool = False
    text: str = ""


def line(text: str | None) -> Markup:
    """Untrusted text on one line; a dash for None."""
    return escape(cells.text(text))


def block(text: str, name: str = "text") -> Markup:
    """Untrusted multi-line text, with its whitespace and line breaks.

    Long text scrolls in its own frame, which works with the keyboard, too.

    Args:
        text: Any text.
        name: The frame's name for screen readers.
    """
    # Imported here, because the page does not need it to start.
    from benchmark.html_text import visible

    if len(text) <= _LONG and text.count("\n") < _MANY_LINES:
        return element("pre", visible(text), "lb-text")
    return element(
        "pre", visible(text), "lb-text lb-long", tabindex="0", role="region", aria_label=name
    )


def copied(text: str, name: str) -> Markup:
    """Trusted text with a button that copies it (`assets/page.js`).

    Args:
        text: The text, such as a command.
        name: What it does, in words.
    """
    button = element("button", "Copy", "lb-copy", type="button", aria_label=f"Copy: {name}")
    return element("div", element("code", line(text)) + button, "lb-copied")


def joined(pieces: Iterable[Piece], between: str = "") -> Markup:
    """Concatenate pieces."""
    return Markup(str(escape(between)).join(map(escape, pieces)))  # noqa: S704 - all were escaped


def element(name: str, content: Piece = NOTHING, css: str = "", **attributes: str) -> Markup:
    """Build an element.

    Args:
        name: Its tag name, which must be trusted.
        content: Its content.
        css: Its classes.
        attributes: Its other attributes; underscores in names become hyphens, leading ones are
            removed.
    """
    # A table has thousands of these, and `Markup.format` takes ten times as long.
    given = f' class="{escape(css)}"' if css else ""
    for key, value in attributes.items():
        given += f' {key.lstrip("_").replace("_", "-")}="{escape(value)}"'
    return Markup(f"<{name}{given}>{escape(content)}</{name}>")  # noqa: S704 - escaped


def link(query: str, text: Piece, css: str = "", **attributes: str) -> Markup:
    """A link within the page, which is followed without a reload."""
    return element("a", text, css, href=f"?{query}", data_go="", **attributes)


def outside(address: str | None, text: Piece) -> Markup:
    """A link to an address from a submission; empty if a browser must not follow it.

    The check of submissions already accepts only plain https addresses; this does not rely on it.
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
    """A table whose first column names the rows, in a frame that scrolls horizontally.

    Args:
        caption: Its caption; also the frame's name.
        heads: Its columns.
        rows: Cells of each row.
        css: Further classes.
        shown_caption: Whether the caption is visible, or only for screen readers.
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
    # Column tooltips can also be unfolded, by keyboard or touch.
    told = facts((head.title, head.text) for head in heads if head.text)
    more = folded("What the columns mean", told) if any(head.text for head in heads) else NOTHING
    return framed(caption, top, body, css, shown_caption) + more


def framed(
    caption: Piece, head: Markup, body: Markup, css: str = "", shown_caption: bool = False
) -> Markup:
    """A table built from a row of headers and from rows, as in `table`."""
    parts = [
        element("caption", caption, "" if shown_caption else "lb-sr"),
        element("thead", element("tr", head)),
        element("tbody", body),
    ]
    return scrolled(caption, element("table", joined(parts), f"lb-table {css}".rstrip()))


def scrolled(name: Piece, content: Markup) -> Markup:
    """A frame that scrolls horizontally, with the keyboard, too."""
    label = Markup(name).striptags() if isinstance(name, Markup) else name  # noqa: S704
    return element("div", content, "lb-scroll", tabindex="0", role="region", aria_label=label)


def facts(pairs: Iterable[tuple[Piece, Piece]]) -> Markup:
    """A list of terms with descriptions; pairs without content are left out."""
    lines = joined(
        element("dt", name) + element("dd", content) for name, content in pairs if content
    )
    return element("dl", lines, "lb-facts")


def folded(summary: Piece, content: Piece) -> Markup:
    """Content that is unfolded on demand."""
    return element("details", element("summary", summary) + content, "lb-details")


def note(text: Piece, css: str = "") -> Markup:
    """A note above or below the content that it refers to."""
    return element("p", text, f"lb-note {css}".rstrip())


def view_link(query: str, *further: Markup) -> Markup:
    """A link to the current view; the browser's address follows it."""
    own = link(query, "Link to this view", "lb-view")
    return element("p", joined([own, *further], " \u00b7 "), "lb-foot")


def page(*parts: Piece) -> str:
    """The content of a tab, for `gradio.HTML`."""
    return str(element("div", joined(parts), "lb"))
