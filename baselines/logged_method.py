"""Checks that the method in a log's first line is the one that its recipe's name stands for.

Used on tracks, where entries are compared by their recipes. No plug-in is loaded, nor an installed
package with choices: of those that only the author has, nothing but the names can be looked at.
"""

import re
from collections.abc import Mapping
from typing import Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from baselines.config.layers import RECIPES, names
from baselines.config.schema import TrainConfig
from baselines.reproduction import UNKNOWN_CHOICE, first_setting, logged_configuration
from baselines.tracks.registry import read_rates, resolve_on_track
from benchmark.flat import flat
from benchmark.logs.lines import Start
from benchmark.submissions.format.texts import skeleton
from benchmark.track_schema import LEARNING_RATE, METHOD, Track
from tasks.errors import UserError
from tasks.texts import cut

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+@-]{0,99}|")
"""Of a choice; sampling has none."""
_MAX_NAME: Final = 60
"""Characters of a choice's name in a message: a log may come from somebody else."""


def method_fault(track: Track, start: Start) -> str | None:
    """How the method of a run on a track is not that of its recipe.

    Args:
        track: The track that the log claims; the rest of the configuration is its own.
        start: The log's first line.

    Returns:
        None where the method is the shipped recipe's, or another one of another name, of shipped
        choices or with the hash of its code.
    """
    if start.recipe not in names(RECIPES):
        return _custom_fault(track, start)
    if start.plugins:  # code that nobody here can read, under a name that everybody knows
        return f"its recipe is the shipped {start.recipe}, but it was trained with plug-ins"
    try:
        config, _ = logged_configuration(start, installed=False)
    except UserError as error:
        return str(error)
    shipped = resolve_on_track(track, start.recipe, min(track.learning_rate.rates))
    found = first_setting(shipped, config, _is_method)
    if found is not None:
        name, here, there = found
        return (
            f"its recipe is {start.recipe}, but {name} is {there!r}, and that recipe has {here!r}"
        )
    return None


def _custom_fault(track: Track, start: Start) -> str | None:
    """How a custom recipe on a track is a shipped one, by its name or choices, or has no code."""
    if (shipped := read_as(start.recipe)) is not None:
        return f"its recipe {start.recipe} reads like the shipped {shipped}"
    try:
        config, _ = logged_configuration(start, installed=False)
    except UserError as error:
        cause = error.__cause__
        faults = cause.errors() if isinstance(cause, ValidationError) else []
        kinds = {fault["type"] for fault in faults}
        # It may need classes that only its author has; everything else is as it is here.
        if kinds != {UNKNOWN_CHOICE}:
            return str(error)
        return _unnamed(start) or (None if start.plugins else _unhashed(start.recipe, faults[0]))
    if (shipped := shipped_as(track, config)) is None:
        return None
    said = f"its recipe {start.recipe} has the four choices of {shipped}"
    if start.plugins:
        return f"{said}, and names nothing that a plug-in brings"
    return f"{said}: call it that"


def read_as(recipe: str) -> str | None:
    """The shipped recipe whose name a custom one is mistaken for; None if there is none."""
    return next((name for name in names(RECIPES) if skeleton(name) == skeleton(recipe)), None)


def shipped_as(track: Track, config: TrainConfig) -> str | None:
    """The shipped recipe whose four choices a configuration has on a track; None if there is none.

    Args:
        track: The track.
        config: The configuration, with shipped choices or with such of plug-ins that are loaded.
    """
    for name in names(RECIPES):
        shipped = resolve_on_track(track, name, min(track.learning_rate.rates))
        if first_setting(shipped, config, _is_method) is None:
            return name
    return None


def _unnamed(start: Start) -> str | None:
    """Which choice of a custom recipe has a name that is none."""
    for dimension in METHOD:
        part = start.configuration.get(dimension)
        if isinstance(part, Mapping) and not _NAME.fullmatch(str(part.get("name", ""))):
            return f"{dimension}.name is not a plain name: letters, digits and _.+@-"
    return None


def _unhashed(recipe: str, fault: ErrorDetails) -> str:
    """The message about a choice whose code neither this project nor a plug-in of the log has."""
    dimension, chosen = fault["loc"][0], cut(str(fault["ctx"]["tag"]), _MAX_NAME)
    return (
        f"its recipe {recipe} has the {dimension} {chosen}, which is not shipped, and the log has "
        "no hash of its code (for a class of your own: `train --plugin`, also where an installed "
        "package brings it)"
    )


def rate_fault(track: Track, start: Start) -> str | None:
    """How the learning rate of a shipped recipe is not the one that was tuned for it on a track.

    Args:
        track: The track that the log claims.
        start: The log's first line.
    """
    tuned = read_rates(track).get(start.recipe)
    rate = flat(start.configuration).get(LEARNING_RATE)
    if tuned is None or rate == tuned:
        return None
    return f"its learning rate is {rate}, but the track's for {start.recipe} is {tuned:g}"


def _is_method(name: str) -> bool:
    """Whether a setting belongs to the method."""
    return name.partition(".")[0] in METHOD
