"""A LoRA adapter in vLLM: arguments of the engine, and the request that names it."""

from typing import Any, get_args

from benchmark.models import Adapter
from tasks.errors import UserError
from tasks.texts import first_line


def lora_arguments(adapter: Adapter | None) -> dict[str, Any]:
    """Arguments that let vLLM's engine hold an adapter; empty without one."""
    if adapter is None:
        return {}
    from vllm.config.lora import MaxLoRARanks

    rank = min(size for size in get_args(MaxLoRARanks) if size >= adapter.rank)
    return {"enable_lora": True, "max_lora_rank": rank, "max_loras": 1}


def load_lora(llm: Any, adapter: Adapter) -> Any:
    """Load an adapter into vLLM's `LLMEngine`.

    Returns:
        The `LoRARequest` that every request of the engine carries.

    Raises:
        UserError: vLLM cannot load it at all, or not for this model.
    """
    from vllm.lora.request import LoRARequest

    request = LoRARequest(adapter.identity.name, 1, str(adapter.path.resolve()))
    try:
        llm.add_lora(request)
    except Exception as error:  # includes errors sent back by vLLM's own process
        raise UserError(
            f"the adapter in {adapter.path} does not fit the model: {first_line(error)}"
        ) from error
    return request
