"""Full scans and pruned scans both give the result of a plain loop."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tasks.webshop.search import ranking
from tasks.webshop.search.ranking import Term, rank


@pytest.mark.parametrize("look_up", [0, 4, 1_000_000])
@given(st.integers(0, 2**32), st.integers(1, 60), st.integers(1, 8), st.integers(1, 30))
def test_all_ways_agree(look_up: int, seed: int, size: int, terms: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    # Few divisors and weights, to produce ties.
    divisors = np.array([1.25, 1.5, 2, 3], dtype=np.float32)
    query = [_term(rng, size, divisors) for _ in range(terms)]
    ranks = rng.permutation(size)
    expected = _plainly(query, divisors, ranks, count)
    for scanned in (10**9, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ranking, "_SCANNED", scanned)
            patch.setattr(ranking, "_LOOK_UP", look_up)
            documents, scores = rank(query, divisors, ranks, count)
        assert list(zip(documents.tolist(), scores.tolist(), strict=True)) == expected


def _term(rng: np.random.Generator, size: int, divisors: NDArray[Any]) -> Term:
    documents = np.flatnonzero(rng.random(size) < rng.choice([0.05, 0.5, 0.95]))
    if not len(documents):
        documents = np.array([int(rng.integers(size))])
    kinds = rng.integers(0, len(divisors), len(documents)).astype(np.uint8)
    weight = rng.choice(np.array([0.5, 1, 4], dtype=np.float32))
    most = weight - weight / divisors[kinds].max()
    return Term(weight, documents.astype(np.uint32), kinds, most)


def _plainly(
    query: list[Term], divisors: NDArray[Any], ranks: NDArray[Any], count: int
) -> list[tuple[int, float]]:
    scores: dict[int, float] = {}
    for term in query:
        for document, kind in zip(term.documents.tolist(), term.kinds.tolist(), strict=True):
            added = float(term.weight - term.weight / divisors[kind])
            scores[document] = scores.get(document, 0.0) + added
    hits = [(document, float(np.float32(score))) for document, score in scores.items()]
    return sorted(hits, key=lambda hit: (-hit[1], ranks[hit[0]]))[:count]
