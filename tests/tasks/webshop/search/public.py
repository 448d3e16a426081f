"""The public 1,000 products, and Lucene's recorded rankings of them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tasks.webshop.data.files import DataFiles, read_listings
from tasks.webshop.search.document import document_text


class Ranking(NamedTuple):
    """A query, and the ids found with their scores to four decimals."""

    query: str
    hits: list[tuple[str, float]]


def public_documents(folder: Path) -> Iterator[tuple[str, str]]:
    """Id and text of every product."""
    files = DataFiles(
        folder / "items_shuffle_1000.json",
        folder / "items_ins_v2_1000.json",
        folder / "items_human_ins.json",
    )
    for listing in read_listings(files):
        product = listing.product
        yield (
            product.asin,
            document_text(product.title, product.description, product.bullets, product.options),
        )


def recorded_rankings(folder: Path) -> list[Ranking]:
    """All recorded queries."""
    lines = (folder / "search.jsonl").read_text(encoding="utf-8").splitlines()
    return [
        Ranking(case["q"], [(asin, round(score, 4)) for asin, score in case["hits"]])
        for case in map(json.loads, lines)
    ]
