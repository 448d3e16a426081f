"""The decoding loop of the transformers engine: KV memory in slots, per-request seeds.

transformers' `generate` has no per-row seeds, computes log-probabilities at a high cost, and keeps
a batch together until its longest response ends. Here every running response owns one slot (a row
of the KV memory, its tokens starting at column 0); a finished response frees its slot, and a
waiting one takes it in the next step.

A new prompt is prefilled without its last token, which is the first token that the row feeds to the
common decode step, so that log-probabilities come from one place only.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache, PreTrainedModel

from benchmark.engines.core.base import Sampling
from benchmark.engines.core.tickets import Completion
from benchmark.engines.core.vision import PromptImages
from benchmark.engines.transformers.images import by_shape, prefill_images
from benchmark.engines.transformers.prefix_tree import by_prefix, pack, take
from benchmark.engines.transformers.slots import ATTENTION, Prefix, SlotLayer, contents, layer_kinds
from benchmark.engines.transformers.tree_attention import takes_trees
from tasks.errors import UserError

PREFILL_TOKENS = {"cpu": 512, "cuda": 16_384}
"""Approximate tokens per prefill pass, padding included. On a CPU a small pass fits the processor's
caches (0.34M parameters, prompts of 250 tokens, one thread: 4.4 ms per prompt in passes of two or
three prompts, 6.3 ms in one of 64)."""
PACKED_TOKENS = 2_048
"""The same for a pass over packed prompts."""
COLDEST = 1e-5
"""Lower temperatures mean greedy decoding: in float32 they may become 0."""
PREFIX_KEY = 32
"""Prompts that agree in this many first tokens are assumed to start with the same instructions."""
MAX_PREFIXES = 16


@dataclass(slots=True, eq=False)
class BatchRow:
    """A running response.

    Attributes:
        owner: Any object that the caller gets back with the completion.
        pending: Token that the next step feeds.
        length: Number of tokens whose keys and values are in the slot.
        sampling: Sampling settings.
        max_tokens: Maximum response length.
        uniforms: One number in [0, 1) per token to sample; empty for greedy decoding.
        response: Tokens so far.
        log_probs: Their log-probabilities.
        first_version: Version of the weights that sampled the first token.
        shift: Added to a token's column to get its position: images take fewer positions than
            tokens.
    """

    owner: Any
    pending: int
    length: int
    sampling: Sampling
    max_tokens: int
    uniforms: list[float]
    response: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    first_version: int = 0
    shift: int = 0


def uniforms(seed: int, count: int) -> list[float]:
    """Draw the numbers in [0, 1) that decide a request's tokens, from its seed alone."""
    generator = torch.Generator().manual_seed(seed)
    numbers: list[float] = torch.rand(count, generator=generator, dtype=torch.float64).tolist()
    return numbers


def draw(logits: torch.Tensor, sampling: Sampling, numbers: Sequence[float]) -> torch.Tensor:
    """Choose one token per row.

    Applies temperature, then the `top_k` best tokens, then the smallest set of best tokens whose
    renormalized probability reaches `top_p`; the row's number selects the token from the cumulative
    distribution.

    Args:
        logits: (rows, vocabulary), float32.
        sampling: Sampling settings of all rows.
        numbers: One in [0, 1) per row; unused for greedy decoding (below `COLDEST`).

    Returns:
        (rows,) token ids.
    """
    if sampling.temperature < COLDEST:
        return logits.argmax(-1)
    # Dividing by a tiny temperature may overflow; only differences to the maximum matter.
    scaled = (logits - logits.amax(-1, keepdim=True)) / sampling.temperature
    order: torch.Tensor | None = None
    if 0 < sampling.top_k < logits.shape[-1]:
        scaled, order = scaled.topk(sampling.top_k, dim=-1)
    elif sampling.top_p < 1:
        scaled, order = scaled.sort(dim=-1, descending=True)
    weights = scaled.to(torch.float64).softmax(-1)
    if sampling.top_p < 1:
        weights = weights * (weights.cumsum(-1) - weights < sampling.top_p)
    cumulative = weights.cumsum(-1)
    points = torch.tensor(numbers, dtype=torch.float64, device=logits.device)[:, None]
    # `right=True` selects the first entry above the point, never one with weight 0.
    chosen = torch.searchsorted(cumulative, points * cumulative[:, -1:], right=True)
    chosen.clamp_(max=logits.shape[-1] - 1 if order is None else order.shape[-1] - 1)
    return (chosen if order is None else order.gather(-1, chosen)).squeeze(-1)


