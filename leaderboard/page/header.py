"""The header and footer of the page: its purpose, its source, and how to cite it."""

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from benchmark.evaluation.protocol import OPTIONS
from leaderboard.board.board import Board
from leaderboard.board.published import LINK
from leaderboard.board.rows import BoardRow
from leaderboard.page.glossary import explained, explanations
from leaderboard.page.markup import (
    block,
    element,
    joined,
    line,
    link,
    outside,
    page,
)
from leaderboard.page.methods import method_explanations
from leaderboard.page.state import State, query_of
from leaderboard.table import cells
from tasks.texts import counted, plural

TITLE: Final = "arlarena-bench leaderboard"
ABOUT: Final = (
    "Language-model agents trained with reinforcement learning: how often they succeed, and "
    "whether their training stays stable. Every episode replayed, every number with its interval."
)
_PAPER_BIBTEX: Final = """@misc{arlarena,
  title         = {ARLArena},
  year          = {2026},
  eprint        = {2602.21534},
  archivePrefix = {arXiv},
}"""


def header(board: Board) -> str:
    """Title, one sentence, links, and the explanations of terms."""
    rows = [row for each in board.protocols for row in board.rows(each.name)]
    trained = sum(row.kind == "trained" for row in rows)
    references = counted(len(rows) - trained, "reference")
    about = joined(
        [
            "Agents trained with reinforcement learning: how often they succeed, and whether their "
            "training stays stable or ", explained("collapse", "collapses"),
            f". {counted(trained, 'trained entry')}{_sizes(rows)} and {references}, "
            "every episode replayed.",
        ]
    )  # fmt: skip
    return page(
        element("h1", TITLE),
        element("p", about, "lb-lead"),
        element("p", joined(_links(board), " "), "lb-links"),
        _citation(board),
        explanations(),
        method_explanations(),
    )


def _sizes(rows: Sequence[BoardRow]) -> str:
    """The size range of the trained models."""
    sizes = [row.parameters for row in rows if row.kind == "trained" and row.parameters]
    if not sizes:
        return ""
    ends = dict.fromkeys(cells.number(end, "parameters") for end in (min(sizes), max(sizes)))
    return f" (models of {' to '.join(ends)} parameters)"


def _links(board: Board) -> list[Markup]:
    repository = board.facts.repository
    found = [outside(repository, "Code")] if repository else []
    found += [outside(LINK, "Paper"), element("a", "Data", href="leaderboard.json", download="")]
    found += [
        element("button", "Cite", "lb-word", type="button", popovertarget="lb-cite"),
        link(query_of(State(tab="submit")), "Submit an entry"),
    ]
    queue = board.facts.queue
    if queue is not None:
        text = f"Queue of submissions ({len(queue.waiting)})"
        found.append(link(query_of(State(tab="submit")), text))
    elif repository:
        found.append(outside(f"{repository}/pulls", "Queue of submissions"))
    return found


def _citation(board: Board) -> Markup:
    repository, commit, date = (
        getattr(board.facts, name) for name in ("repository", "commit", "date")
    )
    lines = ["@misc{arlarena-bench,", "  title        = {arlarena-bench leaderboard},"]
    lines += [f"  howpublished = {{{repository}}},"] if repository else []
    lines += [f"  year         = {{{date[:4]}}},"] if date else []
    lines += [f"  note         = {{commit {commit}}},"] if commit else []
    own = "\n".join([*lines, "}"])
    return element(
        "div",
        joined(
            [
                element("strong", "Cite"),
                block(own, "BibTeX of this leaderboard"),
                block(_PAPER_BIBTEX, "BibTeX of the paper"),
            ]
        ),
        "lb-explained lb-cite",
        id="lb-cite",
        popover="auto",
    )


def address_of(board: Board, path: str) -> str | None:
    """The URL of a file or folder in the repository; None if the board names no repository."""
    facts, kind = board.facts, "blob" if "." in path.rpartition("/")[2] else "tree"
    there = f"{facts.repository}/{kind}/{facts.commit or 'HEAD'}/{path}"
    return there if facts.repository else None


def in_repository(board: Board, path: str) -> Markup:
    """The name of a file or folder in the repository, with a link if possible."""
    name = element("code", path)
    return outside(address_of(board, path), name) or name


def footer(board: Board) -> str:
    """The protocols and the commit from which the page was built."""
    facts = board.facts
    names = [each.name for each in board.protocols if each.name in OPTIONS]
    protocols = f"{plural(len(names), 'protocol')} {' and '.join(names)}"
    parts: list[Markup] = [line(protocols)]
    if facts.commit:
        short = line(f"commit {facts.commit[:10]}")
        address = f"{facts.repository}/tree/{facts.commit}" if facts.repository else None
        parts.append(outside(address, short) if address else short)
    if facts.date:
        parts.append(line(facts.date))
    built = "Built from " if len(parts) > 1 else "Built with "
    return page(element("p", joined([built, joined(parts, ", "), "."]), "lb-foot lb-built"))


def head_tags(address: str) -> str:
    """Metadata that other sites show for a link to the page.

    Args:
        address: URL of the page, with a trailing slash.
    """
    picture = f"{address}leaderboard.png"
    own = {
        "og:title": TITLE, "og:type": "website", "og:url": address, "og:description": ABOUT,
        "og:image": picture, "og:image:width": "1200", "og:image:height": "630",
    }  # fmt: skip
    named = {
        "description": ABOUT, "twitter:card": "summary_large_image", "twitter:title": TITLE,
        "twitter:description": ABOUT, "twitter:image": picture,
    }  # fmt: skip
    tags = [Markup('<meta property="{}" content="{}">').format(*pair) for pair in own.items()]
    tags += [Markup('<meta name="{}" content="{}">').format(*pair) for pair in named.items()]
    return str(joined(tags))
