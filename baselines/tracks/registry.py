"""The registry of tracks: `tracks/<name>.yaml`, pinned by `tracks/index.yaml`.

A track (`benchmark.track_schema`) pins everything of a training run but the method; a recipe
provides the method, and the track's rule the learning rate. `scripts/pin_tracks.py` rewrites the
index after an intended edit of a file.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated

import yaml
from pydantic import Field, TypeAdapter, ValidationError

from baselines.config.layers import (
    RECIPES,
    Settings,
    check,
    deep_merge,
    names,
    read_recipe,
    read_settings,
)
from benchmark.fields import Sha256
from benchmark.flat import flat
from benchmark.track_schema import LEARNING_RATE, METHOD, Track
from tasks.errors import UserError, suggestion
from tasks.strict import Strict, first_fault
from tasks.texts import digest_text

if TYPE_CHECKING:
    from baselines.config.schema import TrainConfig

TRACKS = Path(__file__).parent
RESULTS = Path(__file__).parents[1] / "results"
INDEX = "index.yaml"
RATES = "rates.yaml"
_RESOLVED = ("format_penalty", "rollout.max_turns", "unit", "validation.panel")
"""Settings whose null means the task's own value, and which a track states explicitly."""


class Pin(Strict):
    """The index entry of a track.

    Attributes:
        sha256: Its hash.
        cpu_minutes: Measured CPU time of one run on one thread, in minutes; null if not measured.
    """

    sha256: Sha256
    cpu_minutes: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None


class Rates(Strict):
    """The learning rates of a track's recipes, tuned by a study.

    Attributes:
        track: Hash of the track on which they were tuned.
        rates: Learning rate by recipe.
        success: Success of the last rollouts of every rate's tuning run, by recipe and rate.
    """

    track: Sha256
    rates: dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]]
    success: dict[str, dict[float, Annotated[float, Field(ge=0, le=1)]]] = Field(
        default_factory=dict
    )


def track_names() -> tuple[str, ...]:
    """Names of all tracks, in order."""
    return tuple(read_index())


def read_index() -> Mapping[str, Pin]:
    """Read the index, by track.

    Raises:
        UserError: The file is not an index.
    """
    try:
        return TypeAdapter(dict[str, Pin]).validate_python(read_settings(TRACKS / INDEX))
    except ValidationError as error:
        raise UserError(f"{TRACKS / INDEX}: {first_fault(error)}") from error


def load_track(name: str) -> Track:
    """Read a track and check it against the index.

    Raises:
        UserError: There is no such track (the message names close matches), or its file was
            changed.
    """
    index = read_index()
    if name not in index:
        raise UserError(f"there is no track {name!r}{suggestion(name, tuple(index))}")
    if not (TRACKS / f"{name}.yaml").exists():
        raise UserError(
            f"the index pins track {name}, but {TRACKS / name}.yaml is missing; restore it"
        )
    track = read_track(TRACKS / f"{name}.yaml")
    if track.sha256 != index[name].sha256:
        raise UserError(
            f"track {name} was changed: {TRACKS / name}.yaml has SHA-256 "
            f"{digest_text(track.sha256)}, but the index pins "
            f"{digest_text(index[name].sha256)}; restore the file"
        )
    return track


def all_tracks() -> Mapping[str, Track]:
    """All tracks, checked against the index, by name.

    Raises:
        UserError: See `load_track`.
    """
    return {name: load_track(name) for name in track_names()}


def read_track(path: Path) -> Track:
    """Read a track's file without checking the index.

    Raises:
        UserError: It cannot be read or breaks the schema; the message names the field.
    """
    content = read_settings(path)
    if base := content.get("base"):
        content = _varied(path, str(base), content)
    try:
        return Track.model_validate({"name": path.stem, **content})
    except ValidationError as error:
        raise UserError(f"{path}: {first_fault(error)}") from error


def _varied(path: Path, base: str, content: Settings) -> Settings:
    """The content of a track that is a variant of another one.

    Raises:
        UserError: The other track is missing, or is itself a variant.
    """
    under = path.parent / f"{base}.yaml"
    if "/" in base or not under.exists():
        raise UserError(f"{path}: base: there is no track {base!r}")
    shared = read_settings(under)
    if "base" in shared:
        raise UserError(f"{path}: base: {base} varies {shared['base']} itself; name that one")
    # A different rate rule, or different tasks, replace the old ones completely.
    return {**deep_merge(shared, content), **{k: v for k, v in content.items() if k != "settings"}}


def resolve_on_track(track: Track, recipe: str, rate: float) -> "TrainConfig":
    """The configuration of a recipe on a track.

    Args:
        track: The track.
        recipe: Name of a shipped recipe, or a YAML file, whose name is the recipe's.
        rate: Learning rate, one of the track's.

    Raises:
        UserError: The recipe is unknown, is a user's own recipe that sets what the track pins, or
            the rate is not one of the track's.
    """
    return check(settings_on_track(track, recipe, rate), f"recipe {recipe} on track {track.name}")