class Decoder:
    """All running responses of one model.

    Args:
        model: A causal language model, in evaluation mode.
        stop_ids: Tokens that end a response.
        max_batch: Number of slots.

    Attributes:
        version: Version of the model's weights.

    Raises:
        UserError: The model's layers store something other than keys and values of tokens.
    """

    def __init__(self, model: PreTrainedModel, stop_ids: frozenset[int], max_batch: int) -> None:
        self.model = model
        self.stop_ids = stop_ids
        self.max_batch = max_batch
        self.version = 0
        self.rows: list[BatchRow] = []
        self._kinds = layer_kinds(model)
        self._layers = [SlotLayer(max_batch) for _ in self._kinds]
        self._cache = DynamicCache()
        self._cache.layers = list(self._layers)
        # Shared prefixes of prompts, by their first `PREFIX_KEY` tokens.
        self._prefixes: dict[tuple[int, ...], Prefix] = {}
        # Packed prompts share only their beginning, so no layer may have a window.
        self._packs = model.device.type == "cpu" and takes_trees(model)
        if model.config._attn_implementation == "sdpa":
            model.set_attn_implementation(ATTENTION)

    @property
    def free(self) -> int:
        """Number of free slots."""
        return self.max_batch - len(self.rows)

    @torch.inference_mode()
    def admit(self, rows: Sequence[BatchRow], prompts: Sequence[Sequence[int]]) -> None:
        """Prefill new rows, at most `free` of them."""
        families: dict[tuple[int, ...], list[tuple[BatchRow, Sequence[int]]]] = {}
        for row, prompt in zip(rows, prompts, strict=True):
            families.setdefault(tuple(prompt[:PREFIX_KEY]), []).append((row, prompt))
        for key, family in families.items():
            prefix = self._shared_prefix(key, [prompt for _, prompt in family])
            if self._packs:
                self._prefill_packed(family, prefix)
                continue
            family.sort(key=lambda pair: len(pair[1]))
            while family:
                suffix = max(len(family[-1][1]) - prefix.length, 1)
                count = max(PREFILL_TOKENS[self.model.device.type] // suffix, 1)
                self._prefill(family[-count:], prefix)
                del family[-count:]

    @torch.inference_mode()
    def admit_with_images(
        self,
        rows: Sequence[BatchRow],
        prompts: Sequence[Sequence[int]],
        prompt_images: Sequence[PromptImages],
    ) -> None:
        """Prefill new rows whose prompts have images, without shared prefixes."""
        for group in by_shape(prompts, prompt_images):
            chosen = [prompts[number] for number in group]
            kept, shifts = prefill_images(
                self.model, chosen, [prompt_images[number] for number in group]
            )
            for layer, (keys, values) in zip(self._layers, kept, strict=True):
                layer.admit(len(self.rows), keys, values)
            for number, shift in zip(group, shifts, strict=True):
                rows[number].shift = shift
                self.rows.append(rows[number])

    def forget_prefixes(self) -> None:
        """Drop shared prefixes; call this when weights change."""
        self._prefixes.clear()

    @torch.no_grad()
    def load_weights(self, weights: Mapping[str, torch.Tensor], version: int) -> None:
        """Copy new weights into the model; running responses keep their keys and values.

        Args:
            weights: A tensor for every name of the model's state dict (`WeightLayout.complete`).
            version: Their version.
        """
        for name, tensor in self.model.state_dict(keep_vars=True).items():
            tensor.copy_(weights[name])
        self.version = version
        self.forget_prefixes()

    def _shared_prefix(self, key: tuple[int, ...], prompts: Sequence[Sequence[int]]) -> "Prefix":
        """The prefix shared by all prompts of this key so far, without any prompt's last token.

        The first prompts of a key set it, and later ones can only shorten it, so it is computed
        once.
        """
        prefix = self._prefixes.get(key)
        ids = prefix.ids if prefix else tuple(prompts[0][:-1])
        for prompt in prompts:
            ids = ids[: _agreement(ids, prompt[:-1])]
        if len(ids) < PREFIX_KEY:
            return Prefix((), [])
        if prefix is None:
            cache = DynamicCache()
            tensor = torch.tensor([ids], device=self.model.device)
            self.model(tensor, past_key_values=cache, use_cache=True, logits_to_keep=1)
            prefix = Prefix(ids, contents(cache))
        if len(ids) < prefix.length:
            cut = [(k[:, :, : len(ids)], v[:, :, : len(ids)]) for k, v in prefix.layers]
            prefix = Prefix(ids, cut)
        if key not in self._prefixes and len(self._prefixes) >= MAX_PREFIXES:
            del self._prefixes[next(iter(self._prefixes))]
        self._prefixes[key] = prefix
        return prefix

    def _prefill(self, group: Sequence[tuple[BatchRow, Sequence[int]]], prefix: "Prefix") -> None:
        """Fill the next free slots with the prompts, except for their last tokens."""
        start = prefix.length
        length = max(len(prompt) for _, prompt in group) - 1 - start
        cache = prefix.cache(len(group))
        if length:
            # Padding on the right needs no mask: no real token attends to it.
            padded = [[*p[start:-1], *[0] * (length + start + 1 - len(p))] for _, p in group]
            positions = torch.arange(start, start + length, device=self.model.device)[None]
            self.model(
                torch.tensor(padded, device=self.model.device),
                attention_mask=self._masks(positions, start + length) if start else None,
                position_ids=positions,
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1,
            )
        for layer, (keys, values) in self._filled(cache, start + length):
            layer.admit(len(self.rows), keys, values)
        self.rows.extend(row for row, _ in group)

    def _prefill_packed(
        self, family: Sequence[tuple[BatchRow, Sequence[int]]], prefix: "Prefix"
    ) -> None:
        """The same with packed trees, in which prompts share more than their common prefix."""
        start = prefix.length
        rests = [np.array(prompt[start:-1], np.int32) for _, prompt in family]
        ordered = by_prefix(rests)
        while ordered:
            count = take(rests, ordered, PACKED_TOKENS)
            chosen, ordered = ordered[:count], ordered[count:]
            tree = pack([rests[number] for number in chosen])
            cache = prefix.cache(1)
            if len(tree.ids):
                self.model(
                    tree.ids[None],
                    attention_mask=tree.nodes[None, None],
                    position_ids=tree.positions[None] + start,
                    past_key_values=cache,
                    use_cache=True,
                    logits_to_keep=1,
                )
            whole = [
                torch.cat([torch.arange(start), torch.from_numpy(places) + start])
                for places in tree.places
            ]
            for layer, (keys, values) in self._filled(cache, start + len(tree.ids)):
                layer.admit_packed(len(self.rows), keys, values, whole)
            self.rows.extend(family[number][0] for number in chosen)

    def _filled(
        self, cache: DynamicCache, fed: int
    ) -> Iterator[tuple[SlotLayer, tuple[torch.Tensor, torch.Tensor]]]:
        """Every layer with its keys and values in a cache; nothing if no token was fed.

        Raises:
            UserError: Some layers have stored nothing.
        """
        kept = contents(cache)
        if fed and len(kept) != len(self._layers):
            raise UserError(
                f"the transformers engine cannot run {type(self.model).__name__}, which does not "
                "keep keys and values in all layers; use --engine vllm"
            )
        return zip(self._layers, kept, strict=False)

    @torch.inference_mode()
    def step(self) -> list[tuple[BatchRow, Completion]]:
        """Extend every running response by one token; return those that ended."""
        logits = self._forward()
        tokens = self._choose(logits)
        log_probs = logits.log_softmax(-1).gather(-1, tokens[:, None]).squeeze(-1)
        ended: list[int] = []
        for slot, (row, token, log_prob) in enumerate(
            zip(self.rows, tokens.tolist(), log_probs.tolist(), strict=True)
        ):
            if not row.response:
                row.first_version = self.version
            row.response.append(token)
            row.log_probs.append(log_prob)
            row.pending = token
            row.length += 1
            if token in self.stop_ids or len(row.response) == row.max_tokens:
                ended.append(slot)
        results = [(self.rows[slot], self._completion(self.rows[slot])) for slot in ended]
        self.drop(ended)
        return results

    def _completion(self, row: BatchRow) -> Completion:
        stopped = row.response[-1] in self.stop_ids
        versions = row.first_version, self.version
        return Completion(tuple(row.response), tuple(row.log_probs), stopped, versions)

    @torch.inference_mode()
    def drop(self, slots: Sequence[int]) -> None:
        """Free slots; the last rows move into the gaps."""
        gone = set(slots)
        left = len(self.rows) - len(gone)
        holes = sorted(slot for slot in gone if slot < left)
        movers = [slot for slot in range(left, len(self.rows)) if slot not in gone]
        if holes:
            device = self.model.device
            sources = torch.tensor(movers, device=device)
            targets = torch.tensor(holes, device=device)
            for layer in self._layers:
                layer.move(sources, targets)
        for hole, mover in zip(holes, movers, strict=True):
            self.rows[hole] = self.rows[mover]
        del self.rows[left:]

    def _forward(self) -> torch.Tensor:
        """Feed each row's pending token. Returns (rows, vocabulary) logits in float32."""
        device = self.model.device
        ids = torch.tensor([[row.pending] for row in self.rows], device=device)
        columns = torch.tensor([row.length for row in self.rows], device=device)
        positions = columns[:, None]
        shifts = torch.tensor([[row.shift] for row in self.rows], device=device)
        width = max(row.length for row in self.rows) + 1
        slots = torch.arange(len(self.rows), device=device)
        for layer in self._layers:
            layer.rows, layer.columns, layer.width = slots, columns, width
        logits: torch.Tensor = self.model(
            ids,
            attention_mask=self._masks(positions, width),
            position_ids=positions + shifts,
            past_key_values=self._cache,
            use_cache=True,
        ).logits
        return logits[:, -1].float()

    def _masks(self, positions: torch.Tensor, width: int) -> torch.Tensor | dict[str, torch.Tensor]:
        """Masks to add to the scores, by kind if layers differ.

        Args:
            positions: (rows or 1, queries) positions of the fed tokens.
            width: Number of columns in use.

        Returns:
            (rows or 1, 1, queries, width).
        """
        every = torch.arange(width, device=positions.device)
        dtype = self.model.dtype
        masks: dict[str, torch.Tensor] = {}
        for kind, window in dict(self._kinds).items():
            seen = every <= positions[..., None]
            if window is not None:
                seen &= every > positions[..., None] - window
            mask = torch.zeros(seen.shape, dtype=dtype, device=positions.device)
            masks[kind] = mask.masked_fill_(~seen, torch.finfo(dtype).min)[:, None]
        return masks if len(masks) > 1 else next(iter(masks.values()))

    def _choose(self, logits: torch.Tensor) -> torch.Tensor:
        """(rows,) tokens; rows with equal sampling settings are sampled together."""
        groups: dict[Sampling, list[int]] = {}
        for slot, row in enumerate(self.rows):
            groups.setdefault(row.sampling, []).append(slot)
        tokens = torch.empty(len(self.rows), dtype=torch.long, device=logits.device)
        for sampling, slots in groups.items():
            numbers = [
                row.uniforms[len(row.response)] if row.uniforms else 0.0
                for row in (self.rows[slot] for slot in slots)
            ]
            if len(groups) == 1:
                return draw(logits, sampling, numbers)
            index = torch.tensor(slots, device=logits.device)
            tokens[index] = draw(logits[index], sampling, numbers)
        return tokens


def _agreement(first: Sequence[int], second: Sequence[int]) -> int:
    """Number of leading tokens that two prompts have in common."""
    for index, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return index
    return min(len(first), len(second))
