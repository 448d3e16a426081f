"""Estimates the memory that a run needs on each GPU, from the model's configuration alone.

Persistent memory is counted: weights, gradients, moments, the reference. The additional memory of
one micro-batch is measured by running the real model and the real last layer on torch's fake
tensors, which have shapes but no data. Nothing is allocated.
"""

import copy
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only
from torch.utils.weak import WeakIdKeyDictionary

from baselines.config.layout import Layout
from baselines.config.schema import TrainConfig
from baselines.learning.head import DEFAULT_CHUNK, Wanted, chunked_head, use_chunked_head
from baselines.learning.lora import add_updates
from baselines.learning.sharding import narrow_frozen

if TYPE_CHECKING:
    from transformers import PretrainedConfig

GIB: Final = 2**30
PROMPT: Final = 1024
"""Prompt tokens that the estimate assumes per row; what matters is a micro-batch's tokens."""
_DEEP: Final = 4
"""Number of layers from which a model's memory is extrapolated instead of measured."""
OVERHEAD: Final = 2.0
"""GiB per GPU that libraries use: CUDA context, NCCL, workspaces."""

_NCCL_BUFFERS: Final = 2 * GIB
"""Maximum bytes of the buffers in which vLLM's NCCL transfer packs weights on the main device."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Device memory that each process needs, in GiB.

    Attributes:
        parts: Persistent memory, and the additional memory of a micro-batch, by name.
        phases: Peak by phase, without an engine.
        tokens: Tokens of the measured micro-batch.
        parameters: Number of the policy's parameters.
        measuring: Memory of a reference that only measures the KL to the init and affects no update
            (`kl.measured`); 0 otherwise.
        engine: vLLM's minimum share: weights, and keys and values of the longest row; 0 without
            vLLM.
    """

    parts: Mapping[str, float]
    phases: Mapping[str, float]
    tokens: int
    parameters: int
    measuring: float
    engine: float

    @property
    def peak(self) -> float:
        """Peak over all phases."""
        return max(self.phases.values())

    def text(self) -> str:
        """Human-readable text."""
        parts = ", ".join(f"{name} {size:.2f}" for name, size in self.parts.items())
        phases = ", ".join(f"{name} {size:.2f}" for name, size in self.phases.items())
        engine = f", of which it needs {self.engine:.2f} or more" if self.engine else ""
        return (
            f"memory of each process in GiB, computed: {parts}\n"
            f"peaks of the run: {phases} (with {OVERHEAD:g} for libraries, without vLLM's "
            f"share{engine}; micro-batches of {self.tokens:,} tokens)"
        )


