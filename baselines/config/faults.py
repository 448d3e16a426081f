"""Error messages for the settings of a training run."""

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from baselines.algorithms.part import Choice
from tasks.errors import suggestion

_UNKNOWN = "extra_forbidden"
"""Pydantic's error type for a key that a schema does not have."""
_PLUGIN = " (your own class needs --plugin FILE.py)"
_SAME_WORD = 0.75
"""Similarity from which one word counts as a typo of another, anywhere in the schema."""


def first_error(error: ValidationError) -> ErrorDetails:
    """The first thing that is wrong with settings, what is unknown before anything else."""
    faults = error.errors(include_url=False, include_input=False)
    return next((fault for fault in faults if fault["type"] == _UNKNOWN), faults[0])


def is_in(layer: Any, fault: ErrorDetails) -> bool:
    """Whether a fault lies in one layer's own key or value, not in its combination with others."""
    tag = ("name",) if fault["type"] == "union_tag_invalid" else ()
    for part in (*fault["loc"], *tag):
        if not isinstance(layer, Mapping):
            return True
        if part not in layer:
            return False
        layer = layer[part]
    return fault["type"] == _UNKNOWN or not isinstance(layer, Mapping)


def fault_text(fault: ErrorDetails, settings: Mapping[str, Any]) -> str:
    """Describe a fault in settings, and what was probably meant."""
    path = [str(part) for part in fault["loc"]]
    key = ".".join(path)
    if fault["type"] == _UNKNOWN:
        return f"there is no {key}{_near_key(path, settings)}"
    if fault["type"] == "union_tag_invalid":
        found = fault["ctx"]["tag"]
        near = suggestion(found, _choices(key))
        return f"{key}.name: there is no {found!r}{near}{_PLUGIN}"
    if fault["type"] == "union_tag_not_found":
        return f"{key}.name is missing{suggestion('', _choices(key))}{_PLUGIN}"
    if key and fault["type"] in ("model_attributes_type", "model_type", "dataclass_type"):
        return f"{key}: has keys of its own; write {key}: {{KEY: VALUE}}, or --set {key}.KEY=VALUE"
    if fault["type"] == "missing":
        return f"{key} is missing{_needed(key)}"
    reason = fault["msg"].removeprefix("Value error, ")
    return f"{key}: {reason}" if key else reason


def _needed(key: str) -> str:
    """The end of a "missing" message: what a recipe needs, if the key is required of recipes."""
    from baselines.config.schema import TrainConfig

    needed = [name for name, field in TrainConfig.model_fields.items() if field.is_required()]
    return f"; a recipe needs {', '.join(needed)}" if key in needed else ""


def _near_key(path: list[str], settings: Mapping[str, Any]) -> str:
    """The end of an "unknown key" message.

    Suggests the same word elsewhere, or the setting below it; else the closest word, preferably
    next to it; else all keys next to it.
    """
    from baselines.config.schema import TrainConfig

    keys = tuple(_keys(TrainConfig, settings))
    word, leaf = path[-1], _leaf(path, settings)
    place = "".join(f"{part}." for part in path[:-1])
    inside = [key.removeprefix(place) for key in keys if key.startswith(place)]
    siblings = tuple(key for key in inside if "." not in key)
    found = _ending_in(word, keys) or _ending_in(leaf[-1], keys)
    if not found and not get_close_matches(word, siblings, n=1, cutoff=_SAME_WORD):
        words = {key.rpartition(".")[2] for key in keys}
        for close in get_close_matches(leaf[-1], words, n=1, cutoff=_SAME_WORD):
            found = _ending_in(close, keys)
    if not found:
        return suggestion(word, siblings)
    # The same word can occur in several places.
    close_places = get_close_matches(".".join(leaf), found, n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(close_places or found)}?"


def _ending_in(word: str, keys: Sequence[str]) -> list[str]:
    """Keys whose last part is this word, or has it as its initials."""
    last = {key: key.rpartition(".")[2] for key in keys}
    short = {
        key: "".join(part[0] for part in name.split("_"))
        for key, name in last.items()
        if "_" in name
    }
    return [key for key in keys if word in (last[key], short.get(key))]


def _leaf(path: list[str], settings: Mapping[str, Any]) -> list[str]:
    """A path, extended by the settings below it as long as there is only one."""
    value: Any = settings
    for part in path:
        value = value.get(part, {}) if isinstance(value, Mapping) else {}
    whole = list(path)
    while isinstance(value, Mapping) and len(value) == 1:
        ((word, value),) = value.items()
        whole.append(str(word))
    return whole


def _keys(model: type[BaseModel], settings: Any) -> Iterator[str]:
    """All keys of a schema, dotted, each part before its contents."""
    for name, field in model.model_fields.items():
        yield name
        value = settings.get(name) if isinstance(settings, Mapping) else None
        chosen = value.get("name") if isinstance(value, Mapping) else None
        inner = _model(field.annotation, chosen)
        if inner is not None:
            yield from (f"{name}.{key}" for key in _keys(inner, value))


def _choices(key: str) -> tuple[str, ...]:
    """Names of the choices in a dimension."""
    from baselines.config.schema import TrainConfig

    dimension = _model(TrainConfig.model_fields[key].annotation, None)
    assert dimension is not None and issubclass(dimension, Choice)
    return tuple(dimension.choices)


def _model(annotation: Any, name: str | None) -> type[BaseModel] | None:
    """The schema of an annotation; for a dimension, the choice with that name."""
    for model in (annotation, *get_args(annotation)):
        if isinstance(model, type) and issubclass(model, Choice):
            return model.choices.get(str(name), model)
        if isinstance(model, type) and issubclass(model, BaseModel):
            return model
    return None
