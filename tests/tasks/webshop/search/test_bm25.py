"""The formula, by hand."""

import numpy as np
import pytest

from tasks.webshop.search.bm25 import contributions, divisors, idf, quantised_length


@pytest.mark.parametrize(
    ("length", "kept"),
    [
        *((0, 0), (1, 1), (23, 23), (24, 24), (39, 39), (40, 40), (41, 40), (42, 42)),
        # 24 + 0b1111_0000 and the next one.
        *((24 + 240, 264), (24 + 255, 264), (24 + 256, 280), (1_000_000, 983_064)),
    ],
)
def test_lengths_keep_four_bits_above_24(length: int, kept: int) -> None:
    assert quantised_length(length) == kept


def test_a_contribution() -> None:
    # 3 documents of 4 terms on average, the term in one of them, twice, among 8 terms.
    weight = idf(3, 1)
    assert weight == np.float32(np.log(1 + 2.5 / 1.5))
    frequencies, lengths = np.array([2], dtype=np.float32), np.array([8], dtype=np.float32)
    divisor = divisors(frequencies, lengths, np.float32(4))
    assert divisor == pytest.approx([1 + 2 / (0.9 * (0.6 + 0.4 * 8 / 4))])
    added = contributions(weight, divisor)
    assert added.dtype == np.float32
    assert added == pytest.approx([0.980829 * 2 / (2 + 1.26)], rel=1e-6)
