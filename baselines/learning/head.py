"""Computes the last layer in chunks: log-probabilities without a whole micro-batch's logits.

Logits dominate memory: 65,536 tokens times a vocabulary of 151,936 in float32 are 37 GiB, and
several copies exist. Here they exist for one chunk of tokens at a time, and the backward pass
recomputes them. `torch.nn.functional.linear_cross_entropy` does the same, but without entropies and
only for losses that are reduced immediately, since it computes the gradient in the forward pass; a
policy loss needs each token's log-probability first.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

DEFAULT_CHUNK: Final = 2048
"""Tokens per chunk on an accelerator: 1.2 GiB per copy of the logits at a vocabulary of 151,936."""
_TRANSFORMED: Final = ("final_logit_softcapping", "logits_scaling", "logit_scale")
"""Model settings that change logits after the last layer."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the next forward pass should compute.

    Attributes:
        places: Index that selects the M states that predict the sampled tokens.
        targets: (M,) the sampled tokens.
        temperature: Sampling temperature.
        entropy: Whether to compute entropies.
        entropy_gradient: Whether gradients flow through them.
    """

    places: tuple[Any, ...]
    targets: Tensor
    temperature: float
    entropy: bool
    entropy_gradient: bool = False


class ChunkedHead:
    """Replaces a last layer's `forward`.

    The layer itself stays in place: FSDP gathers its weights as before, and a checkpoint stores
    them under the same name.

    Args:
        layer: The last layer, without a bias.
        chunk: Tokens per chunk of logits.
    """

    def __init__(self, layer: torch.nn.Linear, chunk: int) -> None:
        self._layer = layer
        self._chunk = chunk
        self._plain = layer.forward
        self._wanted: Wanted | None = None

    @contextmanager
    def asked(self, wanted: Wanted) -> Iterator[None]:
        """Within this context, the model's forward pass returns (M, 3) values instead of logits.

        They are log-probabilities at the sampling temperature, log-probabilities at temperature 1
        (no gradient), and entropies (0 if not requested).
        """
        self._wanted = wanted
        try:
            yield
        finally:
            self._wanted = None

    def __call__(self, states: Tensor) -> Tensor:
        """Compute logits, or the requested values."""
        wanted = self._wanted
        if wanted is None:
            return self._plain(states)
        picked = states[wanted.places]
        kind = states.device.type
        narrow = torch.is_autocast_enabled(kind)
        dtype = torch.get_autocast_dtype(kind) if narrow else self._layer.weight.dtype
        return token_values(picked, self._layer.weight, wanted, self._chunk, dtype)


def use_chunked_head(model: Any, chunk: int) -> bool:
    """Make a model's last layer work in chunks; call it before the model is prepared.

    Returns:
        False if this is not possible: the layer has a bias, or the model changes logits after it.
    """
    layer = model.get_output_embeddings()
    config = model.config.get_text_config(decoder=True)
    changed = any(getattr(config, name, None) not in (None, 1, 1.0) for name in _TRANSFORMED)
    if (
        changed
        or not isinstance(layer, torch.nn.Linear)
        or getattr(layer, "bias", None) is not None
    ):
        return False
    # An attribute, because a separate module would rename the weights.
    vars(layer)["forward"] = ChunkedHead(layer, chunk)
    return True


def chunked_head(model: Any) -> ChunkedHead | None:
    """The chunked head of a model, which may be wrapped; None if it has an ordinary head."""
    layer = getattr(model, "module", model).get_output_embeddings()
    head = getattr(layer, "forward", None)
    return head if isinstance(head, ChunkedHead) else None


def token_values(
    states: Tensor, weight: Tensor, wanted: Wanted, chunk: int, dtype: torch.dtype
) -> Tensor:
    """(M, 3) values from states (M, H) and weights (V, H); see `ChunkedHead.asked`.

    Args:
        states: The states that predict the sampled tokens.
        weight: Weight of the last layer.
        wanted: What to compute; its `places` are ignored.
        chunk: Tokens per chunk of logits.
        dtype: Type of the matrix products.
    """
    values: Any = _TokenValues.apply  # torch's stubs lack its type.
    found: Tensor = values(states, weight, wanted, chunk, dtype)
    return found


class _TokenValues(torch.autograd.Function):
    """Implements `token_values`.

    With p the probabilities at temperature T and H their entropy, the derivatives with respect to a
    logit are `(1[drawn] - p) / T` for the log-probability and `-p (log p + H) / T` for the entropy.
    The weight gradient is summed over chunks in at least float32.
    """

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, weight: Tensor, wanted: Wanted, chunk: int, dtype: torch.dtype
    ) -> Tensor:
        ctx.save_for_backward(states, weight)
        ctx.wanted, ctx.chunk, ctx.dtype = wanted, chunk, dtype
        narrow = weight.to(dtype)
        parts = zip(states.split(chunk), wanted.targets.split(chunk), strict=True)
        found = [_values(_logits(part, narrow), targets, wanted) for part, targets in parts]
        wide = torch.promote_types(dtype, torch.float32)
        return torch.cat(found) if found else states.new_zeros((0, 3), dtype=wide)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,), (states, weight) = gradients, ctx.saved_tensors
        wanted, chunk = ctx.wanted, ctx.chunk
        narrow = weight.to(ctx.dtype)
        of_states = torch.empty_like(states)
        wide = torch.promote_types(weight.dtype, torch.float32)
        of_weight = torch.zeros_like(weight, dtype=wide) if ctx.needs_input_grad[1] else None
        for begin in range(0, len(states), chunk):
            part = slice(begin, begin + chunk)
            logits = _logits(states[part], narrow)
            slopes = _slopes(logits, wanted.targets[part], gradient[part], wanted).to(ctx.dtype)
            of_states[part] = (slopes @ narrow).to(states.dtype)
            if of_weight is not None:
                of_weight += slopes.t() @ states[part].to(ctx.dtype)
        to_weight = None if of_weight is None else of_weight.to(weight.dtype)
        return of_states, to_weight, None, None, None


def _logits(states: Tensor, weight: Tensor) -> Tensor:
    """(m, V) logits in at least float32; the product is computed in the weights' type."""
    with torch.autocast(states.device.type, enabled=False):
        logits = states.to(weight.dtype) @ weight.t()
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def _values(logits: Tensor, targets: Tensor, wanted: Wanted) -> Tensor:
    """(m, 3) values of a chunk."""
    plain = -torch.nn.functional.cross_entropy(logits, targets, reduction="none")
    tempered, entropy = plain, torch.zeros_like(plain)
    if wanted.temperature != 1.0:
        logits = logits / wanted.temperature
        tempered = -torch.nn.functional.cross_entropy(logits, targets, reduction="none")
    if wanted.entropy:
        log_probs = logits.log_softmax(-1)
        entropy = -(log_probs.exp() * log_probs).sum(-1)
    return torch.stack((tempered, plain, entropy), dim=1)


def _slopes(logits: Tensor, targets: Tensor, gradient: Tensor, wanted: Wanted) -> Tensor:
    """(m, V) gradient of a chunk's logits from the gradient (m, 3) of its values."""
    of_drawn, of_entropy = gradient[:, 0, None], gradient[:, 2, None]
    log_probs = (logits / wanted.temperature).log_softmax(-1)
    probs = log_probs.exp()
    slopes = probs * -of_drawn
    slopes.scatter_add_(1, targets[:, None], of_drawn)
    if wanted.entropy_gradient:
        entropy = -(probs * log_probs).sum(-1, keepdim=True)
        slopes -= of_entropy * probs * (log_probs + entropy)
    return slopes.div_(wanted.temperature)
