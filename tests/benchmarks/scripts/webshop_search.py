"""Growth of WebShop's search with the catalogue.

    python -m tests.benchmarks.scripts.webshop_search

Catalogues are synthetic: lengths are log-normal as those of the public products (median 77 terms,
mean 110), words are drawn from a Zipf law with two regimes that grows a vocabulary about as theirs.
A query has ten words of one product and six of the most frequent words. Every size has a process
of its own; times are CPU times.

The last row extrapolates to the 1.18 million products of the full data set. It assumes that pairs
of a term and a product, time and disk grow with the number of products, the number of terms with
the power of it that the last two rows show (Heaps' law), and the memory of the build by 200 bytes
a term, 40 bytes a product and the files that are written, whose pages can be evicted. Opening maps
the same few files.
"""

import argparse
import json
import math
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tasks.webshop.search.index import Index, build_index
from tests.support.measured import alone, cost, resident

FULL = 1_180_000
QUERIES = 300
WORDS = 4_000_000
REPEATED = 0.3
"""Share of words that repeat one of the same product."""
KNEE = 2_000
"""Rank from which words get rare faster."""
FREQUENT = 12
"""Ranks of words that queries have for being frequent."""


@dataclass(frozen=True)
class Figures:
    """What one catalogue took.

    Attributes:
        products: Size of the catalogue.
        build: CPU seconds.
        peak: MiB that building added to the memory at most.
        disk: MiB.
        terms: Different terms.
        postings: Pairs of a term and a product.
        opening: Milliseconds, files in the page cache.
        median: CPU milliseconds of a search.
        slow: 95th percentile of them.
        resident: MiB that opening and searching added.
    """

    products: int
    build: float
    peak: float
    disk: float
    terms: int
    postings: int
    opening: float
    median: float
    slow: float
    resident: float


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    arguments = parser.parse_args()
    print(
        f"{'products':>10} {'build s':>8} {'peak MiB':>9} {'disk MiB':>9} {'terms':>9} "
        f"{'pairs':>12} {'open ms':>8} {'p50 ms':>7} {'p95 ms':>7} {'resident MiB':>12}"
    )
    rows = []
    for size in arguments.sizes:
        with tempfile.TemporaryDirectory() as folder:
            built = alone(_build, size, Path(folder))
            rows.append(alone(_search, size, Path(folder), built))
        print(_line(rows[-1]))
    if len(rows) > 1:
        print(_line(_extrapolated(rows[-2], rows[-1])), "(extrapolated)")


def _build(size: int, folder: Path) -> tuple[float, float]:
    """CPU seconds without those for making up the texts, and MiB that it added at most."""
    began = time.process_time()
    for _ in _documents(size):
        pass
    texts = time.process_time() - began
    spent, peak = cost(lambda: build_index(_documents(size), folder / "index"))
    return spent - texts, peak


def _search(size: int, folder: Path, built: tuple[float, float]) -> Figures:
    queries = list(_queries(size))
    path = folder / "index"
    Index.open(path).search(queries[0])
    before = resident()
    began = time.perf_counter()
    index = Index.open(path)
    opening = time.perf_counter() - began
    times = []
    for query in queries:
        began = time.process_time()
        index.search(query)
        times.append(time.process_time() - began)
    manifest = json.loads((path / "index.json").read_text())
    return Figures(
        products=size,
        build=built[0],
        peak=built[1],
        disk=sum(file.stat().st_size for file in path.iterdir()) / 2**20,
        terms=manifest["terms"],
        postings=manifest["lengths"]["documents"],
        opening=opening * 1e3,
        median=statistics.median(times) * 1e3,
        slow=float(np.percentile(times, 95)) * 1e3,
        resident=resident() - before,
    )


def _documents(size: int) -> Iterator[tuple[str, str]]:
    for number in range(size):
        words = _words(number)
        # A fifth more, as many as are stop words in the public texts.
        words[::5] = [f"the {word}" for word in words[::5]]
        yield f"P{number:09}", " ".join(words)


def _queries(size: int) -> Iterator[str]:
    rng = np.random.default_rng(1)
    for number in rng.integers(0, size, QUERIES).tolist():
        frequent = [_spell(rank) for rank in rng.integers(0, FREQUENT, 6).tolist()]
        yield " ".join(_words(number)[:10] + frequent)


def _words(number: int) -> list[str]:
    rng = np.random.default_rng((0, number))
    length = int(np.clip(rng.lognormal(4.35, 0.85), 3, 5_000))
    words = [_spell(rank) for rank in np.searchsorted(_SHARES, rng.random(length)).tolist()]
    for place in np.flatnonzero(rng.random(length) < REPEATED)[1:].tolist():
        words[place] = words[int(rng.integers(0, place))]
    return words


def _cumulative_shares() -> NDArray[np.float64]:
    ranks = np.arange(1, WORDS + 1, dtype=np.float64)
    shares = 1 / (ranks + 16)
    shares[KNEE:] = shares[KNEE] * (ranks[KNEE:] / KNEE) ** -1.7
    total: NDArray[np.float64] = np.cumsum(shares)
    total /= total[-1]
    return total


_SHARES = _cumulative_shares()


def _spell(rank: int) -> str:
    """A pronounceable word that the stemmer leaves alone, its own for every rank."""
    word = "ko"
    while rank:
        rank, rest = divmod(rank, 85)
        word += "bdfgjklmnprtvzhcq"[rest // 5] + "aeiou"[rest % 5]
    return word + "k"


def _extrapolated(small: Figures, large: Figures) -> Figures:
    factor = FULL / large.products
    power = math.log(large.terms / small.terms) / math.log(large.products / small.products)
    terms = int(large.terms * factor**power)
    kept = 200 * (terms - large.terms) + 40 * (FULL - large.products)
    written = large.disk * (factor - 1)
    return Figures(
        products=FULL,
        build=large.build * factor,
        peak=large.peak + kept / 2**20 + written,
        disk=large.disk * factor,
        terms=terms,
        postings=int(large.postings * factor),
        opening=large.opening,
        median=large.median * factor,
        slow=large.slow * factor,
        resident=large.resident * factor,
    )


def _line(row: Figures) -> str:
    return (
        f"{row.products:10,} {row.build:8.1f} {row.peak:9,.0f} {row.disk:9,.1f} {row.terms:9,.0f} "
        f"{row.postings:12,.0f} {row.opening:8.1f} {row.median:7.2f} {row.slow:7.2f} "
        f"{row.resident:12,.1f}"
    )


if __name__ == "__main__":
    main()
