"""When a run should end, according to the configuration in its log, and why it ended earlier."""

from dataclasses import dataclass
from typing import Any, Final, TypeGuard

from benchmark.logs.training_log import TrainingLog
from benchmark.stability.collapse import collapse_update, diverged, should_stop

MAX_COUNT: Final = 2**31
"""Maximum number of updates, groups and episodes in a configuration."""


@dataclass(frozen=True, slots=True)
class UpdateSchedule:
    """Planned length and validation interval of a run, from its configuration.

    Attributes:
        updates: Planned number of updates.
        every: Updates between two validations; None for no validation.
    """

    updates: int
    every: int | None

    def due(self, last: int) -> set[int]:
        """Updates after which a run that ends at `last` has been validated."""
        if self.every is None:
            return set()
        ends = {last} if last == self.updates else set()
        return {*range(0, last + 1, self.every)} | ends


def schedule_of(log: TrainingLog) -> UpdateSchedule | None:
    """The configured schedule; None if there is none, as for other trainers."""
    configuration = log.start.configuration
    optimization, validation = configuration.get("optimization"), configuration.get("validation")
    if not isinstance(optimization, dict) or not isinstance(validation, dict):
        return None
    updates = optimization.get("updates")
    if not is_count(updates) or "every" not in validation:
        return None
    every = validation["every"]
    return UpdateSchedule(updates, every) if every is None or is_count(every) else None


def is_count(value: Any) -> TypeGuard[int]:
    """Whether a value is a valid number of updates, groups or episodes, from 1."""
    return type(value) is int and 0 < value <= MAX_COUNT


def early_stop(log: TrainingLog) -> str | None:
    """Why a run was stopped before the last update in its configuration.

    The trainer does not log that it stops (`--stop-on-collapse`, or steps that are not finite), so
    the reason is recomputed from the log.

    Returns:
        The reason, as from `benchmark.stability.collapse`; None if the run is complete, the
        configuration states no last update, or there was no reason to stop.
    """
    schedule = schedule_of(log)
    if schedule is None or not log.updates or log.updates[-1].update >= schedule.updates:
        return None
    if (reason := divergence(log)) is not None:
        return reason
    group_stds = log.series("rollout/group_std")
    curves = [log.of_panel(panel) for panel in log.panels] or [()]
    reasons = (
        should_stop([line.success for line in c], [line.action_ok for line in c], group_stds)
        for c in curves
    )
    return next((reason for reason in reasons if reason is not None), None)


def collapsed_at(log: TrainingLog, panel: str | None = None) -> int | None:
    """The update at which a run collapsed or diverged, as far as its log shows.

    A log may also be short because its run continues or was killed, so it does not count here that
    a rule of `--stop-on-collapse` would have ended it (`early_stop`).

    Args:
        log: The run.
        panel: The panel whose validations count, as in `collapse_update`.
    """
    update = collapse_update(log, panel)
    return log.updates[-1].update if update is None and divergence(log) is not None else update


def divergence(log: TrainingLog) -> str | None:
    """Why a run must have ended: `benchmark.stability.collapse.diverged`, with its own limit."""
    optimization = log.start.configuration.get("optimization")
    limit = optimization.get("max_skipped") if isinstance(optimization, dict) else None
    if not is_count(limit):
        return None
    made = log.series("policy/optimizer_steps")
    reason = diverged(made, log.series("policy/skipped_steps"), limit)
    if reason is not None or not _has_critic(log):
        return reason
    made = [float(loss is not None) for loss in log.series("critic/loss")]
    return diverged(made, log.series("critic/skipped_steps"), limit)


def _has_critic(log: TrainingLog) -> bool:
    """Whether it uses GAE, the only shipped choice with a critic; unknown for plug-ins."""
    advantage = log.start.configuration.get("advantage")
    return isinstance(advantage, dict) and advantage.get("name") == "gae"
