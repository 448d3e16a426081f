"""What a training run is, and who is told what happens in it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from baselines.train_config import TrainConfig
from benchmark.models import ModelSource
from tasks.base import Task
from tasks.seeding import canonical_json, sha256_text

Line = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """One run, completely.

    Attributes:
        recipe: Name of the recipe, for the log.
        config: What is chosen.
        tasks: What is trained on, configured.
        init: Where weights start.
        seed: Of streams, draws and the order of rows.
        folder: Where log and checkpoints go.
        trackers: Names of accelerate trackers that get the log, too.
        stop_on_collapse: End when `benchmark.collapse` says so.
        env_processes: Worker processes for episodes, at most; None for one per usable core.
    """

    recipe: str
    config: TrainConfig
    tasks: tuple[Task, ...]
    init: ModelSource
    seed: int
    folder: Path
    trackers: tuple[str, ...] = ()
    stop_on_collapse: bool = False
    env_processes: int | None = None

    @property
    def configuration(self) -> dict[str, Any]:
        """Everything that can move a number, but seed and init."""
        tasks = {task.info.name: dict(task.settings()) for task in self.tasks}
        return {**self.config.model_dump(mode="json"), "tasks": tasks}

    @property
    def sha256(self) -> str:
        """Hash of what a checkpoint must have been made from to be resumed."""
        config = self.configuration
        # A run may be made longer.
        config["optimisation"] = {**config["optimisation"], "updates": None}
        return sha256_text(canonical_json([config, self.init.identity.sha256, self.seed]))


@dataclass(frozen=True, slots=True)
class Watch:
    """Who is told what happens.

    Attributes:
        line: Called with every line of the log.
        phase: Called with what is being done now.
    """

    line: Callable[[Line], None] = lambda line: None
    phase: Callable[[str], None] = lambda phase: None
