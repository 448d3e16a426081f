"""Early stopping of a run, and warnings that it does not learn its task."""

import logging

from baselines.config.run import TrainingRun
from baselines.learning.estimation import penalties_took_over
from baselines.learning.learner import Learner
from baselines.learning.metrics import Metrics
from baselines.training.samples import SAMPLES
from baselines.training.validation import Validator
from benchmark.logs.training_log import TrainingLog
from benchmark.stability.collapse import should_stop, skipped_text
from benchmark.stability.run_end import divergence
from benchmark.stats.formatting import percent_text

log = logging.getLogger(__name__)


class EarlyStopping:
    """Tracks all updates to decide whether to make another one.

    Args:
        run: The run, with its stopping rules.
        warns: Whether this process logs the warnings.
    """

    def __init__(self, run: TrainingRun, warns: bool) -> None:
        self._ended_before: str | None = None
        self._run = run
        self._warns = warns
        self._group_stds: list[float | None] = []
        self._penalty_shares: list[float | None] = []
        self._advantages: list[float | None] = []

    def recall(self, earlier: TrainingLog, counted: bool) -> None:
        """Restore the measurements of earlier sessions.

        Args:
            earlier: Their log.
            counted: Whether the checkpoint stores how many consecutive steps were not finite; the
                log only shows whether the run had ended.
        """
        self._ended_before = None if counted else divergence(earlier)
        self._group_stds = earlier.series("rollout/group_std")
        self._penalty_shares = earlier.series("policy/penalty_share")
        self._advantages = list(
            map(_own, earlier.series("policy/advantage_std"), self._penalty_shares)
        )

    def note(self, number: int, metrics: Metrics) -> None:
        """Record an update; warn if penalties have just come to dominate the advantages.

        At the last update, warn if no update had any advantage.
        """
        self._group_stds.append(metrics["rollout/group_std"])
        self._penalty_shares.append(metrics.get("policy/penalty_share"))
        if self._warns and penalties_took_over(self._penalty_shares):
            log.warning(
                "update %d: most of the advantages come from format penalties (%s): the "
                "policy learns to avoid penalties instead of solving the task; set "
                "penalty_in=advantages, penalty_for=format or a lower format_penalty",
                number,
                percent_text(self._penalty_shares[-1] or 0, 0),
            )
        self._advantages.append(_own(metrics.get("policy/advantage_std"), self._penalty_shares[-1]))
        last = number == self._run.config.optimization.updates
        if self._warns and last and not any(self._advantages):
            equal = not any(self._group_stds)
            log.warning(
                "no update of this run had an advantage: %s, so that nothing was learned from "
                "rewards; look at %s",
                "in every group all episodes had the same return"
                if equal
                else "returns in a group differ, but all advantages are 0"
                + (" without format penalties" if any(self._penalty_shares) else ""),
                f"the texts in {self._run.folder / SAMPLES}"
                if equal
                else f"the advantage {self._run.config.advantage.name}",
            )

    def reason(self, learner: Learner, held_out: Validator) -> str | None:
        """Why the run should stop now; None if it should not."""
        if self._ended_before is not None:
            return self._ended_before
        if learner.diverged:
            return skipped_text(self._run.config.optimization.max_skipped)
        if not self._run.stop_on_collapse:
            return None
        # Without a validation, one rule still applies.
        for curve in held_out.curves.values() or [[]]:
            reason = should_stop(
                [line.success for line in curve],
                [line.action_ok for line in curve],
                self._group_stds,
            )
            if reason is not None:
                return reason
        return None


def _own(spread: float | None, penalty_share: float | None) -> float | None:
    """The spread of an update's advantages; 0 if it comes only from format penalties."""
    return 0.0 if penalty_share == 1 else spread