def settings_on_track(track: Track, recipe: str, rate: float) -> Settings:
    """Like `resolve_on_track`, but unvalidated, so that user settings can be added.

    Raises:
        UserError: See `resolve_on_track`.
    """
    if rate not in track.learning_rate.rates:
        allowed = " or ".join(f"{each:g}" for each in track.learning_rate.rates)
        raise UserError(f"track {track.name} has the learning rate {allowed}, not {rate:g}")
    method = read_recipe(recipe)
    pinned = [name for name in method if name not in METHOD]
    if pinned and recipe not in names(RECIPES):
        raise UserError(
            f"recipe {recipe} sets {', '.join(pinned)}, which track {track.name} "
            "pins: remove it from the recipe, or train without --track"
        )
    # The track overrides a shipped recipe: REINFORCE++ gets its KL where all others have theirs.
    method = {name: choice for name, choice in method.items() if name in METHOD}
    method = deep_merge(method, track.recipes.get(recipe, {}))
    pinned_settings = deep_merge(track.settings, track.added)
    return deep_merge(
        deep_merge(pinned_settings, method), {"optimization": {"learning_rate": rate}}
    )


def read_rates(track: Track, results: Path | None = None) -> Mapping[str, float]:
    """The tuned rates of shipped recipes that a study wrote for this track's hash.

    Args:
        track: The track.
        results: Folder of the results of all tracks; None for the shipped one.

    Raises:
        UserError: The file is not valid, or has a rate that the track does not allow.
    """
    return read_tuning(track, results or RESULTS).rates


def read_tuning(track: Track, results: Path) -> Rates:
    """The rates that a study tuned on this track; empty without a file for its hash.

    Args:
        track: The track.
        results: Folder of the results of all tracks.

    Raises:
        UserError: See `read_rates`.
    """
    path, nothing = results / track.name / RATES, Rates(track=track.sha256, rates={})
    if not path.exists():
        return nothing
    try:
        found = Rates.model_validate(read_settings(path))
    except ValidationError as error:
        raise UserError(f"{path}: {first_fault(error)}") from error
    if found.track != track.sha256:
        return nothing
    for recipe, rate in found.rates.items():
        if rate not in track.learning_rate.rates:
            raise UserError(f"{path}: {recipe}: track {track.name} does not allow {rate:g}")
    return found


def rates_text(
    track: Track,
    rates: Mapping[str, float],
    success: Mapping[str, Mapping[float, float]] = MappingProxyType({}),
) -> str:
    """The content of a track's `rates.yaml`."""
    found = Rates(
        track=track.sha256,
        rates=dict(sorted(rates.items())),
        success={recipe: dict(of) for recipe, of in sorted(success.items())},
    )
    return yaml.safe_dump(found.model_dump(), sort_keys=False)


def pinned_index() -> dict[str, Pin]:
    """The index of the current track files, without measurements of changed ones.

    Raises:
        UserError: A file is not a track, lacks a setting, or leaves one to the task.
    """
    old = read_index() if (TRACKS / INDEX).exists() else {}
    index = {}
    for path in sorted(TRACKS.glob("*.yaml"), key=lambda path: path.stem):
        if path.name != INDEX:
            track = read_track(path)
            _check_complete(path, track)
            before = old.get(track.name)
            same = before is not None and before.sha256 == track.sha256
            minutes = before.cpu_minutes if same and before is not None else None
            index[track.name] = Pin(sha256=track.sha256, cpu_minutes=minutes)
    return index


def index_text(index: Mapping[str, Pin]) -> str:
    """The content of the index."""
    return yaml.safe_dump({name: pin.model_dump() for name, pin in index.items()}, sort_keys=False)


def _check_complete(path: Path, track: Track) -> None:
    """Check that a track lists every setting that it pins, and only existing recipes.

    Raises:
        UserError: It does not.
    """
    known = names(RECIPES)
    for recipe in track.recipes:
        if recipe not in known:
            raise UserError(
                f"{path}: recipes: there is no recipe {recipe!r}{suggestion(recipe, known)}"
            )
    config = resolve_on_track(track, "grpo", track.learning_rate.rates[0])
    dumped = config.model_dump(mode="json", exclude=set(METHOD))
    wanted, given = flat(dumped), flat(deep_merge(track.settings, track.added))
    missing = [name for name in wanted if name not in given and name != LEARNING_RATE]
    if missing:
        defaults = ", ".join(f"{name} ({wanted[name]})" for name in missing)
        raise UserError(f"{path}: settings lack {defaults}; a track needs all of them")
    # A task's default panel depends on the available data.
    alone = _RESOLVED if len(track.tasks) == 1 else ("validation.panel",)
    left = [name for name in alone if given[name] is None]
    if left:
        raise UserError(f"{path}: {', '.join(left)}: null leaves it to the task; give a value")
