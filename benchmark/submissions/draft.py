"""Drafts an `about.yaml`: fields known from runs and logs are filled in, the others marked.

Fields that only authors can fill in contain the example's text or null, which `submit prepare`
rejects, so that nothing is declared by mistake.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import yaml

from benchmark.models import ModelIdentity, weights_in
from benchmark.submissions.about import Kind
from benchmark.submissions.parts import CHECKPOINTS, RunUpload
from tasks.texts import on_one_line

FILL_IN: Final = "fill in"
_WIDE: Final = 10**6
"""Line width in columns, large enough that no value is wrapped."""


def draft(parts: Sequence[RunUpload], kind: Kind, shipped: Mapping[str, int]) -> str:
    """The text of the file.

    Args:
        parts: The checkpoints to submit.
        kind: Kind of the method, according to the runs.
        shipped: Number of weights of the shipped inits, by name.

    Returns:
        YAML with comments.
    """
    logs = [part.log for part in parts if part.log is not None]
    recipes = {log.start.recipe for log in logs}
    init = _init(parts, kind)
    lines = [
        f"# From `arlarena-bench submit init`. Replace what is marked `{FILL_IN}`.",
        *(f"# {text}" for text in map(_of, parts)),
        f"# The folder's date: {_latest(parts)} or later.",
        _line("name", "My method on tiny-sokoban", f"{FILL_IN}: ASCII, shown on the board"),
        _line("authors", ["A. Name"], FILL_IN),
        _line("contact", "https://example.org/me", f"{FILL_IN}: an address, an e-mail, a handle"),
        "method:",
        _line("  recipe", recipes.pop(), "from the logs")
        if len(recipes) == 1
        else _line("  recipe", "my-method", f"{FILL_IN}: one name for all seeds"),
        _line("  description", "What is done, in a few sentences.", FILL_IN),
        "  # code: an address, and paper: likewise, if there are any",
    ]
    if kind != "policy":
        lines += _weights(parts, kind, init, shipped)
    return "".join(f"{line}\n" for line in lines)


def _weights(
    parts: Sequence[RunUpload], kind: Kind, init: ModelIdentity | None, shipped: Mapping[str, int]
) -> Iterator[str]:
    """The fields that everything with weights needs."""
    known = init is not None and init.kind == "init"
    if init is not None and known:
        yield _line("base_model", init.name, "from the registry")
    else:
        yield _line("base_model", None, f"{FILL_IN}: the original model")
    count = _parameters(parts, init, shipped)
    yield _line("parameters", count, "counted" if count else f"{FILL_IN}: number of weights")
    if kind == "trained":
        if init is None:
            yield _line("init", None, f"{FILL_IN}: an init's name, or kind, name and sha256")
        else:
            facts = init.model_dump(mode="json", exclude_none=True)
            yield _line("init", init.name if known else facts, "from the logs")
    logs = [part.log for part in parts if part.log is not None]
    streams = sorted({task for log in logs for task in log.start.task.split("+")})
    yield "training_data:"
    yield _line("  statement", None, f"{FILL_IN}: everything that the weights were trained on")
    if streams:
        yield _line("  training_streams", streams, "from the logs")
    else:
        yield _line("  training_streams", None, f"{FILL_IN}: such as [sokoban], or []")
    yield _line("  other", None, f"{FILL_IN}: true if there was other data for one of the tasks")
    yield _line("  panel_episodes", None, f"{FILL_IN}: must be false")
    yield "# weights: where to download the checkpoints, if they are public"


def _init(parts: Sequence[RunUpload], kind: Kind) -> ModelIdentity | None:
    """The init that the weights are or were trained from; None if logs are missing or disagree."""
    if kind == "init":
        return parts[0].model
    found = {part.log.start.init for part in parts if part.log is not None}
    return found.pop() if len(found) == 1 else None


def _parameters(
    parts: Sequence[RunUpload], init: ModelIdentity | None, shipped: Mapping[str, int]
) -> int | None:
    """Number of weights, from the shipped init or from a checkpoint beside its log."""
    if init is not None and init.kind == "init" and init.name in shipped:
        return shipped[init.name]
    logs = [part.log.path.parent for part in parts if part.log is not None]
    folders = (folder / name for folder in logs for name in CHECKPOINTS)
    return next(filter(None, map(weights_in, folders)), None)


def _of(part: RunUpload) -> str:
    """What was found for one checkpoint, on one line."""
    found = [f"{run.path.name} ({_day(run.manifest.created)})" for run in part.runs]
    if part.log is not None:
        start = part.log.start
        found.append(f"log {part.log.path.name} ({start.recipe}, {_day(start.created)})")
    if part.foreign is not None:
        found.append(f"log {part.foreign.files[0].name} ({part.foreign.format})")
    return on_one_line(f"seed {part.seed}: {', '.join(found)}")


def _latest(parts: Sequence[RunUpload]) -> str:
    """The earliest day on which the runs can be submitted."""
    days = [_day(run.manifest.created) for part in parts for run in part.runs]
    days += [_day(part.log.start.created) for part in parts if part.log is not None]
    return max(days)


def _day(created: str) -> str:
    """The day of a time in ISO 8601."""
    return on_one_line(created.partition("T")[0])


def _line(key: str, value: Any, note: str) -> str:
    """One line of YAML with a comment."""
    text = yaml.safe_dump(value, default_flow_style=True, width=_WIDE, sort_keys=False)
    plain = text.removesuffix("...\n").strip()
    return f"{key}: {plain}  # {note}"
