"""The numbers of a submission, calculated by hand from a few plays."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmark.evaluation.protocol import PanelProtocol
from benchmark.evaluation.summarize import summarize
from benchmark.logs.training_log import read_training_log
from benchmark.models import ModelIdentity
from benchmark.stats.intervals import clustered_wilson
from benchmark.stats.paired import Side, difference
from benchmark.stats.survival import EventOutcome
from benchmark.submissions.checks.results import (
    Agreement,
    TrainingResult,
    early_stops,
    paired_difference,
    panel_results,
    stability_of,
)
from benchmark.submissions.format.schema import Checkpoint, Submission
from benchmark.submissions.reading.entry import Entry, ReadCheckpoint, ReadRun
from tasks.seeding import sha256_text
from tests.support.runs.factories import TASKS, make_manifest, make_protocol, make_record, make_turn
from tests.support.submissions.small import about, trainer_line
from tests.support.training.logs import (
    run_lines,
    start_line,
    update_line,
    validation_line,
    write_log,
)

KEY = ("sokoban", "builtin")
Plays = Mapping[str, str]
"""Outcomes of a checkpoint: episode to + (solved), - (failed) or ! (error), one per repeat."""


def checkpoint(
    seed: int, plays: Plays, protocol: PanelProtocol | None = None, log: Path | None = None
) -> ReadCheckpoint:
    """A checkpoint that has played four episodes."""
    manifest = make_manifest(protocol or make_protocol(), model=f"m{seed}")
    records = [
        make_record(
            episode,
            outcome == "+",
            repeat=repeat,
            turns=[make_turn(format_ok=outcome == "+")] * (2 if outcome == "+" else 3),
            error="EngineError: x" if outcome == "!" else None,
        )
        for episode, outcomes in plays.items()
        for repeat, outcome in enumerate(outcomes)
    ]
    run = ReadRun(f"runs/r{seed}", manifest, tuple(records), summarize(manifest, records, TASKS))
    model = ModelIdentity(name=f"m{seed}", kind="folder", sha256=sha256_text(f"m{seed}"))
    named = Checkpoint(seed=seed, model=model, runs=(f"runs/r{seed}",))
    return ReadCheckpoint(named, (run,), read_training_log(log) if log else None)


def entry(*checkpoints: ReadCheckpoint) -> Entry:
    named = [point.checkpoint.model_dump() for point in checkpoints]
    said = Submission.model_validate({**about("trained"), "checkpoints": named, "files": []})
    return Entry(Path("20260102_trained"), said, checkpoints)


def test_one_checkpoint_is_what_its_summary_says() -> None:
    (result,) = panel_results(
        entry(checkpoint(3, {"a": "+", "b": "-", "c": "+", "d": "!"}))
    ).values()
    assert result.seeds == {3: 0.5}
    assert result.success.value == 0.5
    assert result.success.episodes == 4
    # Wilson's interval of 2 of 4.
    assert (result.success.low, result.success.high) == pytest.approx((0.15004, 0.84996), abs=1e-5)
    assert result.errors == 1
    # The error counts as the longest episode: 15 turns.
    assert result.turns == (2 + 3 + 2 + 15) / 4
    assert result.format_valid == 4 / 10


def test_seeds_are_shown_and_averaged() -> None:
    one = checkpoint(0, {"a": "+", "b": "+", "c": "+", "d": "-"})
    two = checkpoint(1, {"a": "+", "b": "-", "c": "-", "d": "-"})
    (result,) = panel_results(entry(one, two)).values()
    assert result.seeds == {0: 0.75, 1: 0.25}
    assert result.success.value == 0.5
    assert result.over_episodes == clustered_wilson([2, 1, 1, 0], [2, 2, 2, 2])
    # Two seeds that are 50 points apart determine nothing.
    assert (result.success.low, result.success.high) == (0, 1)
    assert result.success.episodes == 4
    assert result.turns == ((2 + 2 + 2 + 3) / 4 + (2 + 3 + 3 + 3) / 4) / 2
    assert result.format_valid == (6 / 9 + 2 / 11) / 2
    assert result.errors == 0


def test_repeats_are_plays_of_one_episode() -> None:
    protocol = make_protocol(episodes=2, repeats=2)
    (result,) = panel_results(entry(checkpoint(0, {"a": "+-", "b": "++"}, protocol))).values()
    assert result.success.value == 0.75
    expected = clustered_wilson([1, 2], [2, 2])
    assert (result.success.low, result.success.high) == (expected.low, expected.high)


def test_an_error_is_a_failure_in_a_comparison_too() -> None:
    mine = entry(checkpoint(0, {"a": "+", "b": "+", "c": "!", "d": "-"}))
    theirs = entry(checkpoint(0, {"a": "+", "b": "-", "c": "+", "d": "-"}))
    found = paired_difference(mine, theirs, KEY)
    assert found is not None
    # Differences 0, 1, -1, 0: mean 0, with perfectly balanced signs.
    assert (found.difference.value, found.p_value, found.episodes) == (0.0, 1.0, 4)


def test_a_comparison_is_over_the_means_of_the_seeds() -> None:
    seeds = (checkpoint(0, {"a": "+", "b": "+"}), checkpoint(1, {"a": "+", "b": "-"}))
    found = paired_difference(entry(*seeds), entry(checkpoint(0, {"a": "-", "b": "-"})), KEY)
    assert found is not None
    # Differences 1 and 1/2; two of the four sign patterns have a mean as far from 0.
    assert found.difference.value == 0.75
    assert (found.p_value, found.episodes) == (0.5, 2)
    sides = Side.of([[True, True], [True, False]], (1.0, 0.5)), Side.of([[False], [False]], (0.0,))
    assert found.difference == difference(*sides)


def test_other_protocols_and_other_panels_are_not_compared() -> None:
    mine = entry(checkpoint(0, {"a": "+"}))
    other = entry(checkpoint(0, {"a": "+"}, make_protocol(max_turns=30)))
    assert paired_difference(mine, other, KEY) is None
    assert paired_difference(mine, mine, ("sokoban", "two_boxes")) is None


def test_an_episode_that_one_has_not_played_is_left_out() -> None:
    found = paired_difference(
        entry(checkpoint(0, {"a": "+", "b": "+"})), entry(checkpoint(0, {"b": "-"})), KEY
    )
    assert found is not None
    assert (found.difference.value, found.episodes) == (1.0, 1)


def test_stability_needs_the_logs_of_all_seeds(tmp_path: Path) -> None:
    log = write_log(tmp_path / "a.jsonl", run_lines(seed=0))
    first = checkpoint(0, {"a": "+"}, log=log)
    assert stability_of(entry(checkpoint(0, {"a": "+"}))) is None
    assert stability_of(entry(first, checkpoint(1, {"a": "+"}))) is None
    assert stability_of(entry(first)) is not None


def test_stability_is_that_of_the_logs(tmp_path: Path) -> None:
    """One seed ends at its best; the other falls to 0 and stays there."""
    points = []
    for seed, solved in enumerate([(64, 128, 128, 128, 128, 128), (64, 128, 0, 0, 0, 0)]):
        lines = [start_line(seed=seed), *(validation_line(n, s) for n, s in enumerate(solved))]
        log = write_log(tmp_path / f"{seed}.jsonl", lines)
        points.append(checkpoint(seed, {"a": "+"}, log=log))
    stability = stability_of(entry(*points))
    assert stability is not None
    columns = stability.columns
    assert columns["collapse_rate"] == 0.5
    assert columns["worst_seed"] == 0.0
    # Drawdowns 0 and 1/2.
    assert columns["max_drawdown"] == 0.25
    assert columns["mismatch_p95"] is None


def test_a_training_that_was_stopped_early_has_collapsed(tmp_path: Path) -> None:
    """Two of three finish; one is stopped because the spread within its groups is gone."""
    points = []
    for seed, last in enumerate((30, 30, 20)):
        lines = [trainer_line(start_line(seed=seed), updates=30, every=10)]
        for number in range(last + 1):
            spread = 0.05 if seed == 2 and number > 10 else 1.0
            lines += [update_line(number, {"rollout/group_std": spread})] if number else []
            lines += [] if number % 10 else [validation_line(number)]
        path = write_log(tmp_path / f"{seed}.jsonl", lines)
        points.append(checkpoint(seed, {"a": "+"}, log=path))
    made = entry(*points)
    (stop,) = early_stops(made).items()
    assert stop[0] == 2
    assert stop[1].startswith("returns within groups hardly differ")
    stability = stability_of(made)
    assert stability is not None
    assert [run.collapse for run in stability.runs] == [
        EventOutcome(30, False),
        EventOutcome(30, False),
        EventOutcome(20, True),
    ]
    assert stability.columns["collapse_rate"] == pytest.approx(1 / 3)
    assert (stability.events["collapse"].happened, stability.events["collapse"].known) == (1, 3)
    assert stability.survival is not None
    assert stability.survival.at(20) == pytest.approx(2 / 3)
    assert early_stops(entry(*points[:2])) == {}


@pytest.mark.parametrize(
    ("solved", "agreement"),
    [
        ((1, 2, 4, 3), Agreement((1,), 3, 0.0, ("sokoban/builtin",))),
        ((0, 2, 4, 2), Agreement((1, 3), 3, 0.0, ("sokoban/builtin",))),
        ((0, 3, 4, 4), Agreement((1,), 3, -0.25, ("sokoban/builtin",))),
    ],
)
def test_a_checkpoint_is_held_against_every_validation(
    tmp_path: Path, solved: tuple[int, ...], agreement: Agreement
) -> None:
    """It solves two of four episodes."""
    fingerprint = make_protocol().fingerprint
    lines = [trainer_line(start_line("sampo"), updates=5, every=1)]
    for number, count in enumerate(solved):
        lines += [update_line(number)] if number else []
        lines.append(validation_line(number, count, 4, fingerprint=fingerprint))
    log = write_log(tmp_path / "a.jsonl", lines)
    plays = {"a": "+", "b": "-", "c": "+", "d": "-"}
    point = checkpoint(0, plays, log=log)
    assert point.log is not None
    assert TrainingResult.of(point, point.log) == TrainingResult("sampo", 3, 5, 4, agreement)
    other = checkpoint(0, plays, make_protocol(max_turns=30), log)
    assert TrainingResult.of(other, point.log).agreement is None
