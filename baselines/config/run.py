"""A training run, and callbacks for its progress."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

from baselines.config.schema import TrainConfig
from benchmark.flat import tracker_values
from benchmark.models import ModelIdentity, ModelSource
from benchmark.track_schema import FREE, TrackClaim
from benchmark.versions import versions
from tasks.base import Task
from tasks.errors import UserError
from tasks.seeding import canonical_json, sha256_text

Line = Mapping[str, Any]
Unit = Literal["turn", "trajectory"]
PLUGIN: Final = "plug-in "
"""Prefix of the names of facts about plug-ins; no setting has a space in its name."""


def unit_of(config: TrainConfig, task: Task) -> Unit:
    """Whether a row of a task is a turn or a trajectory."""
    return config.unit or task.info.unit


def max_turns_of(config: TrainConfig, task: Task) -> int:
    """Turn limit of a task's training episodes."""
    chosen = config.rollout.max_turns
    limit = chosen.get(task.info.name) if isinstance(chosen, dict) else chosen
    return limit or task.training_max_turns


def without_turns(config: TrainConfig, tasks: Iterable[Task]) -> list[str]:
    """Names of tasks whose rows are whole trajectories although the advantage compares turns."""
    if not config.advantage.needs_turns:
        return []
    return [task.info.name for task in tasks if unit_of(config, task) == "trajectory"]


def flat_facts(
    configuration: Mapping[str, Any], init: ModelIdentity, seed: int, plugins: Mapping[str, str]
) -> dict[str, Any]:
    """All settings of a run, flat, as trackers expect them, and the hashes of its plug-ins."""
    code = {f"{PLUGIN}{name}": sha256 for name, sha256 in plugins.items()}
    return tracker_values({**configuration, "init": init.sha256 or init.name, "seed": seed, **code})


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """The complete description of a run.

    Attributes:
        recipe: Name of the recipe, for the log.
        config: The resolved configuration.
        tasks: The training tasks, configured.
        init: The initial model.
        seed: Seed of streams, sampling and the order of rows.
        folder: Folder for log and checkpoints.
        trackers: Names of accelerate trackers that also receive the log.
        stop_on_collapse: Stop when `benchmark.stability.collapse` detects a collapse.
        env_processes: Maximum worker processes for episodes; None for one per usable core, shared
            by all processes of the run.
        track: The run's track; None for an open run.
        weights_dtype: Type of the weights sent to the engine.
        weights_on_gpu: Servers receive them from the main process's GPU (NCCL).
        plugins: SHA-256 of the code of its plug-ins, by name (`baselines.algorithms.plugins`).
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
    track: TrackClaim | None = None
    weights_dtype: Literal["float32", "bfloat16"] = "float32"
    weights_on_gpu: bool = False
    plugins: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check that the recipe and the mixture can be used on the tasks.

        Raises:
            UserError: The recipe compares turns, but a task's rows are whole trajectories; the
                mixture does not cover exactly these tasks and all groups; or a turn limit names
                another task.
        """
        self._check_mixture()
        self._check_turn_limits()
        if whole := without_turns(self.config, self.tasks):
            raise UserError(
                f"{self.config.advantage.name} compares turns of episodes, but the rows of "
                f"{whole[0]} are whole trajectories: use another advantage, or --set unit=turn "
                "(on a track that makes an open run)"
            )

    def _check_mixture(self) -> None:
        """Check that a mixture gives the number of groups of every task."""
        rollout = self.config.rollout
        if rollout.mixture is None:
            return
        names = [task.info.name for task in self.tasks]
        if set(rollout.mixture) != set(names):
            raise UserError(
                f"rollout.mixture is one of {', '.join(rollout.mixture)}, but the run trains on "
                f"{', '.join(names)}"
            )
        total = sum(rollout.mixture.values())
        if total != rollout.groups:
            raise UserError(
                f"rollout.mixture has {total} groups an update, but rollout.groups is "
                f"{rollout.groups}"
            )

    def _check_turn_limits(self) -> None:
        """Check that turn limits name only training tasks."""
        chosen, names = self.config.rollout.max_turns, [task.info.name for task in self.tasks]
        others = sorted(set(chosen) - set(names)) if isinstance(chosen, dict) else []
        if others:
            raise UserError(
                f"rollout.max_turns names {', '.join(others)}, but the run trains on "
                f"{', '.join(names)}"
            )

    @property
    def configuration(self) -> dict[str, Any]:
        """Everything that can change a result, except seed and init."""
        tasks = {task.info.name: dict(task.settings()) for task in self.tasks}
        return {**self.config.model_dump(mode="json"), "tasks": tasks}

    @property
    def sha256(self) -> str:
        """Hash of everything that must match to resume from a checkpoint."""
        config = self.configuration
        # A run may be extended if its learning rate does not depend on its length.
        constant = self.config.optimization.schedule == "constant"
        for name in FREE | ({"optimization.updates"} if constant else set()):
            part, _, setting = name.rpartition(".")
            del (config[part] if part else config)[setting]
        # Without plug-ins, the hash stays that of checkpoints older than plug-ins.
        code = [dict(self.plugins)] if self.plugins else []
        return sha256_text(canonical_json([config, self.init.identity.sha256, self.seed, *code]))

    @property
    def facts(self) -> dict[str, Any]:
        """All settings, flat, and the hashes of plug-ins."""
        return flat_facts(self.configuration, self.init.identity, self.seed, self.plugins)

    @property
    def tracker_id(self) -> str:
        """A run's id in trackers, unique across folders."""
        return sha256_text(canonical_json([self.sha256, str(self.folder.resolve())]))[:16]

    def start_line(self, fingerprint: str, engine: Mapping[str, Any]) -> Line:
        """The first line of the run's log.

        Args:
            fingerprint: Fingerprint of its validations.
            engine: Facts about its engine.
        """
        return {
            "kind": "start",
            "schema_version": 1,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "recipe": self.recipe,
            "configuration": self.configuration,
            "task": "+".join(task.info.name for task in self.tasks),
            "init": self.init.identity.model_dump(),
            "fingerprint": fingerprint,
            "seed": self.seed,
            "engine": engine,
            "versions": versions(),
            "track": self.track.model_dump() if self.track else None,
            **({"plugins": dict(self.plugins)} if self.plugins else {}),
        }


@dataclass(frozen=True, slots=True)
class TrainingCallbacks:
    """Callbacks for a run's progress.

    Attributes:
        line: Called with every line of the log.
        phase: Called with the current phase, and the finished and total episodes of this process's
            share; 0 and 0 in phases without episodes.
    """

    line: Callable[[Line], None] = lambda line: None
    phase: Callable[[str, int, int], None] = lambda name, done, total: None
