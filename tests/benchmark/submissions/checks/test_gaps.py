"""Seeds of an entry: which ones are missing, and in which settings they may differ."""

import pytest

from benchmark.submissions.checks.logs import gaps_of
from tests.benchmark.submissions.conftest import Copies
from tests.benchmark.submissions.tampering.forged_trainings import Lines
from tests.support.submissions.small import check


@pytest.mark.parametrize(
    ("seeds", "said"),
    [
        ([0, 1, 2], None),
        ([1, 0], None),
        ([0], None),
        ([7], "the seeds are 7, not 0"),
        ([2, 0], "the seeds are 0, 2, not 0 to 1"),
        # Three of ten, perhaps the best ones.
        ([3, 4, 9], "the seeds are 3, 4, 9, not 0 to 2"),
        ([0, 2**62], f"the seeds are 0, {2**62}, not 0 to 1"),
        (list(range(1, 12)), "the seeds are 1, 2, 3, 4, 5, 6, 7, 8, ..., not 0 to 10"),
    ],
)
def test_seeds_that_are_not_the_first_are_named(seeds: list[int], said: str | None) -> None:
    assert gaps_of(seeds) == (said and f"{said}; reviewers may ask about others")


def test_seeds_may_differ_in_settings_that_change_no_result(copies: Copies) -> None:
    """The second one ran with less memory."""

    def smaller(lines: Lines) -> None:
        configuration = lines[0]["configuration"]
        configuration["checkpoint_every"] = 1
        optimization = configuration.setdefault("optimization", {})
        optimization |= {"micro_batch_tokens": 2048, "gradient_checkpointing": True}

    copy = copies("trained")
    copy.log(smaller, 1)
    texts = [finding.text for finding in check(copy.folder).findings]
    assert not any("other settings than" in text for text in texts), texts
    copy.log(lambda lines: lines[0]["configuration"]["optimization"].update(epochs=2), 1)
    texts = [finding.text for finding in check(copy.folder).findings]
    assert any("has other settings than" in text for text in texts)
