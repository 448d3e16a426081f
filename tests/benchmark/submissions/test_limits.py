"""What the check cannot see, on purpose in the form of tests: these forgeries are accepted.

A replay proves that the recorded actions earn the recorded rewards. Who chose them, and whether a
log is of a real training, no program can tell from the folder alone. The badges say no more than
that; `arlarena-bench audit` with the released weights and `re-run` by maintainers go further.
"""

from benchmark.statistics import wilson
from tests.benchmark.submissions.conftest import Copies
from tests.submissions import Json, check
from tests.training_logs import Line


def test_a_log_whose_counts_are_forged_consistently(copies: Copies) -> None:
    """Every rate is a count and has its interval: nothing in it contradicts anything."""

    def change(lines: list[Line]) -> None:
        for line in lines:
            if line["kind"] == "validation":
                solved = max(150, round(256 * line["success"]))
                interval = wilson(solved, 256)
                line |= {"success": interval.value, "score": interval.value}
                line |= {"wilson_low": interval.low, "wilson_high": interval.high}

    copy = copies("trained")
    copy.log(change)
    assert check(copy.folder).accepted


def test_a_log_without_the_failures_of_its_engine(copies: Copies) -> None:
    """Numbers that are no counts can be anything within their range."""
    copy = copies("trained")

    def change(lines: list[Line]) -> None:
        for line in lines:
            line.pop("engine/k3", None)

    copy.log(change)
    assert check(copy.folder).accepted


def test_answers_that_another_player_gave(copies: Copies) -> None:
    """The actions earn the rewards; that the named weights chose them is what nobody has shown."""

    def change(records: list[Json]) -> None:
        for record in records:
            for turn in record["turns"]:
                turn["response"] = f"<think>I see</think><action>{turn['action']}</action>"
                turn["response_tokens"] = 12
                turn["log_prob"] *= 1.001

    copy = copies("trained")
    copy.records(change)
    assert check(copy.folder).accepted


def test_a_description_that_is_not_true(copies: Copies) -> None:
    def change(about: Json) -> None:
        about["parameters"] = 1
        about["training_data"]["training_streams"] = []

    copy = copies("trained")
    copy.about(change)
    assert check(copy.folder).accepted
