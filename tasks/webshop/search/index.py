"""Search in an index on disk, with BM25 ranking exactly as in Lucene."""

from collections import Counter
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from tasks.errors import UserError
from tasks.webshop.search.analysis import analyze
from tasks.webshop.search.bm25 import contributions, idf
from tasks.webshop.search.build import build_index
from tasks.webshop.search.ranking import Term, rank
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
        self._with_terms = manifest.documents_with_terms
        self._vocabulary = Vocabulary(arrays["hashes"], arrays["spelling"], arrays["spelling_ends"])
        self._ends = arrays["posting_ends"]
        self._documents = arrays["documents"]
        self._kinds = arrays["kinds"]
        self._divisors = arrays["divisors"]
        self._strongest = arrays["strongest"]
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
            ValueError: `count` is not positive.
        """
        if count < 1:
            raise ValueError(f"count must be positive, not {count}")
        boosts = Counter(analyze(query))
        numbers = self._vocabulary.numbers(list(boosts))
        terms = [
            self._term(number, boost)
            for number, boost in zip(numbers, boosts.values(), strict=True)
            if number is not None
        ]
        if not terms:
            return []
        try:
            documents, scores = rank(terms, self._divisors, self._ranks, count)
        except IndexError as error:
            raise self._damaged("documents") from error
        return list(map(Hit, documents.tolist(), scores.tolist()))

    def _term(self, number: int, boost: int) -> Term:
        start = int(self._ends[number - 1]) if number else 0
        end = int(self._ends[number])
        if not 0 <= start < end <= min(len(self._documents), len(self._kinds)):
            raise self._damaged("posting_ends")
        weight = np.float32(boost) * idf(self._with_terms, end - start)
        return Term(
            weight,
            self._documents[start:end],
            self._kinds[start:end],
            contributions(weight, self._strongest[number]),
        )

    def _damaged(self, name: str) -> UserError:
        return damaged(array_path(self._folder, name), "does not fit the other files")
