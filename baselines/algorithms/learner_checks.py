"""What the steps of a user's own learner give, checked before shipped code uses it."""

import logging
from collections.abc import Collection, Mapping, Sequence
from operator import index
from typing import Any, TypeVar

import torch

from tasks.errors import UserError
from tasks.texts import first_line

T = TypeVar("T")
Attributes = Mapping[str, tuple[object, int]]

log = logging.getLogger(__name__)


class LearnerChecks:
    """Checks of one update.

    Args:
        learner: A `baselines.learning.learner.Learner`, in front of the update.

    Attributes:
        name: What messages call it.
    """

    def __init__(self, learner: Any) -> None:
        chosen = learner.config.learner
        self.name = chosen.name if chosen is not None else type(learner).__qualname__
        self._learner = learner

    def given(self, found: object, kind: type[T], step: str) -> T:
        """What a step gives.

        Raises:
            UserError: It has another type than the step's.
        """
        if not isinstance(found, kind):
            given = type(found).__name__
            raise UserError(f"{self._of(step)} gives {given} instead of {kind.__name__}")
        return found

    def plan(self, found: object, rows: int) -> list[list[int]]:
        """Row numbers of each optimizer step.

        Args:
            found: What `Learner.plan` gives.
            rows: How many there are.

        Raises:
            UserError: It is something else, or there is no such row.
        """
        what = self._of("plan")
        try:
            steps = [list(step) for step in found]  # type: ignore[attr-defined]
            if any(isinstance(row, bool) for step in steps for row in step):
                raise TypeError("a bool is not a row number")
            numbers = [[index(row) for row in step] for step in steps]
        except TypeError as error:
            raise UserError(
                f"{what} has to give a list of optimizer steps, each a list of row numbers: "
                f"{first_line(error)}"
            ) from error
        if wrong := [row for step in numbers for row in step if not 0 <= row < rows]:
            raise UserError(f"{what} gives the row number {wrong[0]}; rows are 0 to {rows - 1}")
        return numbers

    def of_tokens(self, found: Sequence[object], rows: Sequence[Any], sound: bool) -> None:
        """Check that advantages are one finite number for each token.

        Args:
            found: (T,) per row.
            rows: The rows (`baselines.rollouts.rows.Row`).
            sound: Whether what they are made from is finite; else any number will do.

        Raises:
            UserError: They are something else.
        """
        what = self._of("advantages")
        if len(found) != len(rows):
            raise UserError(f"{what} gives {len(found)} rows instead of {len(rows)}")
        for number, (each, row) in enumerate(zip(found, rows, strict=True)):
            length = len(row.response_ids)
            if not isinstance(each, torch.Tensor) or each.shape != (length,):
                kind = tuple(each.shape) if isinstance(each, torch.Tensor) else type(each).__name__
                raise UserError(
                    f"{what} gives {kind} for row {number} instead of a tensor of shape "
                    f"({length},): one number for each token of response_ids"
                )
            if not each.is_floating_point():
                raise UserError(f"{what} gives {each.dtype} instead of floating-point numbers")
            if sound and not bool(each.isfinite().all()):
                raise UserError(f"{what} is not finite for row {number} ({row.text})")

    def metrics(self, found: Collection[str], needed: Collection[str]) -> None:
        """Check that `Learner.learn` returns the metrics that every update has.

        Args:
            found: Names of its metrics.
            needed: Names of these.

        Raises:
            UserError: It lacks some.
        """
        if missing := [name for name in needed if name not in found]:
            raise UserError(f"the metrics of {self._of('learn')} lack {', '.join(missing)}")

    def attributes(self) -> Attributes:
        """The learner's attributes, to be compared after an update."""
        # Values are kept, so that none that comes later has the identity of one before.
        return {name: (value, _mark(value)) for name, value in vars(self._learner).items()}

    def warn_of_lost_state(self, before: Attributes) -> bool:
        """Warn of state that a resumed run would lose: attributes that an update has changed.

        Args:
            before: `attributes` before the update.

        Returns:
            Whether there are any.
        """
        lost = [
            name
            for name, value in vars(self._learner).items()
            if name not in before or before[name][0] is not value or before[name][1] != _mark(value)
        ]
        if lost and self._learner.accelerator.is_main_process:
            log.warning(
                "the learner %s changes %s in an update, but no checkpoint holds it: if a later "
                "update needs it, a resumed run differs from an uninterrupted one; add "
                "state_dict() and load_state_dict() to %s (a state_dict() that returns {} says "
                "that nothing is needed)",
                self.name,
                ", ".join(lost[:3]),
                type(self._learner).__qualname__,
            )
        return bool(lost)

    def _of(self, step: str) -> str:
        return f"{step}() of the learner {self.name}"


def _mark(value: object) -> int:
    """What differs where a value has been changed in place; not all such changes show."""
    if isinstance(value, torch.Tensor):
        return value._version
    return len(value) if isinstance(value, list | dict | set) else 0
