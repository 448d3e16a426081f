"""Every recorded ranking of Lucene over the public 1,000 products."""

import os
from pathlib import Path

import pytest

from tasks.webshop.search.index import Index, build_index
from tests.tasks.webshop.search.public import public_documents, recorded_rankings


@pytest.mark.slow
def test_recorded_rankings(tmp_path: Path) -> None:
    folder = os.environ.get("WEBSHOP_RECORDINGS")
    if folder is None:
        pytest.skip("needs the recorded rankings: set WEBSHOP_RECORDINGS to their folder")
    documents = list(public_documents(Path(folder)))
    build_index(documents, tmp_path / "index")
    index = Index.open(tmp_path / "index")
    rankings = recorded_rankings(Path(folder))
    assert len(rankings) == 308
    for number, ranking in enumerate(rankings):
        hits = [
            (documents[hit.position][0], round(hit.score, 4)) for hit in index.search(ranking.query)
        ]
        assert hits == ranking.hits, f"ranking {number}: {ranking.query}"
