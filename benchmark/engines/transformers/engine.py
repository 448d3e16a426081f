"""The transformers engine: any causal language model in a folder, on a CPU or one GPU."""

import logging
import os
from collections import deque
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import torch
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText, PreTrainedModel

from benchmark.engines.core.base import GREEDY, PLAIN_CHAT, ChatOptions
from benchmark.engines.core.chat import Chat, quiet_transformers
from benchmark.engines.core.devices import DETERMINISTIC, DEVICE_NAME, cpu_name
from benchmark.engines.core.names import DTYPES
from benchmark.engines.core.tickets import Result, Ticket
from benchmark.engines.core.vision import reads_images
from benchmark.engines.core.weights import checksums, layout_of
from benchmark.engines.core.worker import WorkerEngine
from benchmark.engines.transformers.decoding import PREFIX_KEY, BatchRow, Decoder, uniforms
from benchmark.engines.transformers.images import embed_sampled_placeholders
from benchmark.engines.transformers.lora import merged
from benchmark.engines.transformers.patches import embed_by_products
from benchmark.models import Adapter
from tasks.errors import UserError
from tasks.texts import first_line

DEVICES = ("auto", "cpu", "cuda")

log = logging.getLogger(__name__)


class TransformersEngine(WorkerEngine):
    """Generates with `transformers`; requests join the running batch between two tokens.

    Greedy decoding and seeded sampling depend only on the request, up to the rounding of batched
    floating-point sums.

    Args:
        folder: Model folder: configuration, safetensors weights, tokenizer with chat template.
        dtype: `auto` is float32 on a CPU, and on CUDA the checkpoint's own type (bfloat16 if that
            is float32).
        device: `auto` is CUDA if available.
        max_batch: Maximum concurrent responses; further requests wait.
        deterministic: See `WorkerEngine`.
        chat: See `WorkerEngine`.
        lora: An adapter to merge into the weights.

    Raises:
        UserError: `dtype`, `device` or `max_batch` is invalid.
    """

    name = "transformers"

    def __init__(
        self,
        folder: Path,
        dtype: str = "auto",
        device: str = "auto",
        max_batch: int = 64,
        deterministic: bool = False,
        chat: ChatOptions = PLAIN_CHAT,
        lora: Adapter | None = None,
    ) -> None:
        super().__init__(deterministic, chat)
        if dtype not in DTYPES:
            raise UserError(f"unknown dtype {dtype!r}; choose from {', '.join(DTYPES)}")
        if device not in DEVICES:
            raise UserError(f"unknown device {device!r}; choose from {', '.join(DEVICES)}")
        if max_batch < 1:
            raise UserError(f"max_batch must be at least 1, not {max_batch}")
        self._folder = folder
        self._lora = lora
        self._dtype = dtype
        self._device = device
        self._device_name = ""
        # With several processes, each has its own GPU, but the decoding thread would use the first.
        self._gpu = torch.cuda.current_device() if torch.cuda.is_available() else None
        self._max_batch = max_batch
        self._queue: deque[Ticket] = deque()
        self._decoder: Decoder | None = None

    def describe(self) -> dict[str, Any]:
        """Kind, data type, device and its name, context, batch and versions."""
        return {
            "kind": self.name,
            "dtype": self._dtype,
            "device": self._device,
            DEVICE_NAME: self._device_name,
            "context": self._context,
            "max_batch": self._max_batch,
            **({DETERMINISTIC: True} if self._deterministic else {}),
            **self._opening(),
            "versions": {name: version(name) for name in ("torch", "transformers", "tokenizers")},
        }

    def _load(self) -> tuple[Chat, int]:
        chat = Chat.load(self._folder)
        if self._device == "auto":
            self._device = "cuda" if torch.cuda.is_available() else "cpu"
        elif self._device == "cuda" and not torch.cuda.is_available():
            raise UserError("device cuda was requested, but torch finds no CUDA device")
        if self._device == "cpu" and "OMP_NUM_THREADS" not in os.environ:
            # With more threads, small models get slower as soon as anything else runs.
            torch.set_num_threads(1)
        if self._device == "cuda":
            torch.cuda.set_device(self._gpu)
        self._device_name = (
            cpu_name() if self._device == "cpu" else torch.cuda.get_device_name(self._gpu)
        )
        try:
            model = load_model(self._folder, self._dtype, self._device)
            if self._lora is not None:
                model = merged(model, self._lora)
            context = decodable_context(model)
            try_decoding(model, context)
        except torch.OutOfMemoryError as error:
            raise UserError(
                f"the GPU has no room for {self._folder}: {first_line(error)}; try --dtype "
                "bfloat16, or vLLM with --tensor-parallel-size"
            ) from error
        self._dtype = str(model.dtype).removeprefix("torch.")
        self._vocabulary = cast("torch.nn.Embedding", model.get_input_embeddings()).num_embeddings
        self._decoder = Decoder(model, chat.stop_ids, self._max_batch)
        return chat, context

    def _busy(self) -> bool:
        return bool(self._queue) or (self._decoder is not None and bool(self._decoder.rows))

    def _advance(self, arrived: list[Ticket]) -> list[Result]:
        decoder = self._decoder
        assert decoder is not None
        self._queue.extend(arrived)
        if self._deterministic and not decoder.rows:
            # Earlier requests determine how prompts are split, and thereby the last digits.
            decoder.forget_prefixes()
        decoder.drop([i for i, row in enumerate(decoder.rows) if not row.owner.wanted])
        admitted: list[Ticket] = []
        while self._queue and len(admitted) < decoder.free:
            ticket = self._queue.popleft()
            if ticket.wanted:
                admitted.append(ticket)
        rows = [
            BatchRow(
                owner=ticket,
                pending=ticket.prompt_ids[-1],
                length=len(ticket.prompt_ids) - 1,
                sampling=ticket.sampling,
                max_tokens=ticket.max_tokens,
                uniforms=uniforms(ticket.seed, ticket.max_tokens)
                if ticket.sampling.temperature > 0
                else [],
            )
            for ticket in admitted
        ]
        decoder.admit(
            [row for row in rows if row.owner.prompt_images is None],
            [ticket.prompt_ids for ticket in admitted if ticket.prompt_images is None],
        )
        prompt_images = [
            ticket.prompt_images for ticket in admitted if ticket.prompt_images is not None
        ]
        decoder.admit_with_images(
            [row for row in rows if row.owner.prompt_images is not None],
            [ticket.prompt_ids for ticket in admitted if ticket.prompt_images is not None],
            prompt_images,
        )
        return (
            [(row.owner, completion) for row, completion in decoder.step()] if decoder.rows else []
        )

    def _replace_weights(self, weights: Sequence[tuple[str, torch.Tensor]], version: int) -> None:
        assert self._decoder is not None
        complete = layout_of(self._decoder.model).complete(weights)
        self._decoder.load_weights(complete, version)

    def _checksums(self) -> Mapping[str, str]:
        assert self._decoder is not None
        return checksums(self._decoder.model)

    def _unload(self) -> None:
        self._decoder = None


