"""Forgeries: each is rejected, with a message that names its place."""

import pytest

from benchmark.submissions.report import comment, verdict_json
from tests.benchmark.submissions.conftest import Copies
from tests.benchmark.submissions.tampering import (
    forged_contradictions,
    forged_files,
    forged_logs,
    forged_models,
    forged_progress,
    forged_records,
    forged_runs,
    forged_texts,
    forged_trainings,
)
from tests.benchmark.submissions.tampering.forgery import Forgery
from tests.support.submissions.small import check

FORGERIES = [
    *forged_records.FORGERIES,
    *forged_runs.FORGERIES,
    *forged_files.FORGERIES,
    *forged_texts.FORGERIES,
    *forged_models.FORGERIES,
    *forged_logs.FORGERIES,
    *forged_trainings.FORGERIES,
    *forged_contradictions.FORGERIES,
    *forged_progress.FORGERIES,
]


@pytest.mark.slow
@pytest.mark.parametrize("forgery", FORGERIES, ids=lambda forgery: forgery.name)
def test_a_forgery_is_rejected(forgery: Forgery, copies: Copies) -> None:
    copy = copies(forgery.base)
    forgery.change(copy)
    verdict = check(copy.folder)
    texts = [finding.text for finding in verdict.findings]
    assert any(forgery.message in text for text in texts), texts
    assert not verdict.accepted
    assert all(text.isprintable() for text in texts)
    assert verdict_json(verdict, None).isascii()
    assert "Rejected" in comment(verdict, None)


def test_the_table_is_long_and_no_forgery_is_there_twice() -> None:
    assert len({forgery.name for forgery in FORGERIES}) == len(FORGERIES) >= 100
