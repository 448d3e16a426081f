"""The vLLM engine: vLLM in this process, driven step by step; requests join at any step."""

import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from benchmark.engines.core.base import PLAIN_CHAT, ChatOptions, EngineError
from benchmark.engines.core.chat import Chat
from benchmark.engines.core.devices import DEVICE_NAME, cpu_name
from benchmark.engines.core.names import DTYPES
from benchmark.engines.core.tickets import Completion, Result, Ticket
from benchmark.engines.core.worker import WorkerEngine
from benchmark.engines.vllm.build import (
    be_batch_invariant,
    build_engine,
    check_installed,
    check_model_args,
    needed_context,
    process_group,
    set_environment,
)
from benchmark.engines.vllm.lora import load_lora, lora_arguments
from benchmark.models import Adapter
from tasks.errors import UserError
from tasks.texts import first_line

if TYPE_CHECKING:
    import torch

    from benchmark.engines.core.weights import WeightLayout

NO_ARGS: Final[Mapping[str, Any]] = MappingProxyType({})
SPEED: Final = frozenset({"max_num_seqs", "max_num_batched_tokens", "gpu_memory_utilization"})
"""Arguments that may change when a run is resumed."""
_ONE_AT_A_TIME: Final = threading.RLock()
"""Held while a model computes or is changed: vLLM keeps the context of a forward pass (attention
metadata, layers with their keys and values, the configuration) in module globals, so two engines in
one process, each in its own thread, would read each other's."""
_LEFT_OPEN: list[object] = []
"""Channels to finished processes, kept from garbage collection: on exit vLLM 0.32 may send a
message that nobody receives, and closing such a channel would wait for it forever."""


