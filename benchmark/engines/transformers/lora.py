"""Merges a LoRA adapter into a model, with peft."""

import warnings
from importlib.util import find_spec
from typing import TYPE_CHECKING

from benchmark.models import Adapter
from benchmark.versions import install_text
from tasks.errors import UserError
from tasks.texts import first_line

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_NAME = "adapter"


def merged(model: "PreTrainedModel", adapter: Adapter) -> "PreTrainedModel":
    """Add an adapter's updates to the weights of its base.

    Args:
        model: The base model; modified in place.
        adapter: The adapter.

    Raises:
        UserError: peft is not installed, or the adapter does not belong to this model.
    """
    if find_spec("peft") is None:
        raise UserError(f"--lora with the transformers engine needs peft: {install_text('lora')}")
    from peft import LoraConfig, PeftModel

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the relevant problems are checked below
            config = LoraConfig.from_pretrained(str(adapter.path))
            config.inference_mode = True
            wrapped = PeftModel(model, config, _NAME)
            found = wrapped.load_adapter(
                str(adapter.path), _NAME, torch_device=str(model.device), local_files_only=True
            )
            lost = [*found.missing_keys, *found.unexpected_keys]
            if lost:
                raise ValueError(f"{len(lost)} tensors do not fit each other ({lost[0]})")
            base: PreTrainedModel = wrapped.merge_and_unload(safe_merge=True)
    except Exception as error:  # peft and safetensors raise a dozen types
        raise UserError(
            f"the adapter in {adapter.path} does not fit the model: {first_line(error)}"
        ) from error
    base.eval()
    return base
