"""Recipes and scales: from their names and the user's own settings to one checked configuration.

Later words win: the scale's common part, the recipe, what the scale says of this task and recipe,
the user. So a recipe names its choices and nothing else, and constants that the paper chose for
one task (GSPO's limits, say) stand in the scale.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, Field, ValidationError

from baselines.train_config import Part, TrainConfig
from tasks.errors import UserError, near
from tasks.registry import load_task

RECIPES = Path(__file__).parent / "recipes"
SCALES = Path(__file__).parent / "scales"

Settings = dict[str, Any]


class _TaskScale(Part):
    common: Settings = Field(default_factory=dict)
    recipes: dict[str, Settings] = Field(default_factory=dict)


class Scale(Part):
    """Sizes for any recipe.

    Attributes:
        common: Settings for all tasks.
        tasks: What differs in one task, for all recipes and for some.
    """

    common: Settings = Field(default_factory=dict)
    tasks: dict[str, _TaskScale] = Field(default_factory=dict)


def names(folder: Path) -> tuple[str, ...]:
    """Names of the shipped files of a folder, in order."""
    return tuple(sorted(path.stem for path in folder.glob("*.yaml")))


def resolve(recipe: str, scale: str, tasks: Sequence[str], own: Sequence[str] = ()) -> TrainConfig:
    """Join a recipe, a scale and the user's settings.

    Args:
        recipe: Name of a shipped recipe, or a YAML file.
        scale: Name of a shipped scale, or a YAML file.
        tasks: What is trained on. What the scale says of single tasks counts if there is one.
        own: `key=value` each, with dots between the parts of a key.

    Raises:
        UserError: Something is unknown (near matches are named), has a wrong value, or
            contradicts something else.
    """
    for task in tasks:
        load_task(task)
    chosen = _read(_find(recipe, RECIPES, "recipe"))
    sizes = _scale(_find(scale, SCALES, "scale"))
    settings = merge(sizes.common, chosen)
    special = sizes.tasks.get(tasks[0]) if len(tasks) == 1 else None
    if special is not None:
        settings = merge(settings, special.common)
        settings = merge(settings, special.recipes.get(Path(recipe).stem, {}))
    for setting in own:
        settings = merge(settings, _setting(setting))
    return check(settings, f"recipe {recipe} at scale {scale}")


def check(settings: Settings, where: str) -> TrainConfig:
    """Check settings against the schema.

    Raises:
        UserError: The first fault, with near matches of an unknown key.
    """
    try:
        return TrainConfig.model_validate(settings)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
        unknown = [fault for fault in faults if fault["type"] == "extra_forbidden"]
        fault = (unknown or faults)[0]
        # A choice's name is a part of pydantic's path and not of the key.
        parts = [str(part) for part in fault["loc"]]
        tag = _tag(settings, parts)
        key = ".".join(part for index, part in enumerate(parts) if index != tag)
        if unknown:
            siblings = _siblings([part for i, part in enumerate(parts) if i != tag], settings)
            raise UserError(f"{where}: there is no {key}{near(parts[-1], siblings)}") from error
        reason = fault["msg"].removeprefix("Value error, ")
        raise UserError(f"{where}: {key}: {reason}" if key else f"{where}: {reason}") from error


def merge(under: Settings, over: Settings) -> Settings:
    """Lay settings over others; another choice of a dimension replaces all of the old one."""
    joined = dict(under)
    for key, value in over.items():
        old = joined.get(key)
        another = (
            isinstance(old, dict)
            and isinstance(value, dict)
            and "name" in value
            and old.get("name") not in (None, value["name"])
        )
        if isinstance(old, dict) and isinstance(value, dict) and not another:
            joined[key] = merge(old, value)
        else:
            joined[key] = value
    return joined


def _setting(text: str) -> Settings:
    """`a.b=1` as `{"a": {"b": 1}}`."""
    key, equals, value = text.partition("=")
    if not equals or not all(key.split(".")):
        raise UserError(f"--set takes KEY=VALUE, as in optimisation.learning_rate=1e-4, not {text}")
    try:
        parsed: Any = yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise UserError(f"--set {text}: the value cannot be read") from error
    for part in reversed(key.split(".")):
        parsed = {part: parsed}
    settings: Settings = parsed
    return settings


def _find(name: str, folder: Path, kind: str) -> Path:
    known = names(folder)
    if name in known:
        return folder / f"{name}.yaml"
    if name.endswith((".yaml", ".yml")):
        if Path(name).is_file():
            return Path(name)
        raise UserError(f"there is no file {name}")
    raise UserError(f"there is no {kind} {name!r}{near(name, known)}; there are {', '.join(known)}")


def _read(path: Path) -> Settings:
    try:
        content = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        # YAML's parser shows the place on lines of their own.
        reason = " ".join(str(error).split())
        raise UserError(f"{path} cannot be read: {reason}") from error
    if not isinstance(content, dict):
        raise UserError(f"{path} must hold settings, as the shipped ones do")
    return content


def _scale(path: Path) -> Scale:
    try:
        return Scale.model_validate(_read(path))
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in fault["loc"])
        raise UserError(f"{path}: {where}: {fault['msg']}") from error


def _tag(settings: Settings, parts: list[str]) -> int | None:
    """Where pydantic's path names the choice that a union was resolved to, if it does."""
    if len(parts) > 1 and parts[0] in ("advantage", "clipping"):
        chosen = settings.get(parts[0])
        if isinstance(chosen, dict) and chosen.get("name") == parts[1]:
            return 1
    return None


def _siblings(path: list[str], settings: Settings) -> tuple[str, ...]:
    """The keys that are known where the last part of `path` is not."""
    model: Any = TrainConfig
    values: Any = settings
    for part in path[:-1]:
        values = values.get(part, {}) if isinstance(values, Mapping) else {}
        name = values.get("name") if isinstance(values, Mapping) else None
        model = _model(model.model_fields[part].annotation, name)
        if model is None:
            return ()
    return tuple(model.model_fields)


def _model(annotation: Any, name: str | None) -> type[BaseModel] | None:
    """The schema that an annotation stands for; of several, the one of that name."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) not in (Union, UnionType):
        return None
    models = [m for m in get_args(annotation) if isinstance(m, type) and issubclass(m, BaseModel)]
    named = [
        m
        for m in models
        if name in get_args(getattr(m.model_fields.get("name"), "annotation", None))
    ]
    return next(iter(named or models), None)
