"""Checks that hub models exist."""

from collections.abc import Iterator

from benchmark.submissions.checks.context import Context
from benchmark.submissions.format.findings import Finding
from benchmark.submissions.format.schema import SUBMISSION
from benchmark.submissions.reading.entry import Entry
from benchmark.submissions.reading.remote import is_on_hub
from tasks.errors import UserError
from tasks.texts import on_one_line


def check_hub(entry: Entry, context: Context) -> Iterator[Finding]:
    """Look up hub models and published weights on the hub.

    Only an audit or a rerun can tell whether these weights have played: a rerun compares their
    hash, if the entry states one.
    """
    if not context.hub:
        return
    named = [
        (f"checkpoints.{number}.model", point.model)
        for number, point in enumerate(entry.submission.checkpoints)
    ]
    if entry.submission.init is not None:
        named.append(("init", entry.submission.init))
    if entry.submission.published is not None:
        named.append(("weights", entry.submission.published))
    unknown: list[str] = []
    for where, model in named:
        if model.kind == "hub":
            try:
                there = is_on_hub(model)
            except UserError as error:
                unknown.append(str(error))
                continue
            if not there:
                problem = f"{model.text}: the hub has no public model with this name and commit"
                fix = "name a public commit"
                yield Finding(SUBMISSION, where, problem, fix)
    if unknown:
        more = f", and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        note = f"models were not looked up on the hub: {unknown[0]}{more}"
        context.notes.append(on_one_line(note))
