"""Documents the limits of the check: these forgeries are accepted.

A replay proves that the recorded actions earn the recorded rewards. No program can tell from the
folder alone who chose the actions, or whether a log is from a real training run. The badges claim
no more than that; `arlarena-bench audit` with the released weights and `re-run` by maintainers go
further.
"""

from pathlib import Path

import pytest

from benchmark.stats.intervals import wilson
from benchmark.submissions.check import read_accepted
from benchmark.submissions.checks.accepted_entries import AcceptedEntry
from tests.benchmark.submissions.conftest import Copies, OtherPlays
from tests.benchmark.submissions.stolen import other_logs, other_numbers, renamed
from tests.support.submissions.small import Copy, Json, check, trainer_line
from tests.support.training.logs import Line


@pytest.mark.slow
def test_a_log_whose_counts_are_forged_consistently(copies: Copies) -> None:
    """Every rate is a count and has its interval, so there are no contradictions."""

    def change(lines: list[Line]) -> None:
        for line in lines:
            if line["kind"] == "validation" and line["update"]:
                solved = max(150, round(256 * line["success"]))
                interval = wilson(solved, 256)
                line |= {"success": interval.value, "score": interval.value}
                line |= {"wilson_low": interval.low, "wilson_high": interval.high}

    copy = copies("trained")
    copy.log(change)
    assert check(copy.folder).accepted


@pytest.mark.slow
def test_a_log_without_the_failures_of_its_engine(copies: Copies) -> None:
    """Numbers that are not counts can have any value within their range."""
    copy = copies("trained")

    def change(lines: list[Line]) -> None:
        for line in lines:
            line.pop("engine/k3", None)

    copy.log(change)
    assert check(copy.folder).accepted


@pytest.mark.slow
def test_a_log_that_ends_early_with_a_configuration_that_does(copies: Copies) -> None:
    """Only the configuration states the planned length of a run."""
    copy = copies("trained")

    def change(lines: list[Line]) -> list[Line]:
        trainer_line(lines[0], updates=11, every=5)
        due = (0, 5, 10, 11)
        return [
            line
            for line in lines
            if line["kind"] == "start"
            or (line["update"] <= 11 and (line["kind"] == "update" or line["update"] in due))
        ]

    for seed in (0, 1):
        copy.log(change, seed)
    played_in_bf16(copy)
    assert check(copy.folder).accepted


def played_in_bf16(copy: Copy) -> None:
    """Declare bf16, with which plays need not match those of a validation exactly."""
    for run in ("runs/r0", "runs/r1"):
        copy.manifest(lambda manifest: manifest["engine"].update(dtype="bfloat16"), run)


@pytest.mark.slow
def test_a_log_of_another_entry_with_every_number_changed(
    copies: Copies, trained: Path, other_plays: OtherPlays
) -> None:
    """The same holds for log-probabilities, weights, and a sixth of the plays."""
    copy = copies("trained")
    renamed(copy)
    other_numbers(copy, lambda value: value - 0.5)
    other_plays(copy, 0, 43)
    other_logs(copy)
    played_in_bf16(copy)
    assert check(copy.folder, [AcceptedEntry.of(read_accepted(trained))]).accepted


@pytest.mark.slow
def test_a_date_of_the_past(copies: Copies) -> None:
    """Runs and logs must be older, but their dates can be forged as well."""
    copy = copies("trained")
    copy.about(lambda about: about.update(date="1999-01-01"))
    for seed in (0, 1):
        copy.log(lambda lines: lines[0].update(created="1998-01-01T00:00:00Z"), seed)
        copy.manifest(lambda run: run.update(created="1998-01-01T00:00:00Z"), f"runs/r{seed}")
    copy = Copy(copy.folder.rename(copy.folder.with_name("19990101_trained")))
    assert check(copy.folder).accepted


@pytest.mark.slow
def test_answers_that_another_player_gave(copies: Copies) -> None:
    """The actions earn the rewards, but nothing proves that the named weights chose them."""

    def change(records: list[Json]) -> None:
        for record in records:
            for turn in record["turns"]:
                turn["response"] = f"<think>I see</think><action>{turn['action']}</action>"
                turn["response_tokens"] = 12
                turn["log_prob"] *= 1.001

    copy = copies("trained")
    copy.records(change)
    assert check(copy.folder).accepted


@pytest.mark.slow
def test_a_description_that_is_not_true(copies: Copies) -> None:
    def change(about: Json) -> None:
        about["parameters"] = 1
        about["method"]["description"] = "No model has ever been trained so well."
        about["training_data"]["statement"] = "No game was ever played."

    copy = copies("trained")
    copy.about(change)
    assert check(copy.folder).accepted
