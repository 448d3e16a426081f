"""TRL logs: the `trainer_state.json` that transformers' Trainer saves with every checkpoint.

Its `log_history` has one object per log line: training numbers, evaluation numbers (`eval_...`)
and, last, totals of the run, each with the step at which it was written. The evaluation and
training lines of one step are two objects.

transformers excludes losses that are not finite from the mean that it logs
(`logging_nan_inf_filter`, on by default), so an explosion shows only in the gradient norm.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from benchmark.logs.foreign.mapping import Meaning
from benchmark.logs.foreign.rows import LogRow, Reading, RowCollector
from benchmark.logs.foreign.values import MAX_ROWS, json_value, parse_json, read_text, step_of
from tasks.errors import UserError

STATE: Final = "trainer_state.json"
_NOT_MEASURED: Final = ("step", "epoch")


def read_trl(path: Path, own: Mapping[str, Meaning]) -> list[Reading]:
    """Read a `trainer_state.json`.

    Args:
        path: The file.
        own: Meanings of fields given by the user.

    Returns:
        Its run, as the only element.

    Raises:
        UserError: It cannot be read, has no `log_history`, or breaks a rule of `rows`.
    """
    state = _state(path)
    collector = RowCollector(path, "trl", own)
    collector.add_all(_rows(path, state["log_history"]))
    return [collector.reading(_name(path), _notes(state))]


def _state(path: Path) -> dict[str, Any]:
    text = read_text(path)
    if text.count("{") + text.count("[") > MAX_ROWS:
        raise UserError(f"{path} has more than {MAX_ROWS} objects and lists; it is not a {STATE}")
    try:
        state = parse_json(text)
    except ValueError as error:
        raise UserError(f"{path}: {error}; choose a complete {STATE}") from error
    if not isinstance(state, dict) or not isinstance(state.get("log_history"), list):
        raise UserError(
            f"{path} has no list log_history; choose a {STATE} of transformers' Trainer"
        )
    return state


def _rows(path: Path, history: list[Any]) -> Iterator[LogRow]:
    for number, entry in enumerate(history):
        place = f"log_history[{number}]"
        if not isinstance(entry, dict):
            raise UserError(f"{path}, {place}: is not an object")
        try:
            step = step_of(entry.get("step"))
        except ValueError as error:
            raise UserError(f"{path}, {place}: {error}") from error
        yield LogRow(
            place,
            step,
            {name: json_value(v) for name, v in entry.items() if name not in _NOT_MEASURED},
        )


def _notes(state: Mapping[str, Any]) -> list[str]:
    every = state.get("logging_steps")
    if every == 1:
        return []
    of = f"the mean of {every} steps" if isinstance(every, int) else "a mean of steps"
    return [f"every number but the gradient norm is {of}: logging_steps was not 1"]


def _name(path: Path) -> str:
    """The name of the output folder, which contains the checkpoints."""
    folder = path.resolve().parent
    return folder.parent.name if folder.name.startswith("checkpoint-") else folder.name
