"""The forward pass of the trainer: log-probabilities and entropies of what was drawn."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from transformers import DynamicCache

from baselines.microbatches import MicroBatch
from benchmark.engines.slots import contents

if TYPE_CHECKING:
    from transformers import PreTrainedModel

ENTROPY_CHUNK = 2**24
"""Logits that are looked at together when entropies are only logged."""


@dataclass(frozen=True, slots=True)
class TokenValues:
    """What a policy says of the responses of a micro-batch; each (rows, T), 0 where masked.

    Attributes:
        log_probs: Of the tokens, under the distribution that they were drawn from.
        untempered: The same at temperature 1, as engines give them; without gradient.
        entropy: Of the distributions, in nats; None if not asked for.
    """

    log_probs: torch.Tensor
    untempered: torch.Tensor
    entropy: torch.Tensor | None


def evaluate_tokens(
    model: "PreTrainedModel",
    batch: MicroBatch,
    temperature: float = 1.0,
    entropy: bool = False,
    entropy_gradient: bool = False,
) -> TokenValues:
    """Run the model over a micro-batch.

    Args:
        model: A causal language model, perhaps wrapped for several processes.
        batch: On the model's device.
        temperature: Of the distribution that the tokens were drawn from.
        entropy: Whether entropies are wanted, too.
        entropy_gradient: Whether gradients flow through them.
    """
    logits = response_logits(model, batch)
    targets = _responses(batch)
    mask = batch.response_mask
    tempered = logits / temperature if temperature != 1.0 else logits
    log_probs = _log_probs(tempered, targets)
    untempered = log_probs.detach()
    if temperature != 1.0:
        with torch.no_grad():
            untempered = _log_probs(logits, targets)
    entropies = None
    if entropy:
        with torch.set_grad_enabled(entropy_gradient and torch.is_grad_enabled()):
            entropies = _entropy(tempered).where(mask > 0, 0.0)
    return TokenValues(log_probs.where(mask > 0, 0.0), untempered.where(mask > 0, 0.0), entropies)


def response_logits(model: Any, batch: MicroBatch) -> torch.Tensor:
    """(rows, T, vocabulary) logits that predict the responses' tokens, in at least float32."""
    width = batch.input_ids.shape[1]
    # Logits cost as much as everything else in a small network: only of what may be needed.
    kept = width - int(batch.starts.min()) + 1
    length = len(batch.prefix_ids)
    positions = torch.arange(length, length + width, device=batch.input_ids.device)[None]
    past = _prefix(model, batch) if length else None
    # Padding on the right needs no mask: no real token looks at it.
    logits = model(
        input_ids=batch.input_ids,
        position_ids=positions,
        past_key_values=past,
        use_cache=past is not None,
        logits_to_keep=kept,
    ).logits
    # The token at column c is predicted at column c - 1.
    columns = (batch.starts - 1 - (width - kept))[:, None] + torch.arange(
        batch.max_response, device=logits.device
    )
    columns = columns.clamp(max=kept - 1)
    rows = torch.arange(len(columns), device=logits.device)[:, None]
    picked = logits[rows, columns]
    wide: torch.Tensor = (
        picked.float() if picked.dtype in (torch.bfloat16, torch.float16) else picked
    )
    return wide


def _prefix(model: Any, batch: MicroBatch) -> DynamicCache:
    """Keys and values of the shared tokens, once, expanded over the rows."""
    cache = DynamicCache()
    bare = getattr(model, "module", model)
    bare(batch.prefix_ids[None], past_key_values=cache, use_cache=True, logits_to_keep=1)
    rows = len(batch.input_ids)
    return DynamicCache(
        [
            (keys.expand(rows, -1, -1, -1), values.expand(rows, -1, -1, -1))
            for keys, values in contents(cache)
        ]
    )


def _responses(batch: MicroBatch) -> torch.Tensor:
    """(rows, T) token ids of the responses."""
    steps = torch.arange(batch.max_response, device=batch.input_ids.device)
    columns = (batch.starts[:, None] + steps).clamp(max=batch.input_ids.shape[1] - 1)
    return batch.input_ids.gather(1, columns)


def _log_probs(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    losses = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), reduction="none"
    )
    return -losses.view_as(targets)


def _entropy(logits: torch.Tensor) -> torch.Tensor:
    """(rows, T) entropy of the full distribution."""
    if torch.is_grad_enabled():
        log_probs = logits.log_softmax(-1)
        return -(log_probs.exp() * log_probs).sum(-1)
    flat = logits.detach().flatten(0, 1)
    step = max(ENTROPY_CHUNK // flat.shape[1], 1)
    parts = []
    for begin in range(0, len(flat), step):
        log_probs = flat[begin : begin + step].log_softmax(-1)
        parts.append(-(log_probs.exp() * log_probs).sum(-1))
    return torch.cat(parts).view(logits.shape[:-1])
