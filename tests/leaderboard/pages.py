"""The text of a page, without its elements."""

import html
import re


def text_of(page: str) -> str:
    """All texts of a page on one line."""
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", page))).strip()


def rows_of(page: str) -> list[list[str]]:
    """Cells of the first table, row by row."""
    table = page[page.index("<tbody>") : page.index("</tbody>")]
    return [
        [text_of(cell) for cell in re.findall(r"<t[hd].*?</t[hd]>", row)]
        for row in re.findall(r"<tr.*?</tr>", table)
    ]
