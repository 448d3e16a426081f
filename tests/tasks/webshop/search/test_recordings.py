"""Every recorded ranking of Lucene over the public 1,000 products."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tasks.webshop.search.document import document_text
from tasks.webshop.search.index import Index, build_index


def test_recorded_rankings(tmp_path: Path) -> None:
    folder = os.environ.get("WEBSHOP_RECORDINGS")
    if not folder:
        pytest.skip("WEBSHOP_RECORDINGS names no folder with the recordings")
    documents = [_document(item) for item in _read(folder, "items_shuffle_1000.json")]
    build_index(documents, tmp_path / "index")
    index = Index.open(tmp_path / "index")
    lines = (Path(folder) / "search.jsonl").read_text().splitlines()
    for number, line in enumerate(lines):
        case = json.loads(line)
        found = [
            [documents[hit.position][0], round(hit.score, 4)] for hit in index.search(case["q"])
        ]
        expected = [[asin, round(score, 4)] for asin, score in case["hits"]]
        assert found == expected, f"case {number} of {len(lines)}: {case['q']}"
    assert lines


def _document(item: dict[str, Any]) -> tuple[str, str]:
    bullets = item["small_description"]
    options = {
        name.lower(): [value["value"].strip().replace("/", " | ").lower() for value in values]
        for name, values in (item["customization_options"] or {}).items()
        if values is not None
    }
    return item["asin"], document_text(
        item["name"],
        item["full_description"],
        bullets if isinstance(bullets, list) else [bullets],
        options,
    )


def _read(folder: str, name: str) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = json.loads((Path(folder) / name).read_text())
    return content
