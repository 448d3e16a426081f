"""Search in an index on disk, ranked by BM25 exactly as Lucene ranks."""

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tasks.webshop.search.analysis import analyse
from tasks.webshop.search.bm25 import contributions, idf
from tasks.webshop.search.build import build_index
from tasks.webshop.search.storage import array_path, damaged, read
from tasks.webshop.search.vocabulary import Vocabulary

__all__ = ["Hit", "Index", "build_index"]


class Hit(NamedTuple):
    """A document that was found.

    Attributes:
        position: Which of the documents, from zero, in the order in which the index got them.
        score: BM25.
    """

    position: int
    score: float


class Index:
    """An index of documents, read from disk as needed. Threads may share it."""

    def __init__(self, folder: Path) -> None:
        manifest, arrays = read(folder)
        self._folder = folder
        self._size = manifest.documents
        self._with_terms = manifest.documents_with_terms
        self._vocabulary = Vocabulary(arrays["hashes"], arrays["spelling"], arrays["spelling_ends"])
        self._ends = arrays["posting_ends"]
        self._documents = arrays["documents"]
        self._kinds = arrays["kinds"]
        self._divisors = arrays["divisors"]
        self._ranks = arrays["ranks"]

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open the index that `build_index` made in a folder.

        Raises:
            UserError: A file is missing, cannot be read, is of another format or is not whole.
        """
        return cls(folder)

    def search(self, query: str, count: int = 50) -> list[Hit]:
        """The best documents that have any term of a query; any string is allowed.

        Returns:
            At most `count`, best first, equal ones by their ids.

        Raises:
            UserError: The index turns out to be damaged.
        """
        boosts = Counter(analyse(query))
        slices, weights = [], []
        for number, boost in zip(
            self._vocabulary.numbers(list(boosts)), boosts.values(), strict=True
        ):
            if number is not None:
                span = self._span(number)
                slices.append(span)
                weights.append(np.float32(boost) * idf(self._with_terms, span.stop - span.start))
        if not slices:
            return []
        documents = np.concatenate([self._documents[span] for span in slices])
        kinds = np.concatenate([self._kinds[span] for span in slices])
        if documents.max() >= self._size or kinds.max() >= len(self._divisors):
            raise damaged(array_path(self._folder, "documents"), "does not fit the other files")
        weight = np.repeat(
            np.array(weights, dtype=np.float32), [span.stop - span.start for span in slices]
        )
        added = contributions(weight, self._divisors[kinds])
        scores = np.bincount(documents, weights=added, minlength=self._size).astype(np.float32)
        return self._best(scores, count)

    def _span(self, number: int) -> slice:
        """Where the postings of a term are."""
        start = int(self._ends[number - 1]) if number else 0
        end = int(self._ends[number])
        if not 0 <= start < end <= len(self._documents):
            raise damaged(array_path(self._folder, "posting_ends"), "does not fit the other files")
        return slice(start, end)

    def _best(self, scores: NDArray[Any], count: int) -> list[Hit]:
        found = np.flatnonzero(scores)
        order = np.lexsort((self._ranks[found], -scores[found]))[:count]
        best = found[order]
        return list(map(Hit, best.tolist(), scores[best].tolist()))
