"""Badges are computed from what was checked, except for the one that maintainers award."""

from pathlib import Path

import pytest

from benchmark.submissions.badges import Badges, badges_of
from benchmark.submissions.reading.reruns import RERUN, Rerun, read_reruns
from tasks.errors import UserError
from tests.benchmark.submissions.conftest import Copies
from tests.benchmark.submissions.tampering.forged_records import flipped_success
from tests.support.submissions.small import Json, check, trainer_line
from tests.support.training.logs import Line

LINE = (
    "20260102_policy:\n- date: '2026-03-01'\n  by: maintainers\n  note: the same within 1 point\n"
)
OWN = {"name": "mine", "kind": "folder", "revision": None, "sha256": "5" * 64}


def test_a_policy_has_no_logs_and_no_init(policy: Path) -> None:
    assert badges_of(check(policy), {}) == Badges(True, "none", None, False)


@pytest.mark.slow
def test_a_training_from_a_registered_init(trained: Path) -> None:
    assert badges_of(check(trained), {}) == Badges(True, "logs", "fixed", False)


@pytest.mark.slow
def test_a_training_from_something_else(copies: Copies) -> None:
    copy = copies("trained")
    copy.about(lambda about: about.update(init=OWN))
    for seed in (0, 1):
        copy.log(lambda lines: lines[0].update(init=OWN), seed)
    assert badges_of(check(copy.folder), {}) == Badges(True, "logs", "open", False)


@pytest.mark.slow
def test_a_training_without_logs(copies: Copies) -> None:
    def change(about: Json) -> None:
        for point in about["checkpoints"]:
            point["training_log"] = None
        about["files"] = [file for file in about["files"] if "training" not in file["path"]]

    copy = copies("trained")
    for seed in (0, 1):
        (copy.folder / f"training/s{seed}.jsonl.zst").unlink()
    copy.about(change)
    assert badges_of(check(copy.folder), {}) == Badges(True, "none", "fixed", False)


@pytest.mark.slow
def test_logs_without_validations_say_nothing_of_stability(copies: Copies) -> None:
    """The configuration disables validations: such a log is complete, but proves nothing."""
    copy = copies("trained")

    def change(lines: list[Line]) -> list[Line]:
        trainer_line(lines[0], updates=20, every=None)
        return [line for line in lines if line["kind"] != "validation"]

    for seed in (0, 1):
        copy.log(change, seed)
    assert badges_of(check(copy.folder), {}) == Badges(True, "none", "fixed", False)


@pytest.mark.slow
def test_a_training_from_an_init_whose_hash_nobody_has_pinned(copies: Copies) -> None:
    """The entry identifies its weights; the log uses the registry's name for them."""
    copy = copies("trained")
    named = {**OWN, "name": "unpinned", "kind": "init"}
    copy.about(lambda about: about.update(init={**OWN, "name": "a/b", "kind": "folder"}))
    for seed in (0, 1):
        copy.log(lambda lines: lines[0].update(init=named), seed)
    assert badges_of(check(copy.folder), {}) == Badges(True, "logs", "open", False)


@pytest.mark.slow
def test_what_is_not_accepted_has_no_badges(copies: Copies) -> None:
    copy = copies("trained")
    flipped_success(copy)
    with pytest.raises(ValueError, match="has no badges"):
        badges_of(check(copy.folder), {})


@pytest.mark.slow
def test_maintainers_say_what_they_have_repeated(tmp_path: Path, policy: Path) -> None:
    assert read_reruns(tmp_path) == {}
    (tmp_path / RERUN).write_text("")
    assert read_reruns(tmp_path) == {}
    (tmp_path / RERUN).write_text(LINE)
    reruns = read_reruns(tmp_path)
    said = Rerun(date="2026-03-01", by="maintainers", note="the same within 1 point")
    assert reruns == {"20260102_policy": (said,)}
    assert badges_of(check(policy), reruns) == Badges(True, "none", None, True)
    assert not badges_of(check(policy), {"20260102_other": (said,)}).rerun


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (LINE + "  extra: 1\n", "20260102_policy.0.extra: Extra inputs are not permitted"),
        ("20260102_policy: true\n", "20260102_policy: "),
        ("- 20260102_policy\n", "reruns.yaml: Input should be"),
        ("a: [", "reruns.yaml, line 1, column 5 is not valid YAML: "),
        (LINE + f"  submission_sha256: {'g' * 64}\n", "20260102_policy.0.submission_sha256: "),
    ],
)
def test_a_wrong_file_of_reruns_is_named(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / RERUN).write_text(content)
    with pytest.raises(UserError, match=message):
        read_reruns(tmp_path)


def test_a_submission_cannot_bring_the_file_along(copies: Copies) -> None:
    copy = copies("policy")
    (copy.folder / RERUN).write_text(LINE)
    (finding,) = check(copy.folder).findings
    assert finding.text.startswith("reruns.yaml: belongs to no run and no checkpoint")
