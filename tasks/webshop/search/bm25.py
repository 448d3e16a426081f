"""BM25 as Lucene 8 computes it, in its float32 arithmetic.

S. Robertson and H. Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond, Foundations
and Trends in Information Retrieval 3(4), 2009. Lucene leaves out the factor (k1 + 1), keeps of a
document's length four significant bits, and writes tf / (tf + norm) as 1 - 1 / (1 + tf / norm).
A term's contribution to a document's score is thus

    weight - weight / divisor    weight = boost * idf
                                 divisor = 1 + tf / (k1 * (1 - b + b * length / average length))

where the boost is how often the query has the term. Contributions are added as float64; the sum is
rounded to float32. (Classes BM25Similarity, SmallFloat and BooleanQuery.)
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

K1 = np.float32(0.9)
B = np.float32(0.4)

_EXACT_LENGTHS = 24
"""Shorter lengths are kept as they are; of longer ones, what is above this is quantised."""
_SIGNIFICANT_BITS = 4


def quantised_length(terms: int) -> int:
    """What Lucene remembers of a document's length in terms (SmallFloat.intToByte4 and back)."""
    above = terms - _EXACT_LENGTHS
    if above < 0:
        return terms
    dropped = max(above.bit_length() - _SIGNIFICANT_BITS, 0)
    return _EXACT_LENGTHS + (above >> dropped << dropped)


def divisors(
    frequencies: NDArray[np.float32], lengths: NDArray[np.float32], average_length: np.float32
) -> NDArray[np.float32]:
    """The divisors for terms that occur so often in documents of such (quantised) lengths."""
    norms = np.float32(1) / (K1 * ((np.float32(1) - B) + B * lengths / average_length))
    return np.float32(1) + frequencies * norms


def idf(documents: int, with_term: int) -> np.float32:
    """Inverse document frequency of a term that `with_term` of the documents have."""
    return np.float32(math.log(1 + (documents - with_term + 0.5) / (with_term + 0.5)))


def contributions(
    weights: NDArray[np.float32] | np.float32, of_divisors: NDArray[np.float32] | np.float32
) -> Any:
    """What terms of such weights add to the score of documents with such divisors; any shapes."""
    return weights - weights / of_divisors
