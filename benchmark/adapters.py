"""LoRA adapters: finds one, checks that it is plain LoRA, and identifies it by its hash.

To mean the same with every engine, an adapter may contain only what vLLM and peft compute alike:
low-rank updates of linear layers, as safetensors.
"""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from benchmark.fields import MAX_NAME
from benchmark.model_files import ADAPTER
from benchmark.models import (
    Adapter,
    AdapterIdentity,
    ModelSource,
    check_pulled,
    downloaded,
    folder_sha256,
    is_hub_id,
)
from tasks.errors import UserError
from tasks.strict import first_fault

WEIGHTS: Final = "adapter_model.safetensors"
MAX_CONFIG: Final = 2**20
"""Maximum size of an `adapter_config.json`, in bytes."""
_PLAIN: Final = ("gaussian", "eva", "orthogonal", "lora_ga")
"""Initializations that do not change the base model; `true` is the usual one."""
_REFUSED: Final = (
    *("modules_to_save", "use_dora", "lora_bias", "alora_invocation_tokens", "layer_replication"),
    *("use_bdlora", "use_qalora", "megatron_config", "trainable_token_indices"),
    *("target_parameters", "auto_mapping"),
)
"""Settings with which an adapter is more than low-rank updates of linear layers."""


class _Config(BaseModel):
    """The relevant fields of an `adapter_config.json`; its many others are about training."""

    model_config = ConfigDict(extra="allow", strict=True)

    peft_type: Literal["LORA"]
    r: Annotated[int, Field(ge=1, le=512)]
    bias: Literal["none"] = "none"
    init_lora_weights: bool | str = True
    rank_pattern: dict[str, Annotated[int, Field(ge=1, le=512)]] | None = None

    @model_validator(mode="after")
    def _plain(self) -> "_Config":
        other: dict[str, Any] = self.model_extra or {}
        for name in _REFUSED:
            if other.get(name):
                raise ValueError(f"{name} is set, but only plain LoRA is supported")
        init = self.init_lora_weights
        if isinstance(init, str) and init.lower() not in _PLAIN:
            raise ValueError(f"init_lora_weights {init!r} changes the base model's weights")
        return self


def find_adapter(name: str) -> Adapter:
    """Find the adapter that `--lora` names: a folder, or a repository on the hub.

    Raises:
        UserError: It is neither, or not a plain LoRA adapter as safetensors.
    """
    path = Path(name)
    if path.is_dir():
        return _from_folder(path, path.resolve().name)
    if path.is_file():
        raise UserError(f"--lora {name} is a file; give its folder, {path.parent}")
    if not is_hub_id(name):
        raise UserError(f"--lora {name}: there is no such folder")
    repository, folder = downloaded(name, f"--lora {name}")
    return _from_folder(folder, repository, folder.name)


def with_adapter(source: ModelSource, adapter: Adapter) -> ModelSource:
    """Add an adapter to a model."""
    identity = source.identity.model_copy(update={"adapter": adapter.identity})
    return replace(source, identity=identity, adapter=adapter)


def _from_folder(path: Path, name: str, revision: str | None = None) -> Adapter:
    config = path / ADAPTER
    if not config.is_file():
        raise UserError(f"--lora {path}: has no {ADAPTER}; pass a whole model with --model")
    if not (path / WEIGHTS).is_file():
        pickled = any(path.glob("adapter_model.*"))
        fix = "; pickled weights are not loaded: save it again with peft" if pickled else ""
        raise UserError(f"--lora {path}: no {WEIGHTS} there{fix}")
    check_pulled(path / WEIGHTS)
    if config.stat().st_size > MAX_CONFIG:
        raise UserError(
            f"{config} is longer than {MAX_CONFIG:,} bytes; it is not an adapter's configuration"
        )
    try:
        read = _Config.model_validate_json(config.read_bytes())
    except ValidationError as error:
        raise UserError(f"{config}: {first_fault(error)}") from error
    rank = max([read.r, *(read.rank_pattern or {}).values()])
    sha256 = folder_sha256(path, (ADAPTER, WEIGHTS))
    identity = AdapterIdentity(name=name[:MAX_NAME], sha256=sha256, revision=revision)
    return Adapter(identity, path, rank)
