"""Partial copies: of one panel among several, and of entries with a later date."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmark.models import ModelIdentity
from benchmark.submissions.check import read_accepted
from benchmark.submissions.checks.accepted_entries import (
    AcceptedEntry,
    AcceptedLog,
    AcceptedRun,
    traces_of,
)
from benchmark.submissions.checks.context import Context
from benchmark.submissions.checks.copies import (
    as_policy,
    check_copies,
    check_run,
    check_taken,
)
from benchmark.submissions.plays.play_hash import EpisodeKey, PlayHash
from benchmark.submissions.training_logs.likeness import all_hashes, equal_updates
from tasks.seeding import sha256_text
from tests.benchmark.submissions.conftest import Copies
from tests.benchmark.submissions.stolen import renamed
from tests.support.submissions.small import INITS, rerun_record

PANELS = ("builtin", "two_boxes")
EARLIER, LATER = "20260101_theirs", "20260103_theirs"


def plays(first: int, count: int = 100) -> list[PlayHash]:
    """Episodes of which a fifth failed; two lists share only the episodes in which they overlap."""
    return [PlayHash(n, n, n % 5 > 0) for n in range(first, first + count)]


def run_on(
    panels: Mapping[str, Sequence[PlayHash]], name: str, *, traced: bool = False
) -> AcceptedRun:
    model = ModelIdentity(name=name, kind="folder", sha256=sha256_text(name))
    played: dict[EpisodeKey, PlayHash] = {
        ("sokoban", panel, str(number), 0): play
        for panel, there in panels.items()
        for number, play in enumerate(there)
    }
    traces = {key: (play.answers,) for key, play in played.items()} if traced else {}
    return AcceptedRun(f"runs/{name}", model, traces, played)


@pytest.mark.parametrize("panel", PANELS)
def test_own_plays_on_one_panel_do_not_hide_a_copy_of_another(panel: str) -> None:
    theirs = run_on({"builtin": plays(0), "two_boxes": plays(1000)}, "theirs")
    start = {"builtin": 0, "two_boxes": 1000}
    mine = run_on({p: plays(start[p] if p == panel else 5000) for p in PANELS}, "mine")
    (found,) = check_run(mine, theirs, "theirs")
    assert "100 of 100 episodes, 20 of 20 failures among them" in found.problem
    neither = run_on({p: plays(5000) for p in PANELS}, "mine")
    assert list(check_run(neither, theirs, "theirs")) == []


def test_panels_too_small_to_be_compared_are_compared_together() -> None:
    halves = {"builtin": plays(0, 40), "two_boxes": plays(1000, 40)}
    (found,) = check_run(run_on(halves, "mine"), run_on(halves, "theirs"), "theirs")
    assert "80 of 80 episodes" in found.problem
    alone = {"builtin": plays(0, 40)}
    assert list(check_run(run_on(alone, "mine"), run_on(alone, "theirs"), "theirs")) == []


def test_numbers_of_one_panel_are_not_diluted_by_others() -> None:
    theirs = replace(run_on({"builtin": plays(0)}, "theirs", traced=True), plays={})
    mine = run_on({"builtin": plays(0), "two_boxes": plays(5000, 200)}, "mine", traced=True)
    (found,) = check_run(mine, theirs, "theirs")
    assert "100 of 100 episodes have the answers and log-probabilities" in found.problem
    taken = {key for key in mine.traces if key[1] == "builtin"}
    (found,) = check_taken(mine, taken)
    assert "100 of 100 episodes have the answers" in found.problem
    assert list(check_taken(mine, sorted(taken)[:50])) == []


def test_a_policys_answers_on_one_panel_are_seen() -> None:
    program = replace(
        run_on({"builtin": plays(0)}, "p"), model=ModelIdentity(name="expert", kind="policy")
    )
    on_both = run_on({p: plays(9000) for p in PANELS}, "p")
    both = replace(program, plays={**on_both.plays, **program.plays})
    mine = run_on({"builtin": plays(0), "two_boxes": plays(5000)}, "mine")
    assert as_policy(mine, both) == "100 of 100"
    # An init's weights are public, and the easiest to rerun.
    init = ModelIdentity(name="tiny-sokoban", kind="init", sha256=sha256_text("init"))
    assert as_policy(replace(mine, model=init), both) == "100 of 100"
    assert as_policy(run_on({p: plays(5000) for p in PANELS}, "mine"), both) is None


def test_updates_of_a_longer_log_are_most_of_a_shorter_one() -> None:
    short = [np.arange(10 * n, 10 * n + 10) for n in range(20)]
    long = [*short, *(np.arange(10 * n, 10 * n + 10) for n in range(100, 130))]
    everything = np.concatenate(short)
    assert equal_updates(long, everything) == 0
    assert equal_updates(long, everything, 20) == 20
    assert equal_updates(long[10:], everything, 20) == 0


@pytest.mark.slow
@pytest.mark.parametrize("folder", [EARLIER, LATER])
@pytest.mark.parametrize("what", ["plays", "numbers", "log"])
def test_what_is_dated_before_another_makes_no_copy_of_it(
    copies: Copies, trained: Path, what: str, folder: str
) -> None:
    """It copies nothing from the other entry, but the board would exclude that one as a copy."""
    copy = copies("trained")
    renamed(copy)
    entry = read_accepted(copy.folder)
    known = AcceptedEntry.of(read_accepted(trained))
    path, first = next(iter(known.logs)), known.runs[0]
    none = replace(first, traces={}, plays={})
    logs: dict[str, AcceptedLog] = {}
    if what == "plays":
        # Thirty failures of this entry are successes of the other.
        failed = [key for key, play in first.plays.items() if not play.solved][:30]
        own = {key: PlayHash(-n, -n, True) for n, key in enumerate(failed, 1)}
        runs = (replace(none, plays={**first.plays, **own}),)
    elif what == "numbers":
        runs = (replace(none, traces=dict([*first.traces.items()][:100])),)
    else:
        # A log of eight updates, which equal the first ones of this entry's twenty.
        eight = traces_of(entry)[path][:8]
        runs, logs = (none,), {path: AcceptedLog(all_hashes(eight), len(eight))}
    other = replace(known, peer=replace(known.peer, folder=folder), runs=runs, logs=logs)
    found = check_copies(entry, Context(INITS, [other]))
    assert [finding.field for finding in found] == (["date"] if folder == LATER else [])
    for finding in found:
        assert f"is before that of {LATER}, which would then count as a copy" in finding.problem
    # An entry that maintainers have rerun stays on the board, whatever plays like it.
    settled = Context(INITS, [other], reruns=rerun_record(trained))
    stays = folder == LATER and what != "plays"
    assert [finding.field for finding in check_copies(entry, settled)] == ["date"] * stays
