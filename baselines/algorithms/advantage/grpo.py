"""GRPO and Dr. GRPO."""

from typing import Literal

from torch import Tensor

from baselines.algorithms.advantage.base import Relative, RowBatch


class GRPO(Relative):
    """Relative to the group: minus its mean, over its standard deviation.

    `A_i = (s_i - mean_g) / (std_g + epsilon)`, std unbiased (`groups.group_relative`). Source:
    DeepSeekMath (arXiv 2402.03300), section 4.1.2; without the division Dr. GRPO (arXiv
    2503.20783).
    """

    name: Literal["grpo"] = "grpo"
    divide_by_std: bool = True

    def of(self, rows: RowBatch) -> Tensor:
        """(N,) advantages of rows."""
        return self.relative(rows, self.divide_by_std)
