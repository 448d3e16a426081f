"""An advantage of a user's own, in two versions."""

from tasks.seeding import sha256_text

RANK = '''from typing import Literal

from torch import Tensor

from baselines.algorithms.advantage.base import Advantage, RowBatch


class Rank(Advantage):
    """The scores as they are."""

    name: Literal["rank"] = "rank"

    def of(self, rows: RowBatch) -> Tensor:
        return rows.scores
'''
LONGER = RANK.replace('"rank"\n', '"rank"\n    scale: float = 1.0\n').replace(
    "rows.scores\n", "self.scale * rows.scores\n"
)
RECIPE = "advantage: {name: rank}\nclipping: {name: ppo}\naggregation: token-mean\n"


def sha256_of(code: str) -> str:
    """Of a file with this code."""
    return sha256_text(code)
