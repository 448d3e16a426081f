"""The one place where a command looks into the registry of inits, which belongs to `baselines`."""

from pathlib import Path

from benchmark.models import ModelSource, from_folder, from_hub
from tasks.errors import UserError
from tasks.registry import near


def init_names() -> tuple[str, ...]:
    """Names of all registered inits."""
    from baselines.registry import read_registry

    return tuple(read_registry())


def find_model(name: str) -> ModelSource:
    """Find what `--model` names: an init, a folder, or a model on the hub.

    Raises:
        UserError: It is none of them; near matches are named.
    """
    from baselines.registry import read_registry

    registry = read_registry()
    if name in registry:
        init = registry[name]
        if init.folder is not None:
            return from_folder(init.folder, name, init.sha256, init.task)
        return from_hub(init.hub_reference, name, init.task, init.sha256)
    if Path(name).exists():
        return from_folder(Path(name))
    if "/" in name and not name.startswith((".", "/", "~")) and name.count("/") == 1:
        return from_hub(name)
    raise UserError(f"there is no init and no folder {name!r}{near(name, tuple(registry))}")
