"""The trainer's forward pass: log-probabilities and entropies of sampled tokens."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from transformers import DynamicCache

from baselines.learning.head import Wanted, chunked_head
from baselines.learning.microbatches import MicroBatch, PackedBatch, PaddedBatch
from benchmark.engines.transformers.images import token_ids
from benchmark.engines.transformers.slots import contents

if TYPE_CHECKING:
    from transformers import PreTrainedModel

ENTROPY_CHUNK = 2**24
"""Logits per chunk when entropies are only logged."""


@dataclass(frozen=True, slots=True)
class TokenValues:
    """A policy's outputs for the responses of a micro-batch; each (rows, T), 0 where masked.

    Attributes:
        log_probs: Token log-probabilities under the distribution that they were sampled from.
        untempered: The same at temperature 1, as engines report them; without gradient.
        entropy: Entropies of the distributions, in nats; None if not requested.
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
        model: A causal language model; it may be wrapped for several processes.
        batch: The micro-batch, on the model's device.
        temperature: Sampling temperature.
        entropy: Whether to compute entropies as well.
        entropy_gradient: Whether gradients flow through them.
    """
    mask = batch.response_mask > 0

    def by_row(values: torch.Tensor) -> torch.Tensor:
        """(rows, T), 0 where nothing was sampled."""
        return values.new_zeros(mask.shape).masked_scatter(mask, values)

    head = chunked_head(model)
    if head is not None:
        places, targets = _drawn_places(batch)
        with head.asked(Wanted(places, targets, temperature, entropy, entropy_gradient)):
            found = _forward(model, batch)
        found_entropy = found[:, 2] if entropy_gradient else found[:, 2].detach()
        return TokenValues(
            by_row(found[:, 0]),
            by_row(found[:, 1].detach()),
            by_row(found_entropy) if entropy else None,
        )
    logits, targets = drawn_logits(model, batch)
    tempered = logits / temperature if temperature != 1.0 else logits
    log_probs = by_row(_log_probs(tempered, targets))
    untempered = log_probs.detach()
    if temperature != 1.0:
        with torch.no_grad():
            untempered = by_row(_log_probs(logits, targets))
    entropies = None
    if entropy:
        with torch.set_grad_enabled(entropy_gradient and torch.is_grad_enabled()):
            entropies = by_row(_entropy(tempered))
    return TokenValues(log_probs, untempered, entropies)


def drawn_logits(model: Any, batch: MicroBatch) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits that predict the sampled tokens, and these tokens.

    Returns:
        (M, vocabulary) in at least float32, and (M,), in the order of the response mask.
    """
    places, targets = _drawn_places(batch)
    logits = _forward(model, batch)[places]
    narrow = logits.dtype in (torch.bfloat16, torch.float16)
    return logits.float() if narrow else logits, targets


def _drawn_places(batch: MicroBatch) -> tuple[tuple[Any, ...], torch.Tensor]:
    """Index of the states or logits that predict the sampled tokens, and these tokens (M,)."""
    if isinstance(batch, PackedBatch):
        return (0,), batch.drawn
    rows, steps = batch.response_mask.nonzero(as_tuple=True)
    columns = batch.starts[rows] + steps
    # The token at column c is predicted at column c - 1.
    width = batch.input_ids.shape[1]
    targets = token_ids(batch.input_ids[rows, columns])
    return (rows, columns - 1 - (width - _kept(batch))), targets


def _kept(batch: PaddedBatch) -> int:
    """Number of last columns whose logits may be needed."""
    return int(batch.input_ids.shape[1]) - int(batch.starts.min()) + 1


def _forward(model: Any, batch: MicroBatch) -> torch.Tensor:
    """The model's logits, or the values requested from its head."""
    if isinstance(batch, PackedBatch):
        logits: torch.Tensor = model(
            input_ids=batch.ids[None],
            # (1, N), or (3, 1, N) with images.
            position_ids=batch.positions.unsqueeze(-2),
            attention_mask=batch.nodes[None, None],
            use_cache=False,
            logits_to_keep=batch.before,
            **batch.seen,
        ).logits
        return logits
    width = batch.input_ids.shape[1]
    length = len(batch.prefix_ids)
    positions = batch.positions
    if positions is None:
        positions = torch.arange(length, length + width, device=batch.input_ids.device)[None]
    past = _prefix(model, batch) if length else None
    # Padding on the right needs no mask: no real token attends to it.
    logits = model(
        input_ids=batch.input_ids,
        position_ids=positions,
        past_key_values=past,
        use_cache=past is not None,
        # In a small network, logits cost as much as the rest; compute only what may be needed.
        logits_to_keep=_kept(batch),
        **batch.seen,
    ).logits
    return logits


def _prefix(model: Any, batch: PaddedBatch) -> DynamicCache:
    """Keys and values of the shared tokens, computed once and expanded over the rows."""
    cache = DynamicCache()
    bare = getattr(model, "module", model)
    bare.base_model(batch.prefix_ids[None], past_key_values=cache, use_cache=True)
    rows = len(batch.input_ids)
    return DynamicCache(
        [
            (keys.expand(rows, -1, -1, -1), values.expand(rows, -1, -1, -1))
            for keys, values in contents(cache)
        ]
    )


def _log_probs(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """(M,) log-probabilities of the tokens."""
    return -torch.nn.functional.cross_entropy(logits, targets, reduction="none")


def _entropy(logits: torch.Tensor) -> torch.Tensor:
    """(M,) entropy of the full distribution."""
    if torch.is_grad_enabled():
        log_probs = logits.log_softmax(-1)
        return -(log_probs.exp() * log_probs).sum(-1)
    step = max(ENTROPY_CHUNK // logits.shape[1], 1)
    parts = []
    for chunk in logits.detach().split(step):
        log_probs = chunk.log_softmax(-1)
        parts.append(-(log_probs.exp() * log_probs).sum(-1))
    return torch.cat(parts)