def load_model(folder: Path, dtype: str, device: str) -> PreTrainedModel:
    """Load a causal or vision-language model from a folder, in evaluation mode.

    Args:
        folder: A folder that `check_folder` has checked.
        dtype: `auto`, or the name of a torch type.
        device: `cpu` or `cuda`.

    Raises:
        UserError: The architecture is unknown or needs remote code, the files are broken, or
            weights are missing from them.
    """
    quiet_transformers()
    wanted: Any = "auto" if dtype == "auto" else getattr(torch, dtype)
    if dtype == "auto" and device == "cpu":
        wanted = torch.float32
    try:
        loader = AutoModelForImageTextToText if reads_images(folder) else AutoModelForCausalLM
        loaded: Any = loader.from_pretrained(
            folder,
            dtype=wanted,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            output_loading_info=True,
        )
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # the library raises a dozen types for broken files
        if "trust_remote_code" in str(error):
            raise UserError(
                f"the model in {folder} brings code of its own, which is never run here: use one "
                "whose class is in transformers (its config.json has no auto_map)"
            ) from error
        raise UserError(f"the model in {folder} cannot be loaded: {first_line(error)}") from error
    model = loaded[0]
    missing = sorted(loaded[1]["missing_keys"])
    if missing:
        raise UserError(
            f"the weights in {folder} lack {len(missing)} tensors of "
            f"{type(model).__name__} ({missing[0]}, ...); download or export the "
            "model again"
        )
    if dtype == "auto" and device == "cuda" and model.dtype == torch.float32:
        model = model.to(torch.bfloat16)
    embed_by_products(model)
    if reads_images(folder):
        embed_sampled_placeholders(model)
    placed: PreTrainedModel = model.to(device).eval()
    return placed


def try_decoding(model: PreTrainedModel, context: int) -> None:
    """Test a model by decoding two tokens of two prompts with a shared prefix.

    Args:
        model: In evaluation mode, on its device; left unchanged.
        context: Its context length in tokens.

    Raises:
        UserError: The model's layers do not work with this engine's KV memory and masks.
    """
    before = model.config._attn_implementation
    # The prompts must differ before their last tokens, which the first step feeds.
    shared = [1] * min(PREFIX_KEY, max(context - 5, 0))
    prompts = [[*shared, *tail][: max(context - 2, 1)] for tail in ((0, 0), (1, 1, 1))]
    try:
        decoder = Decoder(model, frozenset(), max_batch=2)
        decoder.admit(
            [BatchRow(n, text[-1], len(text) - 1, GREEDY, 2, []) for n, text in enumerate(prompts)],
            prompts,
        )
        while decoder.rows:
            decoder.step()
    except (UserError, MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # an architecture may fail in any of its operations
        if "can't allocate memory" in str(error):  # the CPU allocator has no error class
            raise
        raise UserError(
            f"the transformers engine cannot run {type(model).__name__} "
            f"({type(error).__name__}: {first_line(error)}); use --engine vllm"
        ) from error
    finally:
        # The decoder derives its mode from it.
        model.set_attn_implementation(before)


def context_of(model: PreTrainedModel) -> int:
    """Context length (prompt and response together) in tokens.

    Raises:
        UserError: The configuration does not state it.
    """
    config = model.config.get_text_config(decoder=True)
    context = getattr(config, "max_position_embeddings", None)
    if not isinstance(context, int) or context < 2:
        raise UserError(f"the model's config.json has no max_position_embeddings: {context!r}")
    return context


def decodable_context(model: PreTrainedModel) -> int:
    """The context length within which an answer depends only on its own prompt.

    Models with LongRoPE switch frequencies beyond their original context, for all rows of a batch,
    so they are limited to it.

    Raises:
        UserError: See `context_of`.
    """
    context = context_of(model)
    config = model.config.get_text_config(decoder=True)
    rope = getattr(config, "rope_parameters", None) or {}
    for part in (rope, *(value for value in rope.values() if isinstance(value, dict))):
        if part.get("rope_type") == "longrope":
            original = part.get("original_max_position_embeddings", context)
            if original < context:
                log.warning("LongRoPE: the context is limited to the original %d tokens", original)
                return int(original)
    return context
