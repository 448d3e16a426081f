"""The part of a program's output that the model sees, and the part that is stored."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Self

from pydantic import StringConstraints, TypeAdapter, ValidationError

from tasks.texts import without_middle
from tasks.tir_math.response import MOST_ANSWER_CHARACTERS, boxed
from tasks.tir_math.sandbox.base import Execution, Status

MOST_SHOWN = 512
"""Characters that are shown of standard output, and of the last line of standard error."""

_NOTES: Mapping[Status, str] = {
    "time limit": "The program was stopped: it ran too long.",
    "memory limit": "The program was stopped: it took too much memory.",
    "output limit": "The program was stopped: it printed too much.",
    "killed": "The program was stopped.",
}
_SILENT = "The program printed nothing."
_LONGEST = 4 * MOST_SHOWN


@dataclass(frozen=True, slots=True)
class Output:
    """What came of a program.

    Attributes:
        status: How it ended.
        output: What the model is shown.
        boxed: The last box that it printed, in all of its output; None if there is none.
    """

    status: Status
    output: Annotated[str, StringConstraints(max_length=_LONGEST)]
    boxed: Annotated[str, StringConstraints(max_length=MOST_ANSWER_CHARACTERS)] | None

    @classmethod
    def of(cls, execution: Execution) -> Self:
        """What is shown and kept of an execution."""
        shown = [_shorten(execution.stdout.strip("\n"))] if execution.stdout.strip() else []
        if execution.status in _NOTES:
            shown.append(_NOTES[execution.status])
        elif execution.status == "error":
            shown.append(_shorten(_last_line(execution.stderr)))
        text = "\n".join(line for line in shown if line)
        return cls(execution.status, text or _SILENT, boxed(execution.stdout))

    @staticmethod
    def recorded(info: Mapping[str, Any]) -> "Output | None":
        """What a record's `Step.info` says of an execution; None if it says nothing readable."""
        fields = {name: info.get(name) for name in ("status", "output", "boxed")}
        try:
            return _OUTPUT.validate_python(fields)
        except ValidationError:
            return None

    @property
    def data(self) -> dict[str, Any]:
        """For `Step.info`."""
        return asdict(self)


_OUTPUT = TypeAdapter(Output)


def _last_line(text: str) -> str:
    lines = text.rstrip().splitlines()
    return lines[-1] if lines else "The program failed."


def _shorten(text: str) -> str:
    return without_middle(text, MOST_SHOWN, MOST_SHOWN // 2, "[{} characters left out]")
