"""What the trainer is measured against does the same work: two ways to write one loss."""

import numpy as np
import pytest
import torch

from tests.benchmarks.floors.bare_work import cut, plain_loss
from tests.benchmarks.floors.plain_work import PACK, packed_loss, packs
from tests.support.training.synthetic_rows import random_model, random_rows


def test_packed_and_padded_rows_have_one_loss() -> None:
    model, rows = random_model(), random_rows(48)
    mean = float(np.mean([row.reward for row in rows]))
    packed = list(packs(rows))
    assert len(packed) > 1
    assert all(sum(row.length for row in pack) <= PACK for pack in packed)
    with torch.no_grad():
        one = sum(float(packed_loss(model, pack, mean)) for pack in packed)
        batches = cut(rows, range(len(rows)), 4096, share_prefix=False)
        other = sum(float(plain_loss(model, batch)) for batch in batches)
    assert one == pytest.approx(other, rel=1e-6)
    assert abs(one) > 1
