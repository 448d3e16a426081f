"""Other trainers' logs in a submission: a separate badge, and claims that they cannot make."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmark.submissions.badges import badges_of
from benchmark.submissions.checks.accepted_entries import AcceptedEntry
from benchmark.submissions.checks.results import foreign_stability_of, stability_of
from benchmark.submissions.parts import parts_of
from benchmark.submissions.prepare import prepare
from benchmark.submissions.report import comment, verdict_json
from leaderboard.board.entries import row_of
from leaderboard.table.columns import COLUMNS, Line
from leaderboard.table.view import badges_of as shown_badges
from tasks.errors import UserError
from tests.support.submissions.foreign_logs import MAP, SOLVED, run_folder, trainer_state
from tests.support.submissions.small import Copy, Json, about, check, copied


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, expert_run: Path, random_run: Path) -> Path:
    """Two runs, two TRL logs, and the submission of both."""
    root = tmp_path_factory.mktemp("foreign")
    runs = [run_folder(root, seed, expert_run, random_run) for seed in (0, 1)]
    logs = [
        trainer_state(root / "log-0", 0),
        trainer_state(root / "log-1", 1, (0.25, 0.5, 0.5, 0.5)),
    ]
    prepare(parts_of(runs, logs, [0, 1], [MAP]), about("trained"), root / "20260102_trl")
    return root


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Copy:
    return copied(made / "20260102_trl", tmp_path)


@pytest.mark.slow
def test_a_badge_and_numbers_of_their_own(made: Path) -> None:
    verdict = check(made / "20260102_trl")
    assert verdict.findings == ()
    badges = badges_of(verdict, {})
    assert badges.stability == "foreign logs"
    assert verdict.entry is not None
    assert stability_of(verdict.entry) is None
    stability = foreign_stability_of(verdict.entry)
    assert stability is not None
    # Smoothed over three validations: (0.5 + 0.75 + 0.5) / 3, and 0.5.
    assert [run.best_success for run in stability.runs] == pytest.approx([1.75 / 3, 0.5])
    assert [run.final_success for run in stability.runs] == [0.5, 0.5]
    said = json.loads(verdict_json(verdict, badges))
    assert said["stability"] is None
    assert said["foreign_stability"]["worst_seed"] == 0.5
    text = comment(verdict, badges)
    assert "stability: foreign logs" in text
    assert "| stability (foreign logs) | value | what it is |" in text
    assert "a log of trl names no protocol" in text


@pytest.mark.slow
def test_the_board_keeps_them_apart(made: Path) -> None:
    verdict = check(made / "20260102_trl")
    assert verdict.entry is not None
    row = row_of(verdict.entry, badges_of(verdict, {}), ())
    assert (row.stability, row.curves, row.sparks) == (None, (), ())
    assert "stability: foreign logs" in shown_badges(row)
    assert "stability: logs" not in shown_badges(row)
    values = {column.name: column.value(Line(row, (), None)) for column in COLUMNS}
    assert values["worst_seed"] is None
    assert values["foreign_worst_seed"] == 0.5


def without(number: int) -> Any:
    """Remove a checkpoint's log."""

    def change(said: Json) -> None:
        said["checkpoints"][number]["foreign_log"] = None
        path = f"training/s{number}.log.zst"
        said["files"] = [file for file in said["files"] if file["path"] != path]

    return change


@pytest.mark.slow
def test_all_seeds_have_a_log_or_none(copy: Copy) -> None:
    (copy.folder / "training/s1.log.zst").unlink()
    copy.about(without(1))
    (finding,) = check(copy.folder).findings
    assert finding.problem == "seeds [1] have no log of trl"


@pytest.mark.slow
def test_one_log_for_two_trainings(copy: Copy) -> None:
    copy.write("training/s1.log.zst", copy.read("training/s0.log.zst"))
    (finding,) = check(copy.folder).findings
    assert finding.text.startswith(
        "training/s1.log.zst: 3 updates have the same numbers as training/s0.log.zst"
    )


@pytest.mark.slow
def test_the_log_of_another_entry(made: Path, copy: Copy) -> None:
    verdict = check(made / "20260102_trl")
    assert verdict.entry is not None
    texts = [
        finding.text for finding in check(copy.folder, [AcceptedEntry.of(verdict.entry)]).findings
    ]
    wanted = "3 updates have the same numbers as 20260102_trl/training/s0.log.zst"
    assert any(wanted in text for text in texts)


@pytest.mark.slow
def test_a_log_without_validations(copy: Copy) -> None:
    def change(said: Json) -> None:
        for point in said["checkpoints"]:
            point["foreign_log"]["meanings"] = []

    copy.about(change)
    first, other = check(copy.folder).findings
    assert (first.file, other.file) == ("training/s0.log.zst", "training/s1.log.zst")
    assert first.problem == "has no validation success, from which no stability can be computed"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"not a log", "not JSON: Expecting value at column 1"),
        (b'{"log_history": [{"step": -1}]}', "log_history[0]: the step is -1"),
        (b'{"log_history": [{"step": 0, "%s": 50.0}]}' % SOLVED.encode(), "not in percent"),
        (b"\x80\x04}.", "is not UTF-8"),
    ],
)
def test_what_is_no_log(copy: Copy, content: bytes, problem: str) -> None:
    copy.write("training/s0.log.zst", content)
    (finding,) = check(copy.folder).findings
    assert finding.file == "training/s0.log.zst"
    assert problem in finding.problem
    assert "/tmp" not in finding.text


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"format": "pickle"}, "foreign_log.format"),
        ({"files": ["training/s0.log.zst", "training/s1.log.zst"]}, "is one file"),
        ({"files": []}, "foreign_log.files"),
        ({"meanings": ["validation/succes=x"]}, "did you mean validation/success"),
        ({"meanings": ["a\u202eb=x"]}, "U+202E is not a visible character"),
        ({"weights": "x"}, "foreign_log.weights"),
    ],
)
def test_what_submission_json_cannot_say(copy: Copy, change: Json, problem: str) -> None:
    copy.about(lambda said: said["checkpoints"][0]["foreign_log"].update(change))
    assert any(problem in finding.text for finding in check(copy.folder).findings)


def test_two_logs_of_one_training(copy: Copy) -> None:
    copy.about(lambda said: said["checkpoints"][0].update(training_log="training/s0.jsonl.zst"))
    texts = [finding.text for finding in check(copy.folder).findings]
    assert any("a training has one log" in text for text in texts)


@pytest.mark.parametrize(
    ("logs", "meanings", "problem"),
    [
        (("log-0",), [MAP], "there are runs of 2 checkpoints but 1 training logs"),
        (("log-0", "log-1"), ["validation/success=eval_solved"], "no values for 'eval_solved'"),
        (
            ("log-0", "log-1"),
            [],
            rf"no validation success: give its field .*, perhaps {SOLVED}, or",
        ),
        ((), [MAP], "there is no log of another trainer"),
        (("nothing", "log-1"), [MAP], "nothing does not exist"),
    ],
)
def test_what_cannot_be_sent(
    made: Path, logs: tuple[str, ...], meanings: list[str], problem: str
) -> None:
    runs = [made / "run-0", made / "run-1"]
    with pytest.raises(UserError, match=problem):
        parts_of(runs, [made / log for log in logs], [0, 1], meanings)
