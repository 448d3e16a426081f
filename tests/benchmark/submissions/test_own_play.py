"""If maintainers have rerun an entry's weights, it is not a copy of others that play like it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmark.submissions.check import read_accepted
from benchmark.submissions.checks.accepted_entries import AcceptedEntry, AcceptedRun
from benchmark.submissions.checks.context import Context
from benchmark.submissions.checks.copies import check_copies, check_run
from benchmark.submissions.reading.reruns import Reruns
from tests.benchmark.submissions.conftest import Copies
from tests.benchmark.submissions.stolen import other_logs, other_numbers, renamed, with_answers
from tests.support.submissions.small import INITS, Copy, rerun_record


@pytest.mark.slow
def test_what_was_played_alike_is_accepted_once_its_weights_have_played_it_again(
    copies: Copies, trained: Path
) -> None:
    copy = copies("trained")
    renamed(copy)
    other_logs(copy)
    others = [AcceptedEntry.of(read_accepted(trained))]

    def found(reruns: Reruns) -> list[bool]:
        """Whether each objection can be resolved by a rerun."""
        context = Context({}, others, reruns=reruns)
        return [each.until_rerun for each in check_copies(read_accepted(copy.folder), context)]

    # Equal log-probabilities mean equal weights, whoever reruns them.
    assert found(rerun_record(copy.folder)) == [False, False]
    other_numbers(copy, lambda value: value * 3)
    assert found({}) == [True, True]
    for changes in ({"equal": 28}, {"count": 31}, {"greedy": False}, {"holds": False}):
        assert found(rerun_record(copy.folder, **changes)) == [True, True], changes
    (record,) = rerun_record(copy.folder)[copy.folder.name]
    unsigned = record.model_copy(update={"submission_sha256": None})
    assert found({copy.folder.name: (unsigned,)}) == [True, True]
    settled = rerun_record(copy.folder)
    assert found(settled) == []
    name, by_hand = copy.folder.name, record.model_copy(update={"sample": None})
    (failed,) = rerun_record(copy.folder, holds=False)[name]
    # A note by hand revokes nothing. Of reruns of episodes, the last one decides.
    assert found({name: (record, by_hand)}) == []
    assert found({name: (record, failed)}) == [True, True]
    assert found({name: (failed, record)}) == []
    copy.about(lambda about: about.update(contact="Someone else"))
    assert found(settled) == [True, True]


@pytest.mark.slow
def test_a_rerun_excuses_no_seed_that_plays_like_another(trained: Path) -> None:
    """A model with added noise plays like the original: it is not a second training run."""
    first, second = (AcceptedRun.of(run) for run in read_accepted(trained).runs)
    twin = replace(second, plays=first.plays)
    (found,) = check_run(twin, first, first.path)
    assert not found.until_rerun
    (found,) = check_run(twin, first, "another/runs/r0", own=())
    assert found.until_rerun
    assert not list(check_run(twin, first, "x", own={("runs/r1", "sokoban", "builtin")}))
    drawn = replace(twin, greedy=frozenset())
    (found,) = check_run(drawn, first, "another/runs/r0", own=())
    assert not found.until_rerun


@pytest.mark.slow
def test_a_policys_answers_are_the_weights_own_once_they_have_played_again(
    policy: Path, copies: Copies
) -> None:
    copy = copies("trained")
    expert = [json.loads(x) for x in Copy(policy).read("runs/r0/episodes.jsonl.zst").splitlines()]
    for seed in (0, 1):
        copy.records(lambda records: with_answers(records, expert), f"runs/r{seed}")
    others = [AcceptedEntry.of(read_accepted(policy))]
    context = Context(INITS, others, reruns=rerun_record(copy.folder))
    texts = [finding.text for finding in check_copies(read_accepted(copy.folder), context)]
    assert not [text for text in texts if "policy expert" in text]
    assert context.notes == []
