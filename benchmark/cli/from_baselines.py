"""What commands need from `baselines`: inits, tracks, and how to repeat a training log."""

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
    """SHA-256 of the registered inits by name; None where none is pinned."""
    return {name: init.sha256 for name, init in registered_inits().items()}


def shipped_weights() -> Mapping[str, int]:
    """Number of weights of the inits that come with this project, by name."""
    inits = registered_inits().items()
    return {name: weights_in(init.folder) for name, init in inits if init.folder is not None}


class _Tracks(Mapping[str, Track]):
    """All tracks, by name, read when the first one is asked for: most entries claim none."""

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
    """Find what `--model` names: an init, a folder, or a model on the hub.

    Raises:
        UserError: It is none of them; near matches are named.
    """
    from baselines.inits import registry

    return registry.find_model(name)


def init_tasks(name: str) -> tuple[str, ...]:
    """The tasks that an init was made for; none for any other model."""
    init = registered_inits().get(name)
    return () if init is None else init.tasks


def with_init_settings(name: str, chosen: Settings, tasks: Collection[str]) -> Settings:
    """Settings of tasks, with those that an init was made with where they are not chosen.

    Args:
        name: What `--model` or `--init` names.
        chosen: What the user has chosen, by task.
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
    """The command of the training that wrote a log: see `baselines.reproduction`.

    Raises:
        UserError: No command of this version does.
    """
    from baselines import reproduction

    return reproduction.train_command(log, folder, plugins or {})


def method_fault(track: Track, start: Start) -> str | None:
    """How a logged method is not its recipe's: see `baselines.logged_method`."""
    from baselines import logged_method

    return logged_method.method_fault(track, start)


def rate_fault(track: Track, start: Start) -> str | None:
    """How a logged learning rate is not the tuned one: see `baselines.logged_method`."""
    from baselines import logged_method

    return logged_method.rate_fault(track, start)


def check_init(log: TrainingLog) -> None:
    """Check that the weights which a training started from are here.

    Raises:
        UserError: They are not.
    """
    from baselines import reproduction

    reproduction.check_init(log.start)
