"""What a run needs of each GPU's memory, from the model's configuration alone.

What lasts is counted: weights, gradients, moments, the reference. What one micro-batch needs
beside it is measured in a run of the real model and of the real last layer on torch's fake tensors,
which have shapes and no numbers. Nothing is allocated.
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
"""Prompt tokens of a row that the estimate takes; what counts is a micro-batch's tokens."""
_DEEP: Final = 4
"""Layers from which on a model's memory is not measured but extrapolated."""
OVERHEAD: Final = 2.0
"""GiB of a GPU that libraries take: the context of CUDA, of NCCL, work spaces."""

_NCCL_BUFFERS: Final = 2 * GIB
"""Bytes at most in which vLLM's NCCL transfer packs weights on the main process's device."""


@dataclass(frozen=True, slots=True)
class Memory:
    """What each process needs of its device, in GiB.

    Attributes:
        parts: What lasts, and what a micro-batch needs beside it, by name.
        phases: Peaks, by phase; without an engine.
        tokens: Of the micro-batch that was measured.
        parameters: Of the policy.
        measuring: Of the reference, where it measures the distance from the init and moves no
            update (`kl.measured`); 0 otherwise.
        engine: What vLLM needs at least of its share: weights, keys and values of the longest row;
            0 without vLLM.
    """

    parts: Mapping[str, float]
    phases: Mapping[str, float]
    tokens: int
    parameters: int
    measuring: float
    engine: float

    @property
    def peak(self) -> float:
        """The highest of the phases."""
        return max(self.phases.values())

    def text(self) -> str:
        """For people."""
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
    """Estimate what a process needs; images in micro-batches are not counted.

    Args:
        model: Of the policy.
        config: What is chosen.
        layout: Of the run on devices.
        longest: Response tokens that a row can have.
        sent: Bytes of each weight, as engines get them.
        gathers: The main process has all of them on its device before they are sent (NCCL).
    """
    optimization, lora = config.optimization, config.optimization.lora
    sharded = layout.sharded
    sizes = _sizes(model, None if lora is None else lora.rank)
    count = sizes.parameters
    narrow = optimization.mixed_precision == "bf16"
    share = layout.processes if sharded else 1
    moments = 2.1 if optimization.optimizer == "adamw_8bit" else 8.0
    # Under autocast, matrices that nothing but products sees are kept in bfloat16.
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
        # Whole and in float32, as the trainer keeps them for its checkpoints.
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
    # Without FSDP none is made but in another type. Those with an update are always new.
    copies: float = 2 * count if sent == 2 else 0 if lora is None else 4 * sizes.linear
    if sharded:
        # Each tensor is whole for a moment.
        copies = parts["gathered"] + sent * count * (layout.everywhere or gathers)
    if gathers:
        copies += min(sent * count, _NCCL_BUFFERS)
    # The new one is made before the old one goes.
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
    """Numbers that an engine keeps: weights, keys and values.

    Where some layers keep less than keys and values of every token, none are counted.
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
    """Numbers of weights.

    Attributes:
        parameters: Of the model.
        linear: Of its matrices that only products see.
        updates: Of LoRA's updates.
        vision: Of its image side.
    """

    parameters: int
    linear: int
    updates: int
    vision: int


def _sizes(config: "PretrainedConfig", rank: int | None) -> _Sizes:
    """Count a model's parameters, with updates of a rank."""
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
    """Bytes of the gradients that FSDP has whole: a layer's, and the float32 buffer that is summed.

    The embeddings' are whole when no activation is left, and do not add to the peak.

    Args:
        config: Of the model.
        narrow: Gradients are in bfloat16 before they are summed.
    """
    return float(((2 if narrow else 4) + 4) * _layers(config)[0])


def _layers(config: "PretrainedConfig") -> tuple[int, int]:
    """Weights of the largest layer, and of what FSDP has whole beside layers: the embeddings."""
    model = _empty(config, "meta", torch.float32)
    text = getattr(model.base_model, "language_model", model.base_model)
    layers: Sequence[torch.nn.Module] = text.layers
    of_layers = [sum(weight.numel() for weight in layer.parameters()) for layer in layers]
    rest = sum(weight.numel() for weight in model.parameters()) - sum(of_layers)
    return max(of_layers), rest


def _empty(config: "PretrainedConfig", device: str, dtype: torch.dtype) -> Any:
    """A model without numbers."""
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    seeing = hasattr(config, "vision_config")
    loader: Any = AutoModelForImageTextToText if seeing else AutoModelForCausalLM
    with torch.device(device):
        return loader.from_config(config, dtype=dtype, attn_implementation="sdpa")


def _micro_batch(
    model: "PretrainedConfig", config: TrainConfig, sizes: tuple[int, int, int], sharded: bool
) -> float:
    """Peak bytes of one micro-batch's forward and backward pass, without weights and gradients.

    Every layer adds as much: two small models say what one of any depth needs.
    """
    layers = model.get_text_config(decoder=True).num_hidden_layers
    if layers <= _DEEP:
        return _measured(model, config, sizes, sharded)
    low, high = (_measured(_cut(model, depth), config, sizes, sharded) for depth in (2, _DEEP))
    return float(high + (high - low) / (_DEEP - 2) * (layers - _DEEP))


def _cut(model: "PretrainedConfig", layers: int) -> "PretrainedConfig":
    """The configuration of the same model with its first layers alone."""
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
    """See `_micro_batch`; of a micro-batch of rows, tokens of each, and response tokens of each."""
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
            # Gradients are counted by themselves; here only while they are made.
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
            # Autocast's copies of weights are gone by now, as in the trainer.
            values.sum().backward()
        return float(peak.peak)


def _place(model: torch.nn.Module) -> None:
    """Move a model from the device `meta` to the CPU, where fake tensors stand for real ones.

    By hand, since torch's own way to move a model needs tensors that nothing else refers to.
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
    """Counts the bytes of all storages that are alive.

    Args:
        known: What is there before and is not counted.
    """

    def __init__(self, known: Sequence[torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.peak = self._live = 0
        self._seen: Any = WeakIdKeyDictionary()
        for tensor in known:
            self._seen[tensor.untyped_storage()] = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation and count what it makes."""
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
