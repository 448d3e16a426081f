"""Whether what a submission says of time can be."""

import re
from datetime import date, datetime, timedelta
from typing import Final

from benchmark.submissions.format.findings import Finding
from benchmark.submissions.format.schema import SUBMISSION
from benchmark.submissions.reading.entry import Entry

ANYWHERE: Final = timedelta(days=1)
"""By how much days can be apart at one time: a submission has its author's, a run that of UTC."""
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|\+00:00)", re.ASCII)


def check_dates(entry: Entry, today: date) -> list[Finding]:
    """Check that a submission is not of the future, and its runs and trainings not of after it.

    Args:
        entry: The submission.
        today: The day, UTC.
    """
    findings = []
    day = date.fromisoformat(entry.submission.date)
    if day - today > ANYWHERE:
        problem, fix = f"{day} is still to come", "give the day of the submission"
        findings.append(Finding(SUBMISSION, "date", problem, fix))
    began = {f"{run.path}/run.json": run.manifest.created for run in entry.runs}
    logs = [point.log for point in entry.checkpoints if point.log is not None]
    began |= {str(log.path): log.start.created for log in logs}
    for file, created in began.items():
        at = _day(created)
        fix = "send it as it was written, with a date of the submission that is not before it"
        if at is None:
            problem = f"{created!r} is no time in UTC"
            findings.append(Finding(file, "created", problem, fix))
        elif at - day > ANYWHERE:
            problem = f"{created} is after the submission, which is of {day}"
            findings.append(Finding(file, "created", problem, fix))
    return findings


def _day(created: str) -> date | None:
    """The day of a time that runs and logs begin at; None if it is no such time."""
    if not _TIME.fullmatch(created):
        return None
    try:
        return datetime.fromisoformat(created).date()
    except ValueError:
        return None
