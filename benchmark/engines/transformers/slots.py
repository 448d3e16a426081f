"""KV memory in slots: one row per running response, its tokens starting at column 0."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface, DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer, get_layer_types_and_kwargs
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from benchmark.engines.transformers.tree_attention import tree_attention
from tasks.errors import UserError

ATTENTION = "arlarena_slots"
"""Name under which `grouped_attention` is registered with transformers."""
COLUMN_STEP = 256
"""The KV memory grows by multiples of this number of columns."""


def grouped_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """SDPA that does not copy keys and values once per query head when there is a mask.

    The query heads that share a key head become further queries of one head; each has its own row
    of the mask, so the result is the same.

    Args:
        module: The attention layer.
        query: (rows, heads, queries, head size).
        key: (rows, key heads, columns, head size).
        value: Like `key`.
        attention_mask: (rows, 1, queries, columns), added to the scores; None is causal, and
            integers are the nodes of a tree.
        scaling: Factor of the scores.
        **kwargs: Arguments of `sdpa_attention_forward`.

    Returns:
        (rows, queries, heads, head size), and None for the attention weights.
    """
    if attention_mask is not None and attention_mask.dtype == torch.long:
        return tree_attention(module, query, key, value, attention_mask, scaling, **kwargs)
    rows, heads, queries, size = query.shape
    if attention_mask is None or kwargs.get("position_bias") is not None:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **kwargs
        )
    shared = heads // key.shape[1]
    groups = query.reshape(rows, key.shape[1], shared * queries, size)
    output = torch.nn.functional.scaled_dot_product_attention(
        groups, key, value, attn_mask=attention_mask.repeat(1, 1, shared, 1), scale=scaling
    )
    return output.reshape(rows, heads, queries, size).transpose(1, 2).contiguous(), None


AttentionInterface.register(ATTENTION, grouped_attention)
AttentionMaskInterface.register(ATTENTION, sdpa_mask)


class SlotLayer(DynamicLayer):
    """Keys and values of one layer: (slots, key heads, columns, head size)."""

    def __init__(self, slots: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.slots = slots
        self.rows = torch.empty(0, dtype=torch.long)
        self.columns = torch.empty(0, dtype=torch.long)
        self.width = 0

    def admit(self, first: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Write the prefilled keys and values of new rows to slots `first`, `first + 1`, ..."""
        rows, _, length, _ = keys.shape
        self._reserve(keys, length)
        assert self.keys is not None and self.values is not None
        self.keys[first : first + rows, :, :length] = keys
        self.values[first : first + rows, :, :length] = values

    def admit_packed(
        self, first: int, keys: torch.Tensor, values: torch.Tensor, places: Sequence[torch.Tensor]
    ) -> None:
        """Write the keys and values of packed prompts to slots `first`, `first + 1`, ...

        Args:
            first: Slot of the first prompt.
            keys: (1, key heads, tokens, head size).
            values: Like `keys`.
            places: For each prompt, the indices of its tokens.
        """
        self._reserve(keys, max(len(own) for own in places))
        assert self.keys is not None and self.values is not None
        for slot, own in enumerate(places, first):
            self.keys[slot, :, : len(own)] = keys[0][:, own]
            self.values[slot, :, : len(own)] = values[0][:, own]

    def move(self, sources: torch.Tensor, targets: torch.Tensor) -> None:
        """Copy slots onto others."""
        for memory in (self.keys, self.values):
            if memory is not None:
                memory[targets, :, : self.width] = memory[sources, :, : self.width]

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write one token per row at its own column; return all columns in use."""
        self._reserve(key_states, self.width)
        assert self.keys is not None and self.values is not None
        self.keys[self.rows, :, self.columns] = key_states[:, :, 0]
        self.values[self.rows, :, self.columns] = value_states[:, :, 0]
        rows = len(self.rows)
        return self.keys[:rows, :, : self.width], self.values[:rows, :, : self.width]

    def _reserve(self, like: torch.Tensor, width: int) -> None:
        have = 0 if self.keys is None else self.keys.shape[2]
        if width <= have:
            return
        columns = -(-max(width, have + have // 2) // COLUMN_STEP) * COLUMN_STEP
        shape = (self.slots, like.shape[1], columns, like.shape[3])
        for name in ("keys", "values"):
            # Unwritten columns are masked, but 0 * NaN would still be NaN.
            memory = torch.zeros(shape, dtype=like.dtype, device=like.device)
            old = getattr(self, name)
            if old is not None:
                memory[:, :, :have] = old
            setattr(self, name, memory)
        self.is_initialized = True


@dataclass(frozen=True, slots=True)
class Prefix:
    """A prefix shared by many prompts, with its keys and values.

    Attributes:
        ids: The tokens; empty for no prefix.
        layers: (keys, values) of each layer, (1, key heads, tokens, head size).
    """

    ids: tuple[int, ...]
    layers: list[tuple[torch.Tensor, torch.Tensor]]

    @property
    def length(self) -> int:
        """Number of tokens."""
        return len(self.ids)

    def cache(self, rows: int) -> DynamicCache:
        """A cache that starts with the prefix in each of `rows` rows."""
        expanded = [
            (k.expand(rows, -1, -1, -1), v.expand(rows, -1, -1, -1)) for k, v in self.layers
        ]
        return DynamicCache(expanded) if expanded else DynamicCache()


def layer_kinds(model: PreTrainedModel) -> list[tuple[str, int | None]]:
    """(kind, window) of every layer."""
    kinds, settings = get_layer_types_and_kwargs(model.config.get_text_config(decoder=True))
    for kind in kinds:
        if kind not in ("full_attention", "sliding_attention"):
            raise UserError(
                f"the transformers engine cannot run {type(model).__name__}: it has {kind} "
                "layers; use --engine vllm"
            )
    return [
        (kind, setting.get("sliding_window")) for kind, setting in zip(kinds, settings, strict=True)
    ]


def contents(cache: DynamicCache) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """(keys, values) of every layer; empty if nothing was fed."""
    contents = []
    for layer in cache.layers:
        assert isinstance(layer, DynamicLayer)
        assert layer.keys is not None and layer.values is not None
        contents.append((layer.keys, layer.values))
    return contents
