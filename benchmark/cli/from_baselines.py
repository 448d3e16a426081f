"""What commands need from `baselines`: inits, tracks, and reproduction of training logs."""

from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from benchmark.cli.say import say
from benchmark.commands_of_entry import TrainCommand
from benchmark.logs.lines import Start
from benchmark.logs.training_log import TrainingLog
from benchmark.models import ModelSource, weights_in
from benchmark.track_schema import Track
from tasks.options import Settings

if TYPE_CHECKING:
    from baselines.algorithms.plugins import Plugin
    from baselines.inits.registry import Init


def registered_inits() -> "dict[str, Init]":
    """All inits, by name."""
    from baselines.inits.registry import read_registry

    return read_registry()


def pinned_hashes() -> Mapping[str, str | None]:
    """SHA-256 of the registered inits by name; None if not pinned."""
    return {name: init.sha256 for name, init in registered_inits().items()}


def shipped_weights() -> Mapping[str, int]:
    """Number of weights of the inits shipped with this project, by name."""
    inits = registered_inits().items()
    return {name: weights_in(init.folder) for name, init in inits if init.folder is not None}


class _Tracks(Mapping[str, Track]):
    """All tracks, by name; loaded on first access, because most entries claim none."""

    @cached_property
    def _read(self) -> Mapping[str, Track]:
        from baselines.tracks.registry import all_tracks

        return all_tracks()

    def __getitem__(self, name: str) -> Track:
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read)

    def __len__(self) -> int:
        return len(self._read)


def registered_tracks() -> Mapping[str, Track]:
    """All tracks, by name."""
    return _Tracks()


def find_model(name: str) -> ModelSource:
    """Find the model that `--model` names: an init, a folder, or a model on the hub.

    Raises:
        UserError: It is none of them; the message names close matches.
    """
    from baselines.inits import registry

    return registry.find_model(name)


def init_tasks(name: str) -> tuple[str, ...]:
    """The tasks that an init was made for; empty for any other model."""
    init = registered_inits().get(name)
    return () if init is None else init.tasks


def with_init_settings(name: str, chosen: Settings, tasks: Collection[str]) -> Settings:
    """Add an init's own task settings wherever the user has not chosen any.

    Args:
        name: Value of `--model` or `--init`.
        chosen: The user's settings, by task.
        tasks: Names of the tasks that are played.
    """
    init = registered_inits().get(name)
    if init is None:
        return chosen
    found = dict(chosen)
    for task, settings in init.task_settings.items():
        here = chosen.get(task, {})
        missing = {key: value for key, value in settings.items() if key not in here}
        if task not in tasks or not missing:
            continue
        for setting, value in missing.items():
            say(f"note: {name} was made for --set {task}.{setting}={value}, which is used")
        found[task] = {**missing, **here}
    return found


def train_command(
    log: TrainingLog, folder: str, plugins: "Mapping[str, Plugin] | None" = None
) -> TrainCommand:
    """The training command that wrote a log: see `baselines.reproduction`.

    Args:
        log: The log.
        folder: Folder for files that the command needs.
        plugins: The loaded plug-ins, by name; None to import no code but this project's.

    Raises:
        UserError: This version has no such command.
    """
    from baselines import reproduction

    installed = plugins is not None
    return reproduction.train_command(log, folder, plugins or {}, installed)


def method_fault(track: Track, start: Start) -> str | None:
    """How a logged method is not its recipe's: see `baselines.logged_method`."""
    from baselines import logged_method

    return logged_method.method_fault(track, start)


def rate_fault(track: Track, start: Start) -> str | None:
    """How a logged learning rate is not the tuned one: see `baselines.logged_method`."""
    from baselines import logged_method

    return logged_method.rate_fault(track, start)


def check_init(log: TrainingLog) -> None:
    """Check that the initial weights of a training run are available.

    Raises:
        UserError: They are not.
    """
    from baselines import reproduction

    reproduction.check_init(log.start)
