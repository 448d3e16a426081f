"""User code: an advantage in two versions, and a learner."""

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
EARLY_TURNS = '''from collections.abc import Sequence
from typing import Literal

from baselines.algorithms.custom_learner import CustomLearner
from baselines.learning.learner import Learner
from baselines.rollouts.rows import Row


class EarlyTurnsLearner(Learner):
    """Drops later turns from every step."""

    def plan(self, rows: Sequence[Row], number: int) -> list[list[int]]:
        turns = self.config.learner.turns
        plan = super().plan(rows, number)
        kept = [[row for row in step if rows[row].turn < turns] for step in plan]
        return [step for step in kept if step]


class EarlyTurns(CustomLearner):
    """Learns from the first turns of each episode."""

    name: Literal["early_turns"] = "early_turns"
    turns: int = 2
    learner = EarlyTurnsLearner
'''
RECIPE = "advantage: {name: rank}\nclipping: {name: ppo}\naggregation: token-mean\n"


def sha256_of(code: str) -> str:
    """Hash of a file with this code."""
    return sha256_text(code)