def estimate_memory(
    model: "PretrainedConfig",
    config: TrainConfig,
    layout: Layout,
    longest: int,
    sent: int = 4,
    gathers: bool = False,
) -> Memory:
    """Estimate the memory of a process; images in micro-batches are not counted.

    Args:
        model: The policy's configuration.
        config: The recipe's choices.
        layout: The run's layout on devices.
        longest: Maximum response tokens of a row.
        sent: Bytes per weight sent to engines.
        gathers: The main process gathers all weights on its device before sending them (NCCL).
    """
    optimization, lora = config.optimization, config.optimization.lora
    sharded = layout.sharded
    sizes = _sizes(model, None if lora is None else lora.rank)
    count = sizes.parameters
    narrow = optimization.mixed_precision == "bf16"
    share = layout.processes if sharded else 1
    moments = 2.1 if optimization.optimizer == "adamw_8bit" else 8.0
    # Under autocast, matrices used only in products are stored in bfloat16.
    halved = count if sharded else sizes.linear
    frozen = (4 * count - (2 * halved if narrow else 0)) / share
    own = count - (sizes.vision if optimization.freeze_vision else 0)
    trained = (own if lora is None else sizes.updates) / share
    if config.needs_critic:
        trained += count / share
    parts = {
        "weights": 4 * trained + (4 * (count - own) / share if lora is None else frozen),
        "gradients": 4 * trained,
        "moments": moments * trained,
    }
    if lora is None and (config.needs_reference or config.kl.measured):
        parts["reference"] = frozen
    if config.sampling.cross_policy is not None:
        # Unsharded and in float32, as the trainer keeps them for its checkpoints.
        parts["older policy"] = 4 * count
    if layout.models is not None:
        each = _of_engine(model, count, layout.models.rows, PROMPT + longest)
        parts["engines"] = layout.models.count * layout.models.size * each
    lasting = sum(size for name, size in parts.items() if name != "gradients")
    length = PROMPT + longest
    rows = max(optimization.micro_batch_tokens // length, 1)
    if sharded:
        layer, rest = _layers(model)
        parts["gathered"] = (2 if narrow else 4) * (2 * layer + rest)
        parts["reduced"] = whole_gradients(model, narrow)
    parts["micro-batch"] = _micro_batch(model, config, (rows, length, longest), sharded)
    # Without FSDP, only a type conversion copies weights, except that merged ones are always new.
    copies: float = 2 * count if sent == 2 else 0 if lora is None else 4 * sizes.linear
    if sharded:
        # Each tensor is gathered briefly.
        copies = parts["gathered"] + sent * count * (layout.everywhere or gathers)
    if gathers:
        copies += min(sent * count, _NCCL_BUFFERS)
    # The new older policy is created before the previous one is freed.
    copies += parts.get("older policy", 0)
    engines = 0 if not layout.engine_share else 2 if "older policy" in parts else 1
    phases = {
        "playing": lasting,
        "learning": sum(parts.values()),
        "weight sync": lasting + copies,
    }
    return Memory(
        {name: size / GIB for name, size in parts.items()},
        {name: size / GIB + OVERHEAD for name, size in phases.items()},
        rows * length,
        count,
        0.0 if config.needs_reference else parts.get("reference", 0) / GIB,
        engines * sent * _of_engine(model, count, 1, PROMPT + longest) / GIB,
    )


def _of_engine(model: "PretrainedConfig", count: int, rows: int, length: int) -> int:
    """Number of values that an engine stores: weights, keys and values.

    Counts no keys and values if some layers do not store them for every token.
    """
    text = model.get_text_config(decoder=True)
    kinds = set(getattr(text, "layer_types", None) or ())
    if kinds - {"full_attention"} or hasattr(text, "kv_lora_rank"):
        return count
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    size = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    keys: int = 2 * text.num_hidden_layers * heads * size * length * rows
    return count + keys


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Weight counts.

    Attributes:
        parameters: All weights of the model.
        linear: Weights of matrices used only in products.
        updates: Weights of the LoRA updates.
        vision: Weights of the vision part.
    """

    parameters: int
    linear: int
    updates: int
    vision: int


def _sizes(config: "PretrainedConfig", rank: int | None) -> _Sizes:
    """Count a model's parameters, with LoRA updates of the given rank."""
    model = _empty(config, "meta", torch.float32)
    shared, last = model.get_input_embeddings().weight, model.get_output_embeddings()
    layers = [m for m in model.modules() if isinstance(m, torch.nn.Linear)]
    linear = {id(m.weight): m.weight.numel() for m in layers if m.weight is not shared}
    sides = sum(m.in_features + m.out_features for m in layers if m is not last)
    count = sum(weight.numel() for weight in model.parameters())
    visual = getattr(model.base_model, "visual", None)
    seeing = 0 if visual is None else sum(weight.numel() for weight in visual.parameters())
    return _Sizes(count, sum(linear.values()), (rank or 0) * sides, seeing)


def whole_gradients(config: "PretrainedConfig", narrow: bool) -> float:
    """Bytes of FSDP's unsharded gradients: those of a layer, and the float32 reduction buffer.

    The embeddings' gradients are unsharded after all activations are freed, so they do not add to
    the peak.

    Args:
        config: The model's configuration.
        narrow: Gradients are in bfloat16 before they are reduced.
    """
    return float(((2 if narrow else 4) + 4) * _layers(config)[0])


def _layers(config: "PretrainedConfig") -> tuple[int, int]:
    """Weights of the largest layer, and of the embeddings, which FSDP gathers besides layers."""
    model = _empty(config, "meta", torch.float32)
    text = getattr(model.base_model, "language_model", model.base_model)
    layers: Sequence[torch.nn.Module] = text.layers
    of_layers = [sum(weight.numel() for weight in layer.parameters()) for layer in layers]
    rest = sum(weight.numel() for weight in model.parameters()) - sum(of_layers)
    return max(of_layers), rest


def _empty(config: "PretrainedConfig", device: str, dtype: torch.dtype) -> Any:
    """A model without data."""
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    seeing = hasattr(config, "vision_config")
    loader: Any = AutoModelForImageTextToText if seeing else AutoModelForCausalLM
    with torch.device(device):
        return loader.from_config(config, dtype=dtype, attn_implementation="sdpa")


def _micro_batch(
    model: "PretrainedConfig", config: TrainConfig, sizes: tuple[int, int, int], sharded: bool
) -> float:
    """Peak bytes of one micro-batch's forward and backward pass, without weights and gradients.

    Every layer adds the same amount, so two shallow models suffice to extrapolate to any depth.
    """
    layers = model.get_text_config(decoder=True).num_hidden_layers
    if layers <= _DEEP:
        return _measured(model, config, sizes, sharded)
    low, high = (_measured(_cut(model, depth), config, sizes, sharded) for depth in (2, _DEEP))
    return float(high + (high - low) / (_DEEP - 2) * (layers - _DEEP))


def _cut(model: "PretrainedConfig", layers: int) -> "PretrainedConfig":
    """The model's configuration, cut to its first layers."""
    shallow = copy.deepcopy(model)
    text = shallow.get_text_config(decoder=True)
    text.num_hidden_layers = layers
    if getattr(text, "layer_types", None):
        text.layer_types = text.layer_types[:layers]
    return shallow


def _measured(
    model_config: "PretrainedConfig",
    config: TrainConfig,
    sizes: tuple[int, int, int],
    sharded: bool,
) -> float:
    """See `_micro_batch`; `sizes` are rows, tokens per row and response tokens per row."""
    rows, length, response = sizes
    optimization = config.optimization
    narrow = optimization.mixed_precision == "bf16"
    model = _empty(model_config, "meta", torch.bfloat16 if narrow and sharded else torch.float32)
    model.train()
    if optimization.lora is not None:
        add_updates(model, optimization.lora, seed=0)
        if narrow:
            narrow_frozen(model, sharded)
    with FakeTensorMode():
        _place(model)
        if optimization.gradient_checkpointing:
            model.gradient_checkpointing_enable()
        chunked = use_chunked_head(model, optimization.head_chunk or DEFAULT_CHUNK)
        for weight in model.parameters():
            # Gradients are counted separately; here only while they are being computed.
            if weight.requires_grad:
                weight.register_post_accumulate_grad_hook(_forget)
        ids = torch.zeros((rows, length), dtype=torch.long)
        places = tuple(torch.zeros(rows * response, dtype=torch.long) for _ in range(2))
        targets = torch.zeros(rows * response, dtype=torch.long)
        bonus = config.entropy_coef != 0
        wanted = Wanted(places, targets, config.rollout.temperature, True, bonus)
        peak = _Peak([*model.parameters(), *model.buffers()])
        with peak:
            with torch.autocast("cpu", torch.bfloat16, enabled=narrow and not sharded):
                if chunked:
                    head = chunked_head(model)
                    assert head is not None
                    with head.asked(wanted):
                        values = _forward(model, ids, response)[:, 0]
                else:
                    logits = _forward(model, ids, response)[places].float()
                    values = torch.nn.functional.cross_entropy(logits, targets, reduction="none")
            # As in the trainer, autocast's copies of weights are freed by now.
            values.sum().backward()
        return float(peak.peak)


def _place(model: torch.nn.Module) -> None:
    """Move a model from the `meta` device to the CPU, where fake tensors replace real ones.

    Done by hand, because torch's own method needs tensors without other references.
    """
    made: dict[int, torch.Tensor] = {}
    for module in model.modules():
        tables: tuple[Any, ...] = (module._parameters, module._buffers)
        for tensors in tables:
            for name, old in tensors.items():
                if old is None:
                    continue
                if id(old) not in made:
                    new = torch.empty(old.shape, dtype=old.dtype, device="cpu")
                    weight = isinstance(old, torch.nn.Parameter)
                    made[id(old)] = (
                        torch.nn.Parameter(new, requires_grad=old.requires_grad) if weight else new
                    )
                tensors[name] = made[id(old)]


def _forward(model: Any, ids: torch.Tensor, response: int) -> torch.Tensor:
    logits: torch.Tensor = model(input_ids=ids, use_cache=False, logits_to_keep=response + 1).logits
    return logits


def _forget(weight: torch.Tensor) -> None:
    weight.grad = None


class _Peak(TorchDispatchMode):
    """Counts the bytes of all live storages.

    Args:
        known: Existing tensors, which are not counted.
    """

    def __init__(self, known: Sequence[torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.peak = self._live = 0
        self._seen: Any = WeakIdKeyDictionary()
        for tensor in known:
            self._seen[tensor.untyped_storage()] = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation and count its outputs."""
        made = func(*args, **(kwargs or {}))
        tree_map_only(torch.Tensor, self._count, made)
        return made

    def _count(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        if storage in self._seen:
            return
        size = storage.nbytes()
        self._seen[storage] = size
        self._live += size
        self.peak = max(self.peak, self._live)
        weakref.finalize(storage, self._drop, size)

    def _drop(self, size: int) -> None:
        self._live -= size
