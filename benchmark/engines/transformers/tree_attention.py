"""Exact attention over sequences packed as a prefix tree, on a CPU.

Every node is attended to twice: by its own tokens (causal) and by all tokens below it, which are
one contiguous range. Results over parts of the keys are merged by their log-sum-exps, as in flash
attention (Dao et al., arXiv 2205.14135) and ring attention (Liu et al., arXiv 2310.01889); the
backward kernel uses the merged output and log-sum-exp, so the gradient is exact, too.
"""

from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.cache_utils import get_layer_types_and_kwargs
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

TREE_ATTENTION = "arlarena_tree"
"""Name under which `tree_attention` is registered with transformers."""

_flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_flash_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


class _TreeAttention(torch.autograd.Function):
    """Takes (1, heads, N, head size) each, and the nodes of `PrefixTree` as a list.

    There may be more keys than queries: the whole tree attends to keys before it.
    """

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        nodes: list[list[int]],
        scale: float | None,
    ) -> Tensor:
        _, heads, tokens, size = query.shape
        # Tokens before heads, as the following layers expect.
        output = query.new_empty(1, tokens, heads, size).transpose(1, 2)
        sums = query.new_empty(1, tokens, heads).transpose(1, 2)
        past = key.shape[2] - tokens
        for begin, end, _ in nodes:
            own, keys = slice(begin, end), slice(past + begin, past + end)
            output[:, :, own], sums[:, :, own] = _flash(
                query[:, :, own], key[:, :, keys], value[:, :, keys], 0.0, True, scale=scale
            )
        for begin, end, last in [(-past, 0, tokens), *nodes]:
            if begin == end or last == end:
                continue
            below, keys = slice(end, last), slice(past + begin, past + end)
            part, part_sums = _flash(
                query[:, :, below], key[:, :, keys], value[:, :, keys], 0.0, False, scale=scale
            )
            before = sums[:, :, below]
            # exp(part_sums) / (exp(part_sums) + exp(before)), without overflow.
            share = torch.sigmoid(part_sums - before)
            output[:, :, below].lerp_(part, share[..., None])
            sums[:, :, below] = torch.logaddexp(before, part_sums)
        ctx.save_for_backward(query, key, value, output, sums)
        ctx.nodes, ctx.scale = nodes, scale
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, output, sums = ctx.saved_tensors
        if key.shape[2] != query.shape[2]:
            raise NotImplementedError("there is no gradient with keys from before the tree")
        (gradient,) = gradients
        grads = [torch.zeros_like(tensor) for tensor in (query, key, value)]
        for begin, end, last in ctx.nodes:
            own, below = slice(begin, end), slice(end, last)
            for asking, causal in ((own, True), (below, False)):
                if asking.start == asking.stop:
                    continue
                parts = _flash_backward(
                    gradient[:, :, asking],
                    query[:, :, asking],
                    key[:, :, own],
                    value[:, :, own],
                    output[:, :, asking],
                    sums[:, :, asking],
                    0.0,
                    causal,
                    scale=ctx.scale,
                )
                for grad, part, where in zip(grads, parts, (asking, own, own), strict=True):
                    grad[:, :, where] += part
        return *grads, None, None


def tree_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """Attention over one packed tree; anything else is passed to SDPA.

    Args:
        module: The attention layer.
        query: (1, heads, N, head size).
        key: (1, key heads, P + N, head size); all tokens attend to the first P, without gradients.
        value: Like `key`.
        attention_mask: (1, 1, nodes, 3) integers, `PrefixTree.nodes`: transformers' models pass on
            a four-dimensional mask unchanged. Any other mask means that there is no tree.
        scaling: Factor of the scores.
        **kwargs: Arguments of `sdpa_attention_forward`.

    Returns:
        (1, N, heads, head size), and None for the attention weights.
    """
    if attention_mask is None or attention_mask.dtype != torch.long:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **kwargs
        )
    shared = query.shape[1] // key.shape[1]
    if shared > 1:
        key, value = key.repeat_interleave(shared, 1), value.repeat_interleave(shared, 1)
    output: Tensor = _TreeAttention.apply(  # type: ignore[no-untyped-call]
        query, key, value, attention_mask[0, 0].tolist(), scaling
    )
    return output.transpose(1, 2), None


def takes_trees(model: PreTrainedModel) -> bool:
    """Whether a model can run on packed trees: only full attention with SDPA, in float32.

    Attention parts are merged by their log-sum-exps, for which half precision is too coarse.
    """
    if model.dtype not in (torch.float32, torch.float64):
        return False
    kinds, _ = get_layer_types_and_kwargs(model.config.get_text_config(decoder=True))
    return set(kinds) == {"full_attention"} and model.config._attn_implementation == "sdpa"


def use_tree_attention(model: PreTrainedModel) -> None:
    """Enable packed trees in a model on the CPU, if it supports them."""
    if takes_trees(model):
        model.set_attn_implementation(TREE_ATTENTION)


AttentionInterface.register(TREE_ATTENTION, tree_attention)
AttentionMaskInterface.register(TREE_ATTENTION, sdpa_mask)
