"""An entry that breaks its check, its row or the board's files is rejected, and no other one."""

from dataclasses import replace
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest

from benchmark.submissions.reading.entry import Entry
from leaderboard.board.build import Origin, build, write
from leaderboard.board.entries import row_of as make_row
from leaderboard.board.file import read_content
from leaderboard.board.rows import FullRow
from tests.support.submissions.small import INITS

POLICY, TRAINED = "20260102_policy", "20260102_trained"


@pytest.mark.slow
@pytest.mark.parametrize("step", ["check_submission", "row_of", "facts_of", "AcceptedEntry.of"])
def test_an_entry_that_breaks_a_step_is_refused_and_the_others_are_shown(
    submissions: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    step = f"leaderboard.board.build.{step}"
    real = resolve_name(step)

    def breaking(given: Path | Entry, *others: Any) -> Any:
        folder = given.folder if isinstance(given, Entry) else given
        if folder.name == POLICY:
            raise ZeroDivisionError("a fault of the check\nin two lines")
        return real(given, *others)

    monkeypatch.setattr(step, breaking)
    origin = Origin("https://example.org/repo", "0" * 40, "2027-01-02")
    told: list[bool] = []
    built = build(
        submissions, INITS, origin=origin, checked=lambda verdict, *_: told.append(verdict.accepted)
    )
    (refused,) = built.refused
    assert (refused.id, built.accepted, told) == (POLICY, (TRAINED,), [False, True])
    assert "ZeroDivisionError" in refused.reasons[0] and "\n" not in refused.reasons[0]
    assert (built.content.facts.repository, built.content.facts.date) == (
        "https://example.org/repo", "2027-01-02",
    )  # fmt: skip


def test_a_row_that_no_file_can_hold_is_refused_and_the_others_are_written(
    submissions: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def too_large(entry: Entry, *others: Any) -> FullRow:
        row = make_row(entry, *others)
        return replace(row, parameters=2**63) if row.id == POLICY else row

    monkeypatch.setattr("leaderboard.board.build.row_of", too_large)
    built = build(submissions, INITS, env_processes=1)
    (refused,) = built.refused
    assert (refused.id, built.accepted) == (POLICY, (TRAINED,))
    assert "Overflow" in refused.reasons[0] or "too large" in refused.reasons[0]
    parquet, _ = write(built, tmp_path)
    assert [row.id for row in read_content(parquet).rows] == [TRAINED]
