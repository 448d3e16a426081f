"""How to repeat a run: its command without the paths of the machine that played it."""

from benchmark.manifest import Manifest

_LOADED = ("transformers", "vllm")
"""Engines that load a model in a type of numbers that can be chosen."""


def commands_of(manifest: Manifest, seed: int) -> list[str]:
    """The command that plays a run's panels again by the standard protocol.

    Args:
        manifest: Of the run.
        seed: Of the training that made the weights.

    Returns:
        Its lines.
    """
    engine = manifest.engine.get("kind")
    dtype = manifest.engine.get("dtype")
    options = [_model(manifest, seed)]
    if manifest.model.kind != "policy" and engine in _LOADED:
        options.append(f"--engine {engine}")
        options += [f"--dtype {dtype}"] if isinstance(dtype, str) else []
    panels = [f"--task {panel.task}/{panel.panel}" for panel in manifest.panels]
    return [" ".join(("arlarena-bench eval", *options, *panels))]


def _model(manifest: Manifest, seed: int) -> str:
    """The option that names who plays; weights in a private folder by their hash."""
    model = manifest.model
    if model.kind == "policy":
        return f"--engine {model.name}"
    if model.kind == "folder":
        return f"--model <weights of seed {seed}, SHA-256 {model.sha256}>"
    if model.kind == "hub" and model.revision is not None:
        return f"--model {model.name}@{model.revision}"
    return f"--model {model.name}"
