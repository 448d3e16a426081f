"""The entries of this repository, whenever they were made, pass with the present code."""

from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest

from benchmark.evaluation.replay import Claim, claims_of, replay_records
from benchmark.submissions.check import read_accepted

SUBMISSIONS = Path(__file__).parents[3] / "submissions"
TASKS = ("alfworld", "sokoban", "tir_math", "webshop")
REPLAYED = 3
"""Episodes of the first run to replay: with many entries, more would take minutes. `submit check`
replays all episodes of all runs."""


@pytest.fixture(scope="module")
def claims() -> dict[str, list[tuple[str, Claim]]]:
    """The first episodes of every entry with its name, by the task of its first run."""
    found: dict[str, list[tuple[str, Claim]]] = {}
    for folder in sorted(SUBMISSIONS.glob("2*")):
        runs = read_accepted(folder).runs
        assert all(run.records for run in runs)
        for claim in claims_of(runs[0].manifest, islice(runs[0].records, REPLAYED)):
            found.setdefault(claim[0].task, []).append((folder.name, claim))
    assert set(found) == set(TASKS)
    return found


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("task", TASKS)
def test_episodes_of_entries_are_those_of_their_records(
    task: str, claims: dict[str, list[tuple[str, Claim]]]
) -> None:
    # All at once, since some tasks start a worker process first.
    with closing(replay_records([claim for _, claim in claims[task]], 1)) as replays:
        for (name, _), replay in zip(claims[task], replays, strict=True):
            assert not replay.differences, name
            assert not replay.doubts, name
