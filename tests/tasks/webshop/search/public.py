"""The public 1,000 products and the rankings of Lucene that were recorded over them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tasks.webshop.search.document import document_text


class Ranking(NamedTuple):
    """A query, and the ids found with their scores to four decimals."""

    query: str
    hits: list[tuple[str, float]]


def public_documents(folder: Path) -> Iterator[tuple[str, str]]:
    """Id and text of every product."""
    items: list[dict[str, Any]] = json.loads((folder / "items_shuffle_1000.json").read_bytes())
    for item in items:
        bullets = item["small_description"]
        options = {
            name.lower(): [value["value"].strip().replace("/", " | ").lower() for value in values]
            for name, values in (item["customization_options"] or {}).items()
            if values is not None
        }
        yield (
            item["asin"],
            document_text(
                item["name"],
                item["full_description"],
                bullets if isinstance(bullets, list) else [bullets],
                options,
            ),
        )


def recorded_rankings(folder: Path) -> list[Ranking]:
    """All of them."""
    lines = (folder / "search.jsonl").read_text(encoding="utf-8").splitlines()
    return [
        Ranking(case["q"], [(asin, round(score, 4)) for asin, score in case["hits"]])
        for case in map(json.loads, lines)
    ]
