"""Builds of the board with a time limit."""

import shutil
import time
from pathlib import Path

import pytest

from benchmark.submissions.check import CheckResult, check_submission
from benchmark.submissions.checks.context import Context
from benchmark.submissions.reading.replays import Replays
from leaderboard.board.board import load
from leaderboard.board.build import build, write
from tests.support.submissions.small import INITS

POLICY, TRAINED = "20260102_policy", "20260102_trained"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "submissions").mkdir()
    return tmp_path / "submissions"


@pytest.mark.slow
def test_a_build_without_time_left_is_published_and_the_next_one_continues(
    submissions: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(submissions / POLICY, folder / POLICY)
    file = tmp_path / "replays.json"
    assert build(folder, INITS, env_processes=1, replays=Replays(file)).accepted == (POLICY,)
    # Cached successes need no time; the rest is left out, without letting a copy take its place.
    shutil.copytree(submissions / TRAINED, folder / TRAINED)
    shutil.copytree(folder / TRAINED, folder / "20260102_zeal")
    late = build(folder, INITS, env_processes=1, replays=Replays(file), replay_s=-1)
    assert late.accepted == (POLICY,)
    first, copy = late.refused
    assert first.id == TRAINED and copy.id == "20260102_zeal"
    (reason,) = first.reasons
    assert "this build ran out of time before the replay finished" in reason
    assert any(f"is the name of {TRAINED}" in reason for reason in copy.reasons)
    write(late, tmp_path / "board")
    assert load(tmp_path / "board" / "leaderboard.parquet").facts.refused == late.refused
    again = build(folder, INITS, env_processes=1, replays=Replays(file))
    assert again.accepted == (POLICY, TRAINED)
    # Nothing is even read if the time for that is over as well.
    monkeypatch.setattr("leaderboard.board.build.GRACE_S", 0.0)
    nothing = build(folder, INITS, replays=Replays(file), replay_s=-1)
    assert nothing.accepted == ()
    assert all("this build ran out of time" in each.reasons[0] for each in nothing.refused)


@pytest.mark.slow
def test_slow_replays_come_last_where_time_is_limited(
    submissions: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one is slow, but a copy of it with a later date still counts as a copy."""
    for entry in (POLICY, TRAINED):
        shutil.copytree(submissions / entry, folder / entry)
    shutil.copytree(folder / POLICY, folder / "20260102_zeal")
    seen: list[tuple[str, bool]] = []

    def slow(folder: Path, context: Context) -> CheckResult:
        if folder.name == POLICY and not any(name == POLICY for name, _ in seen):
            context.build_until = time.monotonic() - 1
        verdict = check_submission(folder, context)
        seen.append((folder.name, verdict.accepted))
        return verdict

    monkeypatch.setattr("leaderboard.board.build.check_submission", slow)
    found = build(folder, INITS, env_processes=1, replay_s=3600)
    assert seen == [(POLICY, False), (TRAINED, True), ("20260102_zeal", False), (POLICY, True)]
    assert sorted(found.accepted) == [POLICY, TRAINED]
    (copy,) = found.refused
    assert copy.id == "20260102_zeal" and f"is the name of {POLICY}" in copy.reasons[0]
