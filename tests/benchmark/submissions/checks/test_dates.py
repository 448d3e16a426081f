"""Dates: none is in the future, and no part of a submission is newer than the submission."""

from datetime import date
from pathlib import Path

import pytest

from benchmark.submissions.check import read_accepted
from benchmark.submissions.checks.declaration import check_dates
from tests.benchmark.submissions.conftest import Copies


def test_days_begin_at_other_times_elsewhere(trained: Path) -> None:
    """The submission is dated 2 January 2026."""
    entry = read_accepted(trained)
    assert check_dates(entry, date(2026, 1, 2)) == []
    assert check_dates(entry, date(2026, 1, 1)) == []
    (finding,) = check_dates(entry, date(2025, 12, 31))
    assert finding.text.startswith("submission.json, date: 2026-01-02 is in the future")


@pytest.mark.parametrize(
    ("created", "problem"),
    [
        ("2026-01-03T23:59:59+00:00", None),
        ("2026-01-02T00:00:00.123456Z", None),
        ("2026-01-04T00:00:00Z", "2026-01-04T00:00:00Z is after the submission"),
        ("2026-01-01T00:00:00", "is not a UTC time"),
        ("2026-01-01T00:00:00+05:00", "is not a UTC time"),
        ("2026-02-30T00:00:00Z", "is not a UTC time"),
        ("2026-01-01T24:00:01Z", "is not a UTC time"),
        ("\u0662026-01-01T00:00:00Z", "is not a UTC time"),
        ("", "is not a UTC time"),
    ],
)
def test_a_run_begins_before_it_is_sent(copies: Copies, created: str, problem: str | None) -> None:
    copy = copies("policy")
    copy.manifest(lambda run: run.update(created=created))
    found = [finding.problem for finding in check_dates(read_accepted(copy.folder), date.max)]
    assert len(found) == (problem is not None)
    assert problem is None or problem in found[0]
