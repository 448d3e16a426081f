"""Whether what a submission declares agrees with its logs, this benchmark's tasks and the inits."""

from collections.abc import Iterator, Mapping

from benchmark.models import ModelIdentity
from benchmark.submissions.format.findings import Finding
from benchmark.submissions.format.schema import SUBMISSION
from benchmark.submissions.reading.entry import Entry
from tasks.errors import near
from tasks.registry import task_names

STREAMS = "training_data.training_streams"


def check_declaration(entry: Entry, shipped: Mapping[str, int]) -> Iterator[Finding]:
    """Hold a declaration against what can be known of its subject.

    Args:
        entry: The submission.
        shipped: Number of weights of the inits that come with this project, by name.
    """
    yield from _check_streams(entry)
    yield from _check_base(entry, shipped)


def _check_streams(entry: Entry) -> Iterator[Finding]:
    """Check that streams are of tasks, and that those of the logs are among them."""
    data = entry.submission.training_data
    if data is None:
        return
    names = task_names()
    for stream in data.training_streams:
        if stream not in names:
            problem = f"there is no task {stream!r}{near(stream, names)}"
            yield Finding(SUBMISSION, STREAMS, problem, "name tasks as `arlarena-bench tasks` does")
    logged: dict[str, str] = {}
    for point in entry.checkpoints:
        if point.log is not None:
            for task in point.log.start.task.split("+"):
                logged.setdefault(task, str(point.log.path))
    for task, log in logged.items():
        if task not in data.training_streams:
            problem = f"{task} is not named, and {log} is of a training on it"
            yield Finding(SUBMISSION, STREAMS, problem, f"add {task}")


def _check_base(entry: Entry, shipped: Mapping[str, int]) -> Iterator[Finding]:
    """Check that base and size are those of the init, where it is one that is known."""
    said = entry.submission
    init = _start(entry)
    if init is None or init.kind != "init" or init.name not in shipped:
        return
    if said.base_model != init.name:
        problem = f"{said.base_model}, the weights come from the init {init.name}"
        yield Finding(SUBMISSION, "base_model", problem, f"write {init.name}")
    weights = shipped[init.name]
    if said.parameters != weights:
        problem = f"{said.parameters:,}, the init {init.name} has {weights:,} weights"
        yield Finding(SUBMISSION, "parameters", problem, f"write {weights}")


def _start(entry: Entry) -> ModelIdentity | None:
    """The init that the weights come from or are; None for a policy."""
    if entry.submission.method.kind == "init":
        return entry.checkpoints[0].checkpoint.model
    return entry.submission.init
