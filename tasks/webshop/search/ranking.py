"""The best documents for the terms of a query, without scoring every match of a common term.

Exact for every query. A small index is scanned whole. In a large one terms are taken by what they
can add at most, highest first (MaxScore: H. Turtle and J. Flood, Query evaluation: strategies and
optimizations, Information Processing & Management 31(6), 1995). Once the best documents so far have
more than all later terms together could add, no new document can come among them: later terms are
then only looked up for the documents that still can.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.webshop.search.bm25 import contributions

_SCANNED = 20_000
"""Pairs of a term and a document up to which a query is answered by going through them all."""

_LOOK_UP = 16
"""Looking up a document costs about as much as going through so many."""

_ROUNDING = 1 - 1e-6
"""Scores are compared as float32 in the end: what is nearer than this may turn out equal."""


@dataclass(frozen=True, slots=True)
class Term:
    """One term of a query.

    Attributes:
        weight: Its boost times its inverse document frequency.
        documents: Who has it, ascending: uint32 (n,).
        kinds: Which of the divisors belongs to each: (n,).
        most: What it adds to a score at most.
    """

    weight: np.float32
    documents: NDArray[Any]
    kinds: NDArray[Any]
    most: np.float32


def rank(
    terms: Sequence[Term], divisors: NDArray[Any], ranks: NDArray[Any], count: int
) -> tuple[NDArray[Any], NDArray[np.float32]]:
    """The best documents that have any of the terms.

    Args:
        terms: At least one.
        divisors: float32, see bm25.py.
        ranks: Place of every document among equals.
        count: How many at most; positive.

    Returns:
        Documents, best first, and their scores.

    Raises:
        IndexError: The postings do not fit the other arrays.
    """
    if sum(len(term.documents) for term in terms) <= _SCANNED:
        documents, scores = _scan(terms, divisors, len(ranks))
    else:
        documents, scores = _prune(terms, divisors, len(ranks), count)
    rounded = scores.astype(np.float32)
    if len(rounded) > count:
        # Of those that score as the last one only some may belong to the best: by their ids.
        kept = np.flatnonzero(rounded >= _last(rounded, count))
        documents, rounded = documents[kept], rounded[kept]
    order = np.lexsort((ranks[documents], -rounded))[:count]
    return documents[order], rounded[order]


def _scan(
    terms: Sequence[Term], divisors: NDArray[Any], size: int
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    documents = np.concatenate([term.documents for term in terms])
    kinds = np.concatenate([term.kinds for term in terms])
    weights = np.repeat(
        np.array([term.weight for term in terms]), [len(term.documents) for term in terms]
    )
    if documents.max() >= size:
        raise IndexError(f"document {documents.max()} of {size}")
    added = contributions(weights, divisors[kinds])
    # Sums of float64, whatever numpy's annotations say.
    scores = np.bincount(documents, weights=added, minlength=size).astype(np.float64, copy=False)
    found = np.flatnonzero(scores)
    return found, scores[found]


def _prune(
    terms: Sequence[Term], divisors: NDArray[Any], size: int, count: int
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    ordered = sorted(terms, key=lambda term: term.most, reverse=True)
    # What the terms from each one on can add at most; after the last there are none.
    most = [*np.cumsum([float(term.most) for term in reversed(ordered)])[::-1].tolist(), 0.0]
    scores = np.zeros(size)
    least = 0.0
    for place, term in enumerate(ordered):
        if least > most[place]:
            candidates = np.flatnonzero(scores >= least - most[place])
            if len(candidates) * _LOOK_UP < len(term.documents):
                return _look_up(ordered[place:], divisors, candidates, scores[candidates], count)
        documents = term.documents.astype(np.intp)
        sums = scores[documents] + _added(term, divisors, term.kinds)
        scores[documents] = sums
        # No score so far is above what the terms so far can add: is it worth looking?
        if most[0] - most[place + 1] > most[place + 1]:
            sums = sums[sums > least]
            if len(sums) >= count:
                least = float(_last(sums, count)) * _ROUNDING
    found = np.flatnonzero(scores >= least if least else scores)
    return found, scores[found]


def _look_up(
    terms: Sequence[Term],
    divisors: NDArray[Any],
    candidates: NDArray[Any],
    scores: NDArray[np.float64],
    count: int,
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Add what later terms add to the candidates, and leave out who falls behind."""
    most = sum(float(term.most) for term in terms)
    for term in terms:
        places = np.searchsorted(term.documents, candidates.astype(np.uint32))
        places[places == len(term.documents)] = 0
        has_it = np.flatnonzero(term.documents[places] == candidates)
        scores[has_it] += _added(term, divisors, term.kinds[places[has_it]])
        most -= float(term.most)
        least = float(_last(scores, count)) * _ROUNDING
        kept = np.flatnonzero(scores + most >= least)
        candidates, scores = candidates[kept], scores[kept]
    return candidates, scores


def _added(term: Term, divisors: NDArray[Any], kinds: NDArray[Any]) -> NDArray[np.float32]:
    """What a term adds to documents of such kinds."""
    return np.take(contributions(term.weight, divisors), kinds)


def _last(scores: NDArray[Any], count: int) -> Any:
    """The count-th highest score."""
    place = len(scores) - count
    return np.partition(scores, place)[place]
