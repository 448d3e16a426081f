"""The one place where a command looks into the registry of inits, which belongs to `baselines`."""

from typing import TYPE_CHECKING

from benchmark.models import ModelSource

if TYPE_CHECKING:
    from baselines.registry import Init


def registered_inits() -> "dict[str, Init]":
    """All inits, by name."""
    from baselines.registry import read_registry

    return read_registry()


def find_model(name: str) -> ModelSource:
    """Find what `--model` names: an init, a folder, or a model on the hub.

    Raises:
        UserError: It is none of them; near matches are named.
    """
    from baselines import registry

    return registry.find_model(name)
