"""Results of replays are cached, successful or timed out, and no replay runs forever."""

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmark.evaluation.records import TurnRecord
from benchmark.submissions.check import CheckResult, check_submission
from benchmark.submissions.checks import records, replay
from benchmark.submissions.checks.context import Context
from benchmark.submissions.reading.replays import REPLAY, Replays, key_of
from tasks.errors import UserError
from tests.benchmark.submissions.conftest import Copies
from tests.support.submissions.small import INITS, Json
from tests.test_imports import ROOT, imports, modules


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
    # No time is left to replay anything.
    known = Replays(file)
    again = checked(policy, known, seconds=-1)
    assert again.accepted
    assert (again.replayed, again.doubts) == (first.replayed, first.doubts)
    # One reward of one turn is changed.
    copy = copies("policy")

    def change(records: list[Json]) -> None:
        records[3]["turns"][0]["reward"] += 1.0

    copy.records(change)
    assert any("does not match" in problem for problem in problems(checked(copy.folder, known)))
    run = first.entry.runs[0] if first.entry else None
    assert run is not None
    assert known.doubts(key_of(run.manifest, run.records)) == first.doubts
    assert known.doubts(key_of(run.manifest, run.records[1:])) is None


def test_a_replay_that_takes_too_long_is_refused_and_not_begun_again(
    policy: Path, tmp_path: Path
) -> None:
    file = tmp_path / "replays.json"
    (first,) = checked(policy, Replays(file), seconds=-60).findings
    assert first.problem.startswith(
        "replays of the submission take more than -1 minutes; 0 of 256 recor"
    )
    # Cached for the same or a shorter time limit.
    for seconds in (-60, -61):
        known = checked(policy, Replays(file), seconds)
        (finding,) = known.findings
        assert (finding.problem, known.replayed) == (first.problem, 0)
        assert finding.fix == f"{first.fix} (from an earlier replay)"
    (retried,) = checked(policy, Replays(file), seconds=-59).findings
    assert "(from an earlier replay)" not in retried.fix


@pytest.mark.slow
def test_a_refusal_is_kept_if_it_took_long(
    copies: Copies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = copies("policy")

    def change(records: list[Json]) -> None:
        records[3]["turns"][0]["reward"] += 1.0

    copy.records(change)
    file = tmp_path / "replays.json"
    for expected in (False, True):
        monkeypatch.setattr(replay, "SLOW_S", 0.0 if expected else 600.0)
        (first,) = checked(copy.folder, Replays(file)).findings
        assert "does not match" in first.problem
        assert file.exists() == expected
    (again,) = checked(copy.folder, Replays(file)).findings
    assert again.problem == first.problem and again.fix.endswith("(from an earlier replay)")


@pytest.mark.slow
def test_what_is_kept_of_a_run_is_kept_of_its_content_alone(
    policy: Path, copies: Copies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Submitting another's records with a wrong summary must not get the originals rejected."""
    monkeypatch.setattr(replay, "SLOW_S", 0.0)
    replays = Replays(tmp_path / "replays.json")
    copy = copies("policy")
    copy.write("runs/r0/summary.json", copy.read("runs/r0/summary.json") + b"\n")
    (problem,) = problems(checked(copy.folder, replays))
    assert problem == "does not match the records"
    assert checked(policy, replays, seconds=-1).accepted


@pytest.mark.slow
def test_a_build_that_ends_says_nothing_of_an_entry(policy: Path, tmp_path: Path) -> None:
    replays = Replays(tmp_path / "replays.json")
    context = Context(INITS, env_processes=1, replays=replays, build_until=time.monotonic() - 1)
    (finding,) = check_submission(policy, context).findings
    assert finding.problem.startswith("this build ran out of time before the replay finished; 0")
    assert context.unfinished
    assert checked(policy, replays).accepted


def test_every_module_of_a_replay_decides_whether_one_is_known() -> None:
    known, needed = modules(), set[Path]()
    waiting = ["benchmark.evaluation.replay"]
    while waiting:
        file = known.get(waiting.pop())
        if file is not None and file not in needed and file.name != "__init__.py":
            needed.add(file)
            waiting += [name for found in imports(file) for name in found.names]
    of_tasks = ROOT / "tasks"
    counted = {ROOT / place for place in REPLAY} - {of_tasks}
    assert {file for file in needed if not file.is_relative_to(of_tasks)} == counted - {
        ROOT / "benchmark/submissions/checks/replay.py"
    }
    assert all(file.is_file() for file in counted)


@pytest.mark.slow
def test_records_of_a_model_are_looked_at_again_where_their_replay_is_known(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "replays.json"
    assert not [text for text in problems(checked(trained, Replays(file))) if "log_prob" in text]

    def stricter(turn: TurnRecord, *others: object) -> str:
        return f"log_prob {turn.log_prob} is not liked any more"

    monkeypatch.setattr(records, "_token_fault", stricter)
    assert any("not liked any more" in text for text in problems(checked(trained, Replays(file))))


@pytest.mark.parametrize("content", ["", "[]", '{"a": "b"}', '{"held": {"a": "b"}}', "\\x00"])
def test_a_damaged_file_is_named(tmp_path: Path, content: str) -> None:
    file = tmp_path / "replays.json"
    file.write_text(content)
    with pytest.raises(UserError, match="is not a file of replays; delete it"):
        Replays(file)
