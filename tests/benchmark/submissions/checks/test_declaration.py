"""Compares a submission's declaration with logs, tasks and inits."""

from pathlib import Path
from typing import Any

import pytest

from benchmark.submissions.check import check_submission, read_accepted
from benchmark.submissions.checks.context import Context
from benchmark.submissions.checks.declaration import check_declaration
from tests.support.submissions.small import INITS, copied

SHIPPED = {"tiny-sokoban": 442_272}


def findings(trained: Path, to: Path, **changes: Any) -> list[str]:
    """The findings for a trained submission with changed statements."""
    copy = copied(trained, to)
    streams = changes.pop("streams", None)
    copy.about(lambda fields: fields.update(changes))
    if streams is not None:
        copy.about(lambda fields: fields["training_data"].update(training_streams=streams))
    entry = read_accepted(copy.folder)
    return [finding.text for finding in check_declaration(entry, Context(INITS, shipped=SHIPPED))]


def test_a_true_declaration_is_taken(trained: Path, policy: Path, tmp_path: Path) -> None:
    assert findings(trained, tmp_path) == []
    assert list(check_declaration(read_accepted(policy), Context(INITS, shipped=SHIPPED))) == []
    streams = ["webshop", "sokoban"]
    assert findings(trained, tmp_path / "more", streams=streams) == []


@pytest.mark.parametrize(
    ("streams", "said"),
    [
        (["sokoban", "webshp"], "there is no task 'webshp'; did you mean webshop?; use the names "),
        (["webshop"], "sokoban is missing, but training/s0.jsonl.zst is from training on it; "),
        ([], "sokoban is missing, but training/s0.jsonl.zst is from training on it; add sokoban"),
    ],
)
def test_streams_are_tasks_and_those_of_the_logs(
    trained: Path, tmp_path: Path, streams: list[str], said: str
) -> None:
    (text,) = findings(trained, tmp_path, streams=streams)
    assert text.startswith(f"submission.json, training_data.training_streams: {said}")


def test_base_and_size_are_those_of_a_shipped_init(trained: Path, tmp_path: Path) -> None:
    assert findings(trained, tmp_path, base_model="Qwen3-4B", parameters=4_000_000_000) == [
        "submission.json, base_model: Qwen3-4B, but the weights come from the init tiny-sokoban; "
        "write tiny-sokoban",
        "submission.json, parameters: 4,000,000,000, the init tiny-sokoban has 442,272 weights; "
        "write 442272",
    ]


def test_of_other_starts_nothing_is_known(trained: Path, tmp_path: Path) -> None:
    init = {"name": "mine", "kind": "folder", "revision": None, "sha256": "0" * 64}
    assert findings(trained, tmp_path, init=init, base_model="Qwen3-4B") == []


def test_the_check_asks_for_it(trained: Path, tmp_path: Path) -> None:
    copy = copied(trained, tmp_path)
    copy.about(lambda fields: fields.update(parameters=1))
    verdict = check_submission(copy.folder, Context(INITS, shipped=SHIPPED, replay=False))
    assert [finding.field for finding in verdict.findings] == ["parameters"]
    assert verdict.replayed == 0


def test_code_in_a_readme_is_no_markup(trained: Path, tmp_path: Path) -> None:
    copy = copied(trained, tmp_path)
    text = (
        "# Mine\n\n`array![1]`, <https://example.org>, 1 < 2 and\n\n```\n<weights of seed 0>\n```\n"
    )
    copy.write("README.md", text.encode())
    assert read_accepted(copy.folder).folder == copy.folder


def test_reviewers_are_told_what_a_readme_claims(trained: Path, tmp_path: Path) -> None:
    copy = copied(trained, tmp_path)
    context = Context(INITS, shipped=SHIPPED)
    assert not list(check_declaration(read_accepted(copy.folder), context)) and not context.notes
    text = "# Mine\n\nVerified by the maintainers.\nIt solves 99.9% of\nall levels, re-run\n5%\n"
    copy.write("README.md", text.encode())
    assert not list(check_declaration(read_accepted(copy.folder), context))
    said = "only the board says such things"
    assert context.notes == [
        f"README.md, line 3, says 'Verified': {said}",
        f"README.md, line 4, says '99.9%': {said}",
        f"README.md, line 5, says 're-run': {said}",
    ]
