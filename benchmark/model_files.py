"""Files of model folders: reads JSON, and refuses models that are more than what is hashed."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tasks.errors import UserError

ADAPTER: Final = "adapter_config.json"
"""What makes a folder a LoRA adapter."""
_TEMPLATES: Final = "additional_chat_templates"
_WEIGHTS: Final = (".safetensors", ".safetensors.index.json", "adapter_model.bin")
"""What the name of a file with weights ends in, for transformers to load it."""


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        UserError: The file is not one JSON object.
    """
    try:
        value = json.loads(path.read_text("utf-8"))
    except RecursionError as error:
        raise UserError(f"{path} is nested too deeply to be read") from error
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise UserError(f"{path} must be a JSON object")
    return value


def check_own_files(folder: Path) -> None:
    """Refuse a model that transformers would load from more than the files that its hash covers.

    Those lie in the folder itself, and none of them names others: two models with one hash would
    pass for one.

    Args:
        folder: Its files may be missing or broken.

    Raises:
        UserError: It is or has a LoRA adapter, has further chat templates in a folder of their own,
            its `config.json` names a weights file, or its `tokenizer_config.json` names a file in
            another folder.
    """
    if (folder / ADAPTER).is_file():
        if not (folder / "config.json").is_file():
            raise UserError(
                f"{folder} is a LoRA adapter ({ADAPTER}): name its base with --model, and the "
                f"adapter with --lora {folder}"
            )
        # transformers would apply it unasked if peft is installed, and vLLM would not.
        raise UserError(
            f"{folder} has a LoRA adapter ({ADAPTER}) beside its weights: move the adapter's files "
            "into a folder of their own, and name that with --lora"
        )
    if any((folder / _TEMPLATES).glob("*.jinja")):
        raise UserError(
            f"{folder} has chat templates in {_TEMPLATES}, which its hash does not cover: keep "
            f"the one to use as chat_template.jinja, and remove {_TEMPLATES}"
        )
    config = folder / "config.json"
    for text in _texts(read_json(config)) if config.is_file() else ():
        if text.endswith(_WEIGHTS):
            raise UserError(
                f"{config} names the weights file {text!r} (transformers_weights): name the file "
                "model.safetensors, and remove the setting"
            )
    config = folder / "tokenizer_config.json"
    named = read_json(config).get("fast_tokenizer_files") if config.is_file() else None
    for text in _texts(named):
        if Path(text).name != text:
            raise UserError(
                f"{config} names {text!r} (fast_tokenizer_files), which its hash does not cover: "
                "remove the setting"
            )


def _texts(value: Any) -> Iterator[str]:
    """All texts in a JSON value but names of fields; the value may be nested deeply."""
    left = [value]
    while left:
        value = left.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            left += value.values()
        elif isinstance(value, list):
            left += value
