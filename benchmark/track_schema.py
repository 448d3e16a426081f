"""Tracks: everything that a training run must pin to make methods comparable.

A track fixes init, tasks, sizes and the rule for the learning rate; only the method (advantage,
clipping, aggregation, sampling) is free. The files and their registry are in `baselines.tracks`.
This module defines the track that a log claims, and compares the two.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from benchmark.fields import Name, Sha256
from benchmark.flat import flat
from benchmark.logs.lines import FREE, OPEN, Start, TrackClaim, Word
from tasks.seeding import canonical_json, sha256_text
from tasks.strict import Strict
from tasks.texts import cut, digest_text

if TYPE_CHECKING:
    from tasks.base import Task

__all__ = [
    "DIMENSIONS",
    "FREE",
    "LEARNING_RATE",
    "METHOD",
    "OPEN",
    "FixedRate",
    "RateGrid",
    "Track",
    "TrackClaim",
    "TrackInit",
    "deviations",
]

DIMENSIONS: Final = ("advantage", "clipping", "aggregation", "sampling")
"""The four choices of every recipe."""
METHOD: Final = (*DIMENSIONS, "learner")
"""Settings that a track leaves to the recipe; logs have a learner only where it is a custom one."""
LEARNING_RATE: Final = "optimization.learning_rate"

_MAX_TEXT = 80
"""Maximum length of a value in a message, because logs may come from other people."""
_Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=1)]


class TrackInit(Strict):
    """The initial model.

    Attributes:
        name: Name of an init, or of a model on the hub.
        sha256: Hash of its files (`benchmark.models.folder_sha256`); null if none is pinned.
    """

    name: Name
    sha256: Sha256 | None


class FixedRate(Strict):
    """One learning rate for all methods.

    Attributes:
        fixed: The learning rate.
    """

    fixed: _Rate

    @property
    def rates(self) -> tuple[float, ...]:
        """All allowed learning rates."""
        return (self.fixed,)


class RateGrid(Strict):
    """A grid of learning rates; each method uses the one with the most successful tuning run.

    Attributes:
        grid: The rates, ascending.
        seed: Seed of the tuning runs.
        updates: Updates per tuning run.
        last: Number of final updates whose mean rollout success decides; ties go to the lower rate.
            No panel is played.
    """

    grid: Annotated[tuple[_Rate, ...], Field(min_length=2, max_length=10, strict=False)]
    seed: Annotated[int, Field(ge=0, lt=2**63)]
    updates: _Count
    last: _Count

    @property
    def rates(self) -> tuple[float, ...]:
        """All allowed learning rates."""
        return self.grid

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if list(self.grid) != sorted(set(self.grid)):
            raise ValueError("grid must be ascending, each rate once")
        if self.last > self.updates:
            raise ValueError(f"last is {self.last}, but there are {self.updates} updates")
        return self


def _rule(value: object) -> str:
    """Guess which rule a value is meant to be, so that error messages are about that one."""
    fixed = isinstance(value, FixedRate) or (isinstance(value, Mapping) and "fixed" in value)
    return "fixed" if fixed else "grid"


RateRule = Annotated[
    Annotated[RateGrid, Tag("grid")] | Annotated[FixedRate, Tag("fixed")], Discriminator(_rule)
]


class Track(Strict):
    """Everything about a training run except method and seed.

    Attributes:
        name: Name of its file.
        description: One human-readable line.
        init: The initial model.
        tasks: Names of the training tasks.
        task_settings: Non-default settings of tasks, by task.
        settings: The trainer's resolved configuration without `METHOD` and the learning rate.
        learning_rate: The allowed rates, and how one is chosen.
        recipes: Constants of shipped recipes from the track's source, by recipe.
        added: Settings that the trainer has gained since the track was pinned, with values that
            preserve its behavior. They do not change the hash, and older logs lack them.
        base: Track that this one varies: its file contains only the differences. The hash covers
            everything, so a change of the base is noticed here.
    """

    name: Word
    description: Annotated[str, Field(min_length=1, max_length=200)]
    init: TrackInit
    tasks: Annotated[tuple[Word, ...], Field(min_length=1, strict=False)]
    settings: dict[str, Any]
    learning_rate: RateRule
    # Left out if empty, so that older tracks keep their hash.
    task_settings: dict[Word, dict[Word, str]] = Field(
        default_factory=dict, exclude_if=lambda chosen: not chosen
    )
    recipes: dict[Word, dict[str, Any]] = Field(default_factory=dict)
    added: dict[str, Any] = Field(default_factory=dict)
    base: Word | None = None

    @field_validator("settings", "added")
    @classmethod
    def _leaves_the_method(cls, settings: dict[str, Any]) -> dict[str, Any]:
        given: list[str] = [name for name in METHOD if name in settings]
        given += [LEARNING_RATE] if LEARNING_RATE in flat(settings) else []
        if given:
            raise ValueError(f"remove {', '.join(given)}: a track does not pin it")
        canonical_json(settings)
        return settings

    @field_validator("recipes")
    @classmethod
    def _constants_of_the_method(
        cls, recipes: dict[str, dict[str, Any]]
    ) -> dict[str, dict[str, Any]]:
        for recipe, constants in recipes.items():
            others = [name for name in constants if name not in METHOD]
            if others:
                raise ValueError(
                    f"{recipe} sets {', '.join(others)}, which are not part of the method"
                )
        canonical_json(recipes)
        return recipes

    @model_validator(mode="after")
    def _of_its_tasks(self) -> Self:
        if others := sorted(set(self.task_settings) - set(self.tasks)):
            raise ValueError(f"task_settings has {others[0]}, which is not one of its tasks")
        return self

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        twice = sorted(flat(self.settings).keys() & flat(self.added).keys())
        if twice:
            raise ValueError(f"added repeats {', '.join(twice)}, which settings already pins")
        return self

    @property
    def sha256(self) -> str:
        """Hash of the canonical form of everything that can change a result.

        Name, description, base, the settings that do not change results (`FREE`) and `added` are
        excluded.
        """
        apart = {"name", "description", "base", "settings", "added"}
        pinned = self.model_dump(mode="json", exclude=apart)
        return sha256_text(canonical_json(pinned | {"settings": self.pinned}))

    def load_tasks(self) -> "tuple[Task, ...]":
        """Load the tasks, with their settings.

        Raises:
            UserError: A task is unknown or has no such setting.
        """
        # Imported here, because reading a board needs track names but no tasks.
        from tasks.registry import load_task

        return tuple(
            load_task(name).configured(self.task_settings.get(name, {})) for name in self.tasks
        )

    @property
    def claim(self) -> TrackClaim:
        """The claim that the log of a run on this track contains."""
        return TrackClaim(name=self.name, sha256=self.sha256)

    @property
    def pinned(self) -> dict[str, Any]:
        """The settings that can change a result, by dotted name."""
        return {name: value for name, value in flat(self.settings).items() if name not in FREE}


def deviations(track: Track, start: Start) -> list[str]:
    """Compare the first line of a log with its track.

    Args:
        track: The track that the log claims.
        start: The first line.

    Returns:
        One text for every difference, with both values; empty if the run is on the track.
    """
    found = []
    tasks = "+".join(track.tasks)
    if start.task != tasks:
        found.append(_differs("task", start.task, tasks))
    pinned, init = track.init, start.init
    if pinned.sha256 is not None and init.sha256 != pinned.sha256:
        found.append(
            _differs("init", init.text, f"{pinned.name}, SHA-256 {digest_text(pinned.sha256)}")
        )
    if pinned.sha256 is None and init.name != pinned.name:
        found.append(_differs("init", init.name, pinned.name))
    configuration = {k: v for k, v in start.configuration.items() if k not in ("seed", *METHOD)}
    found += [
        f"{_text(name)} is a single name with a dot: settings are nested"
        for name in _dotted(configuration)
    ]
    theirs, ours = flat(configuration), dict(track.pinned)
    ours |= {name: value for name, value in flat(track.added).items() if name in theirs}
    ours |= flat({"tasks": {task.info.name: task.settings() for task in track.load_tasks()}})
    rate = theirs.pop(LEARNING_RATE, None)
    if rate not in track.learning_rate.rates:
        allowed = " or ".join(f"{each:g}" for each in track.learning_rate.rates)
        found.append(_differs(LEARNING_RATE, rate, allowed))
    for name in dict.fromkeys((*ours, *theirs)):
        if name in FREE:
            continue
        absent = [where for where, has in (("log", theirs), ("track", ours)) if name not in has]
        if absent:
            value = theirs.get(name, ours.get(name))
            found.append(f"{name} is not in the {absent[0]} (the other has {_text(value)})")
        elif not _same(theirs[name], ours[name]):
            found.append(_differs(name, theirs[name], ours[name]))
    return found


def _dotted(fields: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield names with dots, which a flat configuration confuses with nested settings.

    With both `kl.coef` and `kl: {coef: ...}`, one of the two would be compared with the track, and
    all other readers would use the other.
    """
    for name, value in fields.items():
        if "." in name:
            yield f"{prefix}{name}"
        if isinstance(value, Mapping):
            yield from _dotted(value, f"{prefix}{name}.")


def _differs(name: str, theirs: object, ours: object) -> str:
    return f"{name} is {_text(theirs)}, the track has {_text(ours)}"


def _text(value: object) -> str:
    text = value if isinstance(value, str) else canonical_json(value)
    return cut(text, _MAX_TEXT)


def _same(one: object, other: object) -> bool:
    """Whether two settings are equal; 1 equals 1.0, but not true."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)
