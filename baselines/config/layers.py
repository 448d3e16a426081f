"""Merges recipes, scales and user settings into one validated configuration.

Later layers win: a preset, the scale's common part, the recipe, the scale's settings for this task
and recipe, the user. So a recipe names only its choices, and constants that the paper chose for one
task (such as GSPO's limits) are in the scale. `recipes/README.md` shows how to write your own.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import Field, TypeAdapter, ValidationError

from baselines.algorithms.part import Part
from baselines.config.faults import fault_text, first_error, is_in
from benchmark.logs.lines import Word
from tasks.errors import UserError, suggestion
from tasks.registry import load_task, task_names
from tasks.strict import YAML, parse_yaml, read_yaml
from tasks.texts import first_line

if TYPE_CHECKING:
    from baselines.config.schema import TrainConfig

RECIPES = Path(__file__).parents[1] / "recipes"
SCALES = Path(__file__).parents[1] / "scales"
PRESETS = Path(__file__).parents[1] / "presets"

Settings = dict[str, Any]

_EITHER = {"optimization": ("mini_batch_rows", "mini_batches")}
"""Alternative settings: a layer that sets one replaces the other in the layers below."""
_NONE: Mapping[str, Any] = MappingProxyType({})


class _TaskScale(Part):
    common: Settings = Field(default_factory=dict)
    recipes: dict[str, Settings] = Field(default_factory=dict)


class Scale(Part):
    """Sizes for any recipe.

    Attributes:
        common: Settings for all tasks.
        tasks: Settings for single tasks, for all recipes and for some shipped ones.
    """

    common: Settings = Field(default_factory=dict)
    tasks: dict[str, _TaskScale] = Field(default_factory=dict)


def names(folder: Path) -> tuple[str, ...]:
    """Sorted names of the shipped files in a folder."""
    return tuple(sorted(path.stem for path in folder.glob("*.yaml")))


def resolve(
    recipe: str, scale: str, tasks: Sequence[str], own: Sequence[str] = ()
) -> "TrainConfig":
    """Join a recipe, a scale and the user's settings.

    Args:
        recipe: Name of a shipped recipe, or a YAML file, whose name is the recipe's.
        scale: Name of a shipped scale, or a YAML file.
        tasks: The training tasks. With one task, all of the scale's settings for it apply; with
            several, only their turn limits and the longest of their response limits.
        own: `key=value` each, with dots between the parts of a key.

    Raises:
        UserError: A setting is unknown (the message names close matches), has a wrong value, or
            contradicts another; a log cannot hold a file's name.
    """
    for task in tasks:
        load_task(task)
    method = read_recipe(recipe)
    shipped = recipe in names(RECIPES)
    sizes = _scale(_find(scale, SCALES, "scale"))
    settings = apply_layer(sizes.common, method)
    special = sizes.tasks.get(tasks[0]) if len(tasks) == 1 else None
    if special is not None:
        settings = apply_layer(settings, special.common)
        if shipped:
            settings = apply_layer(settings, special.recipes.get(recipe, {}))
    if len(tasks) > 1:
        settings = apply_layer(settings, _of_mixture(sizes, tasks))
    users = own_settings(own)
    # A scale names its preset for all recipes, even those that the preset does not change.
    chosen = "preset" in method or "preset" in users
    whole = apply_layer(settings, users)
    return check(whole, f"recipe {recipe} at scale {scale}", users, chosen_preset=chosen)


def _of_mixture(sizes: Scale, tasks: Sequence[str]) -> Settings:
    """A scale's episode settings of single tasks, combined for training on several."""
    shared = sizes.common.get("rollout", {})
    scales = {task: sizes.tasks.get(task, _TaskScale()) for task in tasks}
    rollouts = {
        task: deep_merge(shared, scale.common.get("rollout", {})) for task, scale in scales.items()
    }
    turns = {task: each["max_turns"] for task, each in rollouts.items() if "max_turns" in each}
    lengths = [each["max_tokens"] for each in rollouts.values() if "max_tokens" in each]
    found: Settings = {"max_turns": turns} if turns else {}
    return {"rollout": found | ({"max_tokens": max(lengths)} if lengths else {})}


def own_settings(own: Sequence[str]) -> Settings:
    """The user's own settings as one layer; the last value of a key counts.

    Args:
        own: `key=value` each, with dots between the parts of a key.

    Raises:
        UserError: An item is not a setting.
    """
    users: Settings = {}
    for setting in own:
        users = deep_merge(users, _setting(setting))
    return users


def read_recipe(recipe: str) -> Settings:
    """Read the settings of a recipe.

    Args:
        recipe: Name of a shipped recipe, or a YAML file, whose name is the recipe's.

    Raises:
        UserError: It is unknown (the message names close matches), cannot be read, or a log cannot
            hold its name.
    """
    file = _find(recipe, RECIPES, "recipe")
    if recipe not in names(RECIPES):
        _check_name(file)
    return read_settings(file)


