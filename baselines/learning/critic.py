"""PPO's critic: a value for every token, from a separate network initialized from the init."""

import math
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from transformers import AutoModel

from baselines.algorithms.advantage.gae import value_loss
from baselines.config.schema import Optimization
from baselines.learning.adamw import make_optimizer
from baselines.learning.dropout import without_dropout
from baselines.learning.images import freeze_vision
from baselines.learning.microbatches import PaddedBatch
from baselines.learning.sharding import full_grad_norm, is_sharded
from benchmark.engines.core.vision import reads_images
from benchmark.engines.transformers.images import embed_sampled_placeholders


class ValueNetwork(torch.nn.Module):
    """A language model's body with one linear output that starts at zero.

    Args:
        folder: Model folder of the init.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.body = AutoModel.from_pretrained(
            folder,
            dtype=torch.float32,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
        )
        if reads_images(folder):
            embed_sampled_placeholders(self.body)
        size = self.body.config.get_text_config(decoder=True).hidden_size
        self.head = torch.nn.Linear(size, 1)
        torch.nn.init.zeros_(self.head.weight)
        torch.nn.init.zeros_(self.head.bias)

    def forward(self, input_ids: torch.Tensor, **seen: torch.Tensor) -> torch.Tensor:
        """Value of the state after each token.

        Args:
            input_ids: (rows, W).
            **seen: Images and positions, in the body's format.

        Returns:
            (rows, W).
        """
        hidden = self.body(input_ids=input_ids, use_cache=False, **seen).last_hidden_state
        values: torch.Tensor = self.head(hidden).squeeze(-1)
        return values


class Critic:
    """The value network and its optimizer.

    Args:
        accelerator: Processes and devices.
        folder: Model folder of the init.
        learning_rate: AdamW's learning rate, constant: only the policy has warm-up and a schedule.
        clip_range: How far a value may move in one update before its loss is clipped.
        optimization: Optimizer, weight decay, gradient clipping and gradient checkpointing.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        folder: Path,
        learning_rate: float,
        clip_range: float,
        optimization: Optimization,
    ) -> None:
        # Gradient checkpointing only works in training mode.
        network = without_dropout(ValueNetwork(folder)).train()
        if optimization.gradient_checkpointing:
            network.body.gradient_checkpointing_enable()
        if optimization.freeze_vision:
            freeze_vision(network)
        kind, device = optimization.optimizer, accelerator.device
        weights = [weight for weight in network.parameters() if weight.requires_grad]
        optimizer = make_optimizer(
            weights,
            device,
            kind,
            lr=learning_rate,
            betas=optimization.betas,
            weight_decay=optimization.weight_decay,
        )
        prepared: Any = accelerator.prepare(network, optimizer)
        self.network, self.optimizer = prepared
        self._accelerator = accelerator
        self._clip_range = clip_range
        self._max_grad_norm = optimization.max_grad_norm

    def values(self, batch: PaddedBatch) -> torch.Tensor:
        """(rows, T) value before each response token, 0 where masked."""
        prefix = batch.prefix_ids.expand(len(batch.input_ids), -1)
        ids, seen = torch.cat([prefix, batch.input_ids], dim=1), batch.seen
        if batch.positions is not None:
            seen["position_ids"] = batch.positions
        values = self.network(ids, **seen)
        first = (batch.starts + len(batch.prefix_ids) - 1)[:, None]
        columns = first + torch.arange(batch.max_response, device=values.device)
        picked = values.gather(1, columns.clamp(max=values.shape[1] - 1))
        masked: torch.Tensor = picked.float().where(batch.response_mask > 0, 0.0)
        return masked

    def step(
        self,
        batches: Sequence[PaddedBatch],
        targets: Sequence[torch.Tensor | None],
        old_values: Sequence[torch.Tensor | None],
        tokens: int,
    ) -> float | None:
        """Make one optimizer step on the mean clipped squared error over all tokens of the step.

        Returns:
            This process's share of the loss; None if its gradient was not finite and the step
            was skipped.
        """
        loss = 0.0
        device = self._accelerator.device
        for number, batch in enumerate(each.to(device) for each in batches):
            at_once = number == len(batches) - 1 or is_sharded(self._accelerator)
            with nullcontext() if at_once else self._accelerator.no_sync(self.network):
                errors = value_loss(
                    self.values(batch),
                    batch.stack(old_values),
                    batch.stack(targets),
                    batch.response_mask.float(),
                    self._clip_range,
                )
                share = errors.sum() / tokens
                self._accelerator.backward(share * self._accelerator.num_processes)
            loss += float(share.detach())
        norm = self._accelerator.clip_grad_norm_(self.network.parameters(), self._max_grad_norm)
        finite = math.isfinite(full_grad_norm(norm))
        if finite:
            self.optimizer.step()
        self.optimizer.zero_grad()
        return loss if finite else None
