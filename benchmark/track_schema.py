"""Tracks: everything that is pinned in a training run to make methods comparable.

A track fixes init, tasks, sizes and the rule for the learning rate; free is the method (advantage,
clipping, aggregation, sampling). The files and their registry belong to `baselines.tracks`. Here is
what a log says of a track and how the two are compared.
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
"""Characters of a value in a message: a log may come from somebody else."""
_Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=1)]


class TrackInit(Strict):
    """Where weights start.

    Attributes:
        name: An init's name, or a model on the hub.
        sha256: Hash of its files (`benchmark.models.folder_sha256`); null where none is pinned.
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
        """All that a run may have."""
        return (self.fixed,)


class RateGrid(Strict):
    """Each method has the learning rate of a grid whose tuning run succeeds most.

    Attributes:
        grid: The rates, ascending.
        seed: Of the tuning runs.
        updates: Length of each.
        last: Their last updates, whose rollouts are judged by their mean success; of equal rates
            the lower one wins. No panel is played.
    """

    grid: Annotated[tuple[_Rate, ...], Field(min_length=2, max_length=10, strict=False)]
    seed: Annotated[int, Field(ge=0, lt=2**63)]
    updates: _Count
    last: _Count

    @property
    def rates(self) -> tuple[float, ...]:
        """All that a run may have."""
        return self.grid

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if list(self.grid) != sorted(set(self.grid)):
            raise ValueError("grid must be ascending, each rate once")
        if self.last > self.updates:
            raise ValueError(f"last is {self.last}, but there are {self.updates} updates")
        return self


def _rule(value: object) -> str:
    """Which rule a learning rate's content is meant to be: messages then speak of that one."""
    fixed = isinstance(value, FixedRate) or (isinstance(value, Mapping) and "fixed" in value)
    return "fixed" if fixed else "grid"


RateRule = Annotated[
    Annotated[RateGrid, Tag("grid")] | Annotated[FixedRate, Tag("fixed")], Discriminator(_rule)
]


class Track(Strict):
    """Everything of a training run but method and seed.

    Attributes:
        name: Name of its file.
        description: One line for people.
        init: Where weights start.
        tasks: Names of the tasks whose training streams are played.
        task_settings: Their settings, by task, that are not the standard ones.
        settings: The trainer's configuration without `METHOD` and the learning rate, each resolved.
        learning_rate: Which rates a run may have, and how one is chosen.
        recipes: Constants that the track's source gives shipped recipes, by recipe.
        added: Settings that the trainer has gained since the track was pinned, with the values that
            leave it as it was. They move no hash, and older logs lack them.
        base: Track that this one varies: its file has only what differs. Everything is pinned by
            the hash, so a change of the base is noticed here.
    """

    name: Word
    description: Annotated[str, Field(min_length=1, max_length=200)]
    init: TrackInit
    tasks: Annotated[tuple[Word, ...], Field(min_length=1, strict=False)]
    settings: dict[str, Any]
    learning_rate: RateRule
    # Left out where there are none, so that older tracks keep their hash.
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
        """Hash of the canonical form: of all that can move a number.

        Name, description, base, the settings that move no result (`FREE`) and `added` are not part
        of it.
        """
        apart = {"name", "description", "base", "settings", "added"}
        pinned = self.model_dump(mode="json", exclude=apart)
        return sha256_text(canonical_json(pinned | {"settings": self.pinned}))

    def load_tasks(self) -> "tuple[Task, ...]":
        """The tasks, with their settings.

        Raises:
            UserError: A task is unknown or has no such setting.
        """
        # Who reads a board needs names of tracks, and no task.
        from tasks.registry import load_task

        return tuple(
            load_task(name).configured(self.task_settings.get(name, {})) for name in self.tasks
        )

    @property
    def claim(self) -> TrackClaim:
        """What the log of a run on this track says of it."""
        return TrackClaim(name=self.name, sha256=self.sha256)

    @property
    def pinned(self) -> dict[str, Any]:
        """The settings that can move a result, by dotted name."""
        return {name: value for name, value in flat(self.settings).items() if name not in FREE}


def deviations(track: Track, start: Start) -> list[str]:
    """What the first line of a log says that its track does not.

    Args:
        track: The track that it claims.
        start: The line.

    Returns:
        One text for every difference, with both values; none means that the run is on the track.
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
    """Names that a flattened configuration cannot tell from nested ones, by dotted name.

    With `kl.coef` beside `kl: {coef: ...}`, one of the two would be compared with the track, and
    everybody else would read the other.
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
    """Whether two settings are equal; 1 and 1.0 are, 1 and true are not."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)
