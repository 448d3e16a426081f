"""The entries of this repository, made at any time, hold under the present code."""

from itertools import islice
from pathlib import Path

import pytest

from benchmark.evaluation.replay import replay_run
from benchmark.submissions.check import read_accepted

SUBMISSIONS = Path(__file__).parents[3] / "submissions"
REPLAYED = 3
"""Episodes of the first run that are executed again: with many entries more would take minutes.
`submit check` executes all, of all runs."""


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "folder", sorted(SUBMISSIONS.glob("2*")), ids=lambda folder: folder.name.partition("_")[2]
)
def test_episodes_of_an_entry_are_those_of_its_records(folder: Path) -> None:
    runs = read_accepted(folder).runs
    assert all(run.records for run in runs)
    for replay in replay_run(runs[0].manifest, islice(runs[0].records, REPLAYED), 1):
        assert not replay.differences
        assert not replay.doubts