class VllmEngine(WorkerEngine):
    """Generates with vLLM in this process.

    Args:
        folder: Model folder: configuration, safetensors weights, tokenizer with chat template.
        dtype: `auto` is float32 on a CPU and the checkpoint's own type on CUDA.
        gpu_memory_utilization: Share of the GPU's memory that vLLM takes; None for its default.
        tensor_parallel_size: Number of GPUs over which the model is split; None for one.
        max_model_len: Context length; None for what responses need.
        response_room: Maximum response tokens after a prompt: without `max_model_len`, the context
            is reserved for these and a long prompt instead of the model's full context, which may
            be a hundred times longer. None for the model's own context.
        batch_invariant: Use vLLM's kernels whose results do not depend on the batch composition
            (`VLLM_BATCH_INVARIANT`); slower, and only on CUDA.
        model_args: Further arguments of vLLM's engine (`vllm.EngineArgs`).
        chat: See `WorkerEngine`.
        lora: An adapter that every request uses.
        sleeps: `sleep` frees the GPU's memory with vLLM's sleep mode. On a CPU the same calls are
            made, but vLLM frees nothing. Not run on CUDA.
        beside_trainer: It runs in a trainer's process, which passes it tensors, without a separate
            vLLM process; each of several trainer processes has an engine. Not run on CUDA.

    Raises:
        UserError: vLLM is not installed, or `dtype` is unknown.
    """

    name = "vllm"

    def __init__(
        self,
        folder: Path,
        dtype: str = "auto",
        gpu_memory_utilization: float | None = None,
        tensor_parallel_size: int | None = None,
        max_model_len: int | None = None,
        response_room: int | None = None,
        batch_invariant: bool = False,
        model_args: Mapping[str, Any] = NO_ARGS,
        chat: ChatOptions = PLAIN_CHAT,
        lora: Adapter | None = None,
        sleeps: bool = False,
        beside_trainer: bool = False,
    ) -> None:
        super().__init__(chat=chat)
        self._sleeps = sleeps
        self._beside_trainer = beside_trainer
        self._shared_group = False
        self._asleep = False
        if dtype not in DTYPES:
            raise UserError(f"unknown dtype {dtype!r}; choose from {', '.join(DTYPES)}")
        check_installed()
        self._folder = folder
        self._dtype = dtype
        self._device = ""
        self._device_name = ""
        self._version = ""
        chosen = {
            "gpu_memory_utilization": gpu_memory_utilization,
            "tensor_parallel_size": tensor_parallel_size,
            "max_model_len": max_model_len,
        }
        self._options = {name: value for name, value in chosen.items() if value is not None}
        check_model_args(model_args)
        self._model_args = dict(model_args)
        self._batch_invariant = batch_invariant
        self._response_room = response_room
        self._lora = lora
        self._lora_request: Any = None
        self._llm: Any = None
        self._running: dict[str, Ticket] = {}
        self._count = 0
        self._stop_ids: list[int] = []
        self._layout: WeightLayout | None = None
        self._updates = 0

    def describe(self) -> dict[str, Any]:
        """Kind, data type, device and its name, context, options and versions."""
        import torch

        return {
            "kind": self.name,
            "dtype": self._dtype,
            "device": self._device,
            DEVICE_NAME: self._device_name,
            "context": self._context,
            "options": {**self._options, **self._model_args},
            **({"model_args": self._telling_args()} if self._telling_args() else {}),
            **({"batch_invariant": True} if self._batch_invariant else {}),
            **self._opening(),
            "versions": {"vllm": self._version, "torch": torch.__version__},
        }

    def _telling_args(self) -> dict[str, Any]:
        """Further arguments, except those that only affect speed and memory."""
        return {name: self._model_args[name] for name in sorted(self._model_args.keys() - SPEED)}

    def _load(self) -> tuple[Chat, int]:
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
        import torch

        cuda = torch.cuda.is_available()
        set_environment(cuda, self._beside_trainer)
        if self._batch_invariant:
            be_batch_invariant(cuda)
        chat = Chat.load(self._folder)
        if not cuda:
            # If torch was imported earlier, it has already read its environment.
            torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        options = {**self._options, **self._model_args}
        if self._response_room is not None and "max_model_len" not in options:
            options |= needed_context(self._folder, self._response_room)
        options |= lora_arguments(self._lora)
        if self._beside_trainer:
            shared = process_group()
            self._shared_group = bool(shared)
            options |= shared
        if self._sleeps and cuda:
            options["enable_sleep_mode"] = True
        with _ONE_AT_A_TIME:
            self._llm = build_engine(self._folder, self._dtype, cuda, options)
            if self._lora is not None:
                self._lora_request = load_lora(self._llm, self._lora)
        config = self._llm.model_config
        self._dtype = str(config.dtype).removeprefix("torch.")
        self._device = "cuda" if cuda else "cpu"
        from vllm import __version__
        from vllm.platforms import current_platform

        self._device_name = current_platform.get_device_name() if cuda else cpu_name()
        self._version = __version__
        self._llm.set_weight_version("0")
        self._stop_ids = sorted(chat.stop_ids)
        return chat, int(config.max_model_len)

    def _busy(self) -> bool:
        return bool(self._running)

    def _advance(self, arrived: list[Ticket]) -> list[Result]:
        results: list[Result] = []
        for ticket in arrived:
            if ticket.wanted:
                refusal = self._add(ticket)
                if refusal is not None:
                    results.append((ticket, refusal))
        self._drop_unwanted()
        if self._running:
            with _ONE_AT_A_TIME:
                outputs = self._llm.step()
            for output in outputs:
                if output.finished:
                    ticket = self._running.pop(output.request_id)
                    results.append((ticket, read_output(output.outputs[0])))
        return results

    def _add(self, ticket: Ticket) -> EngineError | None:
        from vllm.inputs import TokensPrompt

        if self._asleep:
            return EngineError("the vLLM engine sleeps until it gets new weights")
        request_id = str(self._count)
        self._count += 1
        prompt = TokensPrompt(prompt_token_ids=ticket.prompt_ids)
        if (prompt_images := ticket.prompt_images) is not None:
            # vLLM expands the placeholders itself, and its prefix cache depends on the pixels.
            prompt = TokensPrompt(
                prompt_token_ids=prompt_images.bare_ids,
                multi_modal_data={"image": [image.picture() for image in prompt_images.images]},
            )
        if self._updates:
            # Requests under other weights may have cached keys and values of the same prompt.
            prompt["cache_salt"] = str(self._updates)
        params = sampling_params(ticket, self._stop_ids)
        try:
            self._llm.add_request(request_id, prompt, params, lora_request=self._lora_request)
        except ValueError as error:
            return EngineError(f"vLLM rejects the request: {first_line(error)}")
        self._running[request_id] = ticket
        return None

    def _replace_weights(self, weights: "Sequence[tuple[str, torch.Tensor]]", version: int) -> None:
        from benchmark.engines.core.weights import read_layout
        from benchmark.engines.vllm.weights import reload_weights

        if self._layout is None:
            self._layout = read_layout(self._folder)
        complete = self._layout.complete(weights)
        self._drop_unwanted()
        if self._running and self._llm.vllm_config.scheduler_config.async_scheduling:
            # vLLM labels a batch when reading its output, after it has started the next one.
            raise UserError(
                "vLLM schedules asynchronously, so tokens in flight would be labeled with the new "
                "weights: build the engine with async_scheduling=False, or wait for its requests"
            )
        with _ONE_AT_A_TIME:
            # Memory for keys and values is allocated after the new weights are loaded.
            if self._asleep:
                self._llm.wake_up(["weights"])
            reload_weights(self._llm, complete, version)
            if self._asleep:
                self._llm.wake_up(["kv_cache"])
                self._asleep = False
        self._updates += 1

    async def sleep(self) -> None:
        """Free weights, keys and values until `load_weights`; see `Engine.sleep`."""
        if self._sleeps:
            await self._between_steps(self._fall_asleep)

    def _fall_asleep(self) -> None:
        if not self._asleep:
            # Level 2 keeps no copy of the weights: new ones arrive before any request.
            with _ONE_AT_A_TIME:
                self._llm.sleep(level=2)
            self._asleep = True

    def _checksums(self) -> Mapping[str, str]:
        from benchmark.engines.vllm.weights import checksums

        return checksums(self._llm)

    def _drop_unwanted(self) -> None:
        gone = [request_id for request_id, t in self._running.items() if not t.wanted]
        if gone:
            self._llm.abort_request(gone)
            for request_id in gone:
                del self._running[request_id]

    def _unload(self) -> None:
        if self._llm is not None:
            core = self._llm.engine_core
            _LEFT_OPEN.append(getattr(core, "ctx", None))  # exists with a separate process
            with _ONE_AT_A_TIME:
                if self._shared_group:
                    # vLLM would also end the process group, which the trainer still needs; so would
                    # it when its client is forgotten.
                    core._finalizer.detach()
                    core.engine_core.model_executor.shutdown()
                else:
                    core.shutdown()
            self._llm = None


