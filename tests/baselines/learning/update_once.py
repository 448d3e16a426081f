"""Takes one optimizer step and saves its gradient; run by several processes at once.

python update_once.py OUT.safetensors RECIPE SETTING...
"""

import sys

import torch
from accelerate import Accelerator
from safetensors.torch import save_file

from baselines.config.layers import resolve
from baselines.config.schema import TrainConfig
from baselines.learning.estimation import estimate
from baselines.learning.microbatches import RowValues
from baselines.learning.optimizer_steps import Updater
from benchmark.engines.transformers.tree_attention import use_tree_attention
from tests.support.training.synthetic_rows import random_model, random_rows

ROWS = 29


class Recorder(torch.optim.SGD):
    """Keeps the gradient of a step and changes nothing."""

    gradients: dict[str, torch.Tensor]

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Keep the gradient."""
        del closure
        weights = [weight for group in self.param_groups for weight in group["params"]]
        self.gradients = {str(i): w.grad.clone() for i, w in enumerate(weights)}


def gradient(
    config: TrainConfig, accelerator: Accelerator, share_prefix: bool, pack: bool
) -> dict[str, torch.Tensor]:
    """Gradient (before clipping: the limit is high) and loss of one step over all rows."""
    torch.set_default_dtype(torch.float64)
    model = random_model()
    optimizer = Recorder(model.parameters(), lr=0.0)
    rows = random_rows(ROWS)
    if pack:
        use_tree_attention(model)
    policy, _ = accelerator.prepare(model, optimizer)
    updater = Updater(accelerator, policy, optimizer, config, None, share_prefix)
    everything = list(range(len(rows)))
    _, _, entropies = updater.values_of(rows, everything, entropy=True)
    frozen = random_model()
    if pack:
        use_tree_attention(frozen)
    old, _, _ = updater.values_of(rows, everything, model=frozen)
    # An old policy at some distance, so that clipping and masks take effect.
    generator = torch.Generator().manual_seed(1)
    moved = [
        value + 0.3 * torch.randn(value.shape, generator=generator)
        for value in old
        if value is not None
    ]
    advantages, _ = estimate(config, rows, entropies, [], [])
    values = RowValues(
        [advantage.double() for advantage in advantages],
        list(moved),
        [value - 0.2 for value in moved],
        [None] * len(rows),
    )
    tally = updater.update(rows, values, [everything])
    loss = torch.tensor(tally.losses)
    if accelerator.num_processes > 1:
        loss = accelerator.reduce(loss, "sum")
    return {**optimizer.gradients, "loss": loss}


def main() -> None:
    """Take one step and save the gradient."""
    out, recipe, *own = sys.argv[1:]
    torch.set_num_threads(1)
    accelerator = Accelerator(cpu=True)
    config = resolve(recipe, "tiny", ["sokoban"], ["optimization.max_grad_norm=1e9", *own])
    found = gradient(config, accelerator, share_prefix=True, pack=recipe == "sampo")
    if accelerator.is_main_process:
        save_file(found, out)
    accelerator.end_training()


if __name__ == "__main__":
    main()
