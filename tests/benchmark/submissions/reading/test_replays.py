"""Replays that held are not made again, and none takes for ever."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmark.submissions.check import CheckResult, check_submission
from benchmark.submissions.checks.context import Context
from benchmark.submissions.reading.replays import Replays, key_of
from tasks.errors import UserError
from tests.benchmark.submissions.conftest import Copies
from tests.support.submissions.small import INITS, Json


def checked(folder: Path, replays: Replays | None, seconds: float = 600) -> CheckResult:
    context = Context(INITS, env_processes=1, replays=replays, replay_s=seconds)
    return check_submission(folder, context)


def problems(verdict: CheckResult) -> Sequence[str]:
    return [finding.problem for finding in verdict.findings]


@pytest.mark.slow
def test_what_held_is_known_and_nothing_else_is(
    policy: Path, copies: Copies, tmp_path: Path
) -> None:
    file = tmp_path / "cache" / "replays.json"
    first = checked(policy, Replays(file))
    assert first.accepted and file.exists()
    # No time is left to execute anything.
    known = Replays(file)
    again = checked(policy, known, seconds=-1)
    assert again.accepted
    assert (again.replayed, again.doubts) == (first.replayed, first.doubts)
    # One reward of one turn is another.
    copy = copies("policy")

    def change(records: list[Json]) -> None:
        records[3]["turns"][0]["reward"] += 1.0

    copy.records(change)
    assert any("does not match" in problem for problem in problems(checked(copy.folder, known)))
    run = first.entry.runs[0] if first.entry else None
    assert run is not None
    assert known.doubts(key_of(run.manifest, run.records)) == first.doubts
    assert known.doubts(key_of(run.manifest, run.records[1:])) is None


def test_a_replay_that_takes_too_long_is_refused(policy: Path, tmp_path: Path) -> None:
    file = tmp_path / "replays.json"
    (problem,) = problems(checked(policy, Replays(file), seconds=-60))
    assert problem.startswith("replays of the submission take more than -1 minutes; 0 of 256 recor")
    assert not file.exists()


@pytest.mark.parametrize("content", ["", "[]", '{"a": "b"}', "\\x00"])
def test_a_damaged_file_is_named(tmp_path: Path, content: str) -> None:
    file = tmp_path / "replays.json"
    file.write_text(content)
    with pytest.raises(UserError, match="is not a file of replays; delete it"):
        Replays(file)
