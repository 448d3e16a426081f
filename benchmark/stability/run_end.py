"""When a run is meant to end, by the configuration in its log, and why it ended before that."""

from dataclasses import dataclass
from typing import Any, Final, TypeGuard

from benchmark.logs.training_log import TrainingLog
from benchmark.stability.collapse import collapse_update, diverged, should_stop

MAX_COUNT: Final = 2**31
"""Of updates, groups and episodes in a configuration."""


@dataclass(frozen=True, slots=True)
class UpdateSchedule:
    """How long a run is meant to be and how often it is validated, by its configuration.

    Attributes:
        updates: To be made.
        every: Updates between two validations; None for none at all.
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
    """What the configuration says; None where it does not, as that of another trainer."""
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
    """Whether it is a count of updates, groups or episodes, from 1."""
    return type(value) is int and 0 < value <= MAX_COUNT


def early_stop(log: TrainingLog) -> str | None:
    """Why a run was ended before the last update that its configuration names.

    The trainer writes nothing into a log when it stops (`--stop-on-collapse`, or steps that are not
    finite): the reason is found again in what it had seen.

    Returns:
        The reason, as `benchmark.stability.collapse` gives it; None if the run came to its end,
        the configuration does not name one, or there was no reason to stop.
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
    """The update at which a run collapsed or diverged, as far as its log alone shows it.

    A log may also be short because its run goes on, or was killed: that a rule of
    `--stop-on-collapse` would have ended it does not count here (`early_stop`).

    Args:
        log: The run.
        panel: Whose validations are judged, as for `collapse_update`.
    """
    update = collapse_update(log, panel)
    return log.updates[-1].update if update is None and divergence(log) is not None else update


def divergence(log: TrainingLog) -> str | None:
    """Why a run cannot have gone on: `benchmark.stability.collapse.diverged`, by its own limit."""
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
    """Whether it uses GAE, which alone has a critic; of a plug-in this is not known."""
    advantage = log.start.configuration.get("advantage")
    return isinstance(advantage, dict) and advantage.get("name") == "gae"