def sampling_params(ticket: Ticket, stop_ids: list[int]) -> Any:
    """Convert a request's sampling to vLLM's format, with the cheapest log-probabilities.

    `logprobs=0` returns only the chosen token's, from the raw logits (vLLM's default
    `logprobs_mode`).
    """
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    sampling = ticket.sampling
    return SamplingParams(
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        # Greedy requests need no seed, and a seed costs a generator.
        seed=ticket.seed if sampling.temperature > 0 else None,
        max_tokens=ticket.max_tokens,
        stop_token_ids=stop_ids,
        logprobs=0,
        flat_logprobs=True,
        detokenize=False,
        output_kind=RequestOutputKind.FINAL_ONLY,
        skip_clone=True,
    )


def read_output(output: Any) -> Completion | EngineError:
    """Turn vLLM's `CompletionOutput` into a completion.

    Returns:
        The completion, or the error of a request that ended for another reason than a stop token
        or the token limit.
    """
    reason = output.finish_reason
    if reason not in ("stop", "length"):
        return EngineError(f"vLLM ended the response early: {reason}")
    flat, spans = output.logprobs, output.weight_versions
    # The chosen token comes first at each position.
    log_probs = tuple(flat.logprobs[start] for start in flat.start_indices)
    versions = int(spans[0].version), int(spans[-1].version)
    return Completion(tuple(output.token_ids), log_probs, reason == "stop", versions)