def check(
    settings: Settings, where: str, users: Mapping[str, Any] = _NONE, chosen_preset: bool = True
) -> "TrainConfig":
    """Check settings against the schema.

    Args:
        settings: All layers, merged.
        where: Their source, for messages.
        users: The user's own settings among them, which messages call `--set`.
        chosen_preset: Whether the preset was chosen for this run and so must change something.

    Raises:
        UserError: The first fault, with close matches for an unknown key; or the preset changes
            nothing.
    """
    # The schema imports the formulas and torch, which listing files does not need.
    from baselines.config.schema import TrainConfig

    above = _above_preset(settings)
    try:
        config = TrainConfig.model_validate(above)
        if chosen_preset and "preset" in settings:
            own = {name: value for name, value in settings.items() if name != "preset"}
            if config.computes_like(TrainConfig.model_validate(own)):
                raise UserError(
                    f"{where}: preset {settings['preset']} has no effect with advantage "
                    f"{config.advantage.name}; remove it"
                )
    except ValidationError as error:
        fault = first_error(error)
        place = "--set" if is_in(users, fault) else where
        raise UserError(f"{place}: {fault_text(fault, above)}") from error
    return config


def _above_preset(settings: Settings) -> Settings:
    """Apply settings on top of the preset that they name, if any.

    A preset lists its changes for each advantage, and values for the other settings.

    Raises:
        UserError: There is no such preset.
    """
    above = dict(settings)
    name = above.pop("preset", None)
    if name is None:
        return above
    known = names(PRESETS)
    if name not in known:
        raise UserError(f"there is no preset {str(name)!r}{suggestion(str(name), known)}")
    preset = read_settings(PRESETS / f"{name}.yaml")
    advantage = above.get("advantage")
    chosen = advantage.get("name") if isinstance(advantage, dict) else None
    preset["advantage"] = preset.get("advantage", {}).get(chosen, {})
    return deep_merge(preset, above)


def apply_layer(under: Settings, over: Settings) -> Settings:
    """Apply one layer on top of those below it, with regard to alternative settings.

    A setting of the upper layer also replaces its alternative; a layer that sets both keeps both,
    and the schema refuses it.
    """
    left = dict(under)
    for part, ways in _EITHER.items():
        old, new = under.get(part), over.get(part)
        if not isinstance(old, dict) or not isinstance(new, dict):
            continue
        if any(new.get(way) is not None for way in ways):
            left[part] = {key: value for key, value in old.items() if key not in ways}
    return deep_merge(left, over)


def deep_merge(under: Settings, over: Settings) -> Settings:
    """Apply settings on top of others; a different choice of a dimension replaces the old one."""
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
            joined[key] = deep_merge(old, value)
        else:
            joined[key] = value
    return joined


def _setting(text: str) -> Settings:
    """Parse `a.b=1` to `{"a": {"b": 1}}`."""
    key, equals, value = text.partition("=")
    if not equals or not all(key.split(".")):
        raise UserError(
            f"--set needs KEY=VALUE, such as optimization.learning_rate=1e-4, not {text}"
        )
    try:
        parsed: Any = parse_yaml(value)
    except yaml.YAMLError as error:
        why = getattr(error, "problem", None) or first_line(error)
        raise UserError(f"--set {text}: the value is not valid: {why}") from error
    for part in reversed(key.split(".")):
        parsed = {part: parsed}
    settings: Settings = parsed
    return settings


def _find(name: str, folder: Path, kind: str) -> Path:
    known = names(folder)
    if name in known:
        return folder / f"{name}.yaml"
    if name.endswith(YAML):
        if Path(name).is_file():
            return Path(name)
        raise UserError(f"{name} does not exist")
    if name.endswith(".py"):
        raise UserError(f"{name}: a {kind} is a name or a .yaml file; a plug-in needs --plugin")
    if Path(f"{name}.yaml").is_file():
        raise UserError(f"there is no shipped {kind} {name!r}; did you mean the file {name}.yaml?")
    raise UserError(f"there is no {kind} {name!r}{suggestion(name, known)}")


def _check_name(file: Path) -> None:
    """Check only that a log can hold the name of a user's own recipe.

    Raises:
        UserError: It cannot.
    """
    name = file.stem
    try:
        TypeAdapter(Word).validate_python(name)
    except ValidationError as error:
        raise UserError(
            f"{file}: the file's name becomes the recipe's name: rename it to at most "
            "100 letters, digits and _ . + @ -, beginning with a letter or digit"
        ) from error
    shipped = name.lower()
    if shipped in names(RECIPES):
        raise UserError(
            f"{file}: {shipped} is the name of a shipped recipe, and logs could not tell "
            f"them apart: rename the file, for example to my_{shipped}.yaml, or use "
            f"--recipe {shipped}"
        )


def read_settings(path: Path) -> Settings:
    """Read a YAML file of settings.

    Raises:
        UserError: It cannot be read or contains something else.
    """
    content = read_yaml(path)
    if not isinstance(content, dict):
        raise UserError(f"{path} must contain settings, like the shipped files")
    return content


def _scale(path: Path) -> Scale:
    try:
        scale = Scale.model_validate(read_settings(path))
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in fault["loc"])
        raise UserError(f"{path}: {where}: {fault['msg']}") from error
    for task, special in scale.tasks.items():
        if task not in task_names():
            raise UserError(f"{path}: tasks: unknown task {task!r}{suggestion(task, task_names())}")
        for recipe in special.recipes:
            if recipe not in names(RECIPES):
                raise UserError(
                    f"{path}: tasks.{task}.recipes: no shipped recipe is called "
                    f"{recipe!r}, and a custom recipe contains its own "
                    f"values{suggestion(recipe, names(RECIPES))}"
                )
    return scale
