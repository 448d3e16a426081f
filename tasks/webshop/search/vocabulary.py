"""Finds terms among millions without reading all of them."""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray


def term_hashes(terms: Iterable[str]) -> NDArray[np.uint64]:
    """64 bits of BLAKE2b of every term."""
    digests = [blake2b(term.encode(), digest_size=8).digest() for term in terms]
    return np.frombuffer(b"".join(digests), dtype="<u8")


class Vocabulary:
    """The terms of an index, which are numbered in the order of their hashes.

    Args:
        hashes: uint64 (T,), ascending.
        spelling: uint8, the terms in UTF-8, one after the other.
        ends: int64 (T,), where each ends.
    """

    def __init__(self, hashes: NDArray[Any], spelling: NDArray[Any], ends: NDArray[Any]) -> None:
        self._hashes = hashes
        self._spelling = spelling
        self._ends = ends

    def numbers(self, terms: Sequence[str]) -> list[int | None]:
        """The number of every term; None for one that the index does not have."""
        hashes = term_hashes(terms)
        places = np.searchsorted(self._hashes, hashes).tolist()
        return [
            self._number(term.encode(), place, hash_)
            for term, place, hash_ in zip(terms, places, hashes, strict=True)
        ]

    def _number(self, term: bytes, place: int, hash_: np.uint64) -> int | None:
        # Terms with the same hash, should there be any, stand side by side.
        while place < len(self._hashes):
            start = self._ends[place - 1] if place else 0
            if self._spelling[start : self._ends[place]].tobytes() == term:
                return place
            if self._hashes[place] != hash_:
                return None
            place += 1
        return None
