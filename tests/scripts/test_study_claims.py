"""The tiny study's numbers and verdicts, on invented logs that are worked out by hand."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.recipes import resolve
from benchmark.statistics import Interval, wilson
from scripts.study import AGGRESSIVE, GRID, RECIPES, STABLE, Run, final, tuned_rate, tuning
from scripts.study_claims import best_of_all, early_signs, gains, rescue
from scripts.study_numbers import difference, mean_of
from scripts.study_text import missing
from tasks.errors import UserError
from tasks.seeding import sha256_text
from tests.study_runs import (
    FALLEN,
    STEADY,
    aggressive,
    configuration,
    stable,
    study_of,
    tune,
    write_run,
)
from tests.training_logs import Line, start_line, update_line, validation_line, write_log

RATES = st.integers(0, 40).map(lambda solved: wilson(solved, 40))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [  # Newcombe (1998), table II, method 10, contrasts a, b and e
        ((56, 70), (48, 80), (0.2000, 0.0524, 0.3339)),
        ((9, 10), (3, 10), (0.6000, 0.1705, 0.8090)),
        ((10, 10), (0, 20), (1.0000, 0.6791, 1.0000)),
    ],
)
def test_difference_is_that_of_the_paper(
    first: tuple[int, int], second: tuple[int, int], expected: tuple[float, float, float]
) -> None:
    found = difference(wilson(*first), wilson(*second))
    assert (found.value, found.low, found.high) == pytest.approx(expected, abs=5e-5)


@given(RATES, RATES)
def test_difference_turns_its_sign_with_the_order(first: Interval, second: Interval) -> None:
    one, other = difference(first, second), difference(second, first)
    assert (one.value, one.low, one.high) == pytest.approx((-other.value, -other.high, -other.low))
    assert -1 - 1e-12 <= one.low < one.value + 1e-12 < one.high + 2e-12 <= 1 + 4e-12


def test_the_mean_of_intervals_is_that_of_their_ends() -> None:
    found = mean_of([Interval(0.5, 0.25, 0.5), Interval(0.25, 0.0, 1.0)])
    assert found == Interval(0.375, 0.125, 0.75)
    with pytest.raises(ValueError, match="no intervals"):
        mean_of([])


@pytest.mark.parametrize("success", [(0.4, 0.6, 0.5), (0.5, 0.4, 0.5), (0.1, 0.1, 0.2)])
def test_the_rate_is_the_one_that_the_study_takes(
    tmp_path: Path, success: tuple[float, ...]
) -> None:
    tune(tmp_path, "grpo", success=success)
    study = study_of(tmp_path, "grpo", "gspo")
    assert study.rates["grpo"] == tuned_rate("grpo", tmp_path) == GRID[success.index(max(success))]
    assert study.rates["gspo"] is None
    assert [trial.success for trial in study.trials["grpo"]] == pytest.approx(success)


def test_only_the_last_rollouts_decide_on_a_rate(tmp_path: Path) -> None:
    tune(tmp_path, "grpo", success=(0.3, 0.4, 0.2))
    run = tuning(["grpo"])[0]
    curve = [0.0] * 6 + [0.2, 0.4, 0.6, 0.8]  # the last four have a mean of .5
    lines = [start_line("grpo", run.seed, configuration=configuration(run))]
    lines += [update_line(n, {"rollout/success": v}) for n, v in enumerate(curve, 1)]
    write_log(run.folder(tmp_path), lines)
    study = study_of(tmp_path, "grpo")
    assert study.trials["grpo"][0].success == pytest.approx(0.5)
    assert study.rates["grpo"] == GRID[0]


@pytest.mark.parametrize(
    ("ends", "outcome", "sentence"),
    [
        # From 50 %: +37.5, +25 and +31.25 points.
        ((224, 192, 208), "Reproduced", "The whole interval lies at or above 10"),
        # +14.1 thrice; the interval's half width is 8.5.
        ((164, 164, 164), "Reproduced", "lies above 0 but not all of it above 10"),
        ((140, 140, 140), "Not reproduced", "does not lie above 0"),
        ((120, 100, 128), "Not reproduced", "does not lie above 0"),
        ((224, 224), "Not decided", "So far, 2 of 3 runs are finished."),
        ((), "Not decided", "No run of sampo is finished."),
    ],
)
def test_the_verdict_on_a_gain_follows_the_numbers(
    tmp_path: Path, ends: tuple[int, ...], outcome: str, sentence: str
) -> None:
    stable(tmp_path, "sampo", *ends)
    verdict = gains(study_of(tmp_path, "sampo"), "sampo")
    assert verdict.outcome == outcome
    assert sentence in verdict.evidence


def test_a_gain_is_shown_with_its_interval_and_seeds(tmp_path: Path) -> None:
    stable(tmp_path, "gspo", 192, 160, 160)
    study = study_of(tmp_path, "gspo", "grpo")
    evidence = gains(study, "gspo").evidence
    low = [result.gain.low for result in study.finished("stable", "gspo")]
    high = [result.gain.high for result in study.finished("stable", "gspo")]
    interval = f"+16.7 [{100 * sum(low) / 3:+.1f}, {100 * sum(high) / 3:+.1f}] points"
    assert interval in evidence
    assert "(+25.0, +12.5, +12.5 for each run)" in evidence
    assert "A run took 2.0 minutes" in evidence  # 24 updates of 5 seconds
    assert gains(study, "sampo").evidence == "sampo was not among the recipes."


@pytest.mark.parametrize(
    ("plain", "masked", "outcome"),
    [
        ((FALLEN, FALLEN, FALLEN), (STEADY, STEADY, STEADY), "Reproduced"),
        ((FALLEN, STEADY, FALLEN), (STEADY, STEADY, STEADY), "Reproduced"),
        ((FALLEN, STEADY, STEADY), (STEADY, STEADY, STEADY), "Not reproduced"),
        ((STEADY, STEADY, STEADY), (FALLEN, FALLEN, FALLEN), "Not reproduced"),
        ((FALLEN, FALLEN, FALLEN), (STEADY, FALLEN, STEADY), "Reproduced in part"),
        ((FALLEN, FALLEN, FALLEN), (FALLEN, FALLEN, FALLEN), "Not reproduced"),
        # What is missing may still go either way, or no longer matters.
        ((FALLEN, FALLEN), (STEADY, STEADY, STEADY), "Reproduced"),
        ((FALLEN,), (STEADY, STEADY, STEADY), "Not decided"),
        ((STEADY, STEADY), (STEADY,), "Not reproduced"),
        ((FALLEN, FALLEN, FALLEN), (STEADY, STEADY), "Not decided"),
        ((), (), "Not decided"),
    ],
)
def test_the_verdict_on_a_rescue_follows_the_numbers(
    tmp_path: Path,
    plain: tuple[Sequence[int], ...],
    masked: tuple[Sequence[int], ...],
    outcome: str,
) -> None:
    aggressive(tmp_path, "cispo", *plain)
    aggressive(tmp_path, "cispo_sm", *masked)
    assert rescue(study_of(tmp_path, "cispo", "cispo_sm"), "cispo", "cispo_sm").outcome == outcome


def test_a_rescue_is_shown_with_updates_and_both_criteria(tmp_path: Path) -> None:
    # The second one falls at its very end, which only the simple criterion sees.
    aggressive(tmp_path, "sapo", FALLEN, (128, 140, 140, 140, 140, 0), FALLEN)
    aggressive(tmp_path, "sapo_sm", STEADY)
    verdict = rescue(study_of(tmp_path, "sapo", "sapo_sm"), "sapo", "sapo_sm")
    low, high = wilson(2, 3).low, wilson(2, 3).high
    assert verdict.claim == (
        "sapo collapses within 15 updates of the aggressive setting in at least 2 of 3 seeds, and "
        "sapo_sm in none."
    )
    assert verdict.evidence == (
        "sapo collapsed in 2 of 3 runs after update 9 and 9 "
        f"(66.7 [{100 * low:.1f}, {100 * high:.1f}] %), and fell below half of the init's success "
        "in 3. sapo_sm collapsed in 0 of 1 run "
        f"(0.0 [0.0, {100 * wilson(0, 1).high:.1f}] %), and fell below half of the init's success "
        "in 0. 2 runs of it cannot be judged yet."
    )


def test_a_run_that_ended_early_counts_if_it_had_collapsed(tmp_path: Path) -> None:
    aggressive(tmp_path, "cispo", FALLEN)
    for seed, made in ((1, 9), (2, 8)):
        write_run(tmp_path, Run("aggressive", "cispo", seed, AGGRESSIVE), FALLEN, made)
    study = study_of(tmp_path, "cispo")
    results = study.begun("aggressive", "cispo")
    assert [result.collapse for result in results] == [9, 9, None]
    assert [result.finished for result in results] == [True, False, False]
    assert "cispo collapsed in 2 of 2 runs" in rescue(study, "cispo", "cispo_sm").evidence
    assert missing(study)[-1] == (
        "Aggressive setting, cispo: seed 1 (9 of 15 updates, success 0.0 % after update 9, "
        "collapsed after 9), seed 2 (8 of 15 updates, success 0.0 % after update 6)."
    )


@pytest.mark.parametrize(
    ("others", "outcome"),
    [
        ({"grpo": 128, "gspo": 140}, "Reproduced"),
        ({"grpo": 128, "gspo": 190}, "Not decided"),
        ({"grpo": 128, "gspo": 200}, "Not decided"),  # 3 points higher are noise
        ({"grpo": 128, "gspo": 240}, "Not reproduced"),
        ({"grpo": 128, "gspo": None}, "Not decided"),
        ({}, "Not decided"),
    ],
)
def test_the_verdict_on_the_best_follows_the_numbers(
    tmp_path: Path, others: dict[str, int | None], outcome: str
) -> None:
    stable(tmp_path, "sampo", 192, 192, 192)
    for recipe, end in others.items():
        if end is not None:
            stable(tmp_path, recipe, end, end, end)
    assert best_of_all(study_of(tmp_path, "sampo", *others)).outcome == outcome


def test_early_signs_compare_ratios_up_to_the_collapse(tmp_path: Path) -> None:
    for recipe, solved in (("cispo", FALLEN), ("gspo", STEADY)):
        run = Run("aggressive", recipe, 0, AGGRESSIVE)
        lines: list[Line] = [start_line(recipe, 0, configuration=configuration(run))]
        lines.append(validation_line(0, solved[0]))
        for update in range(1, 16):
            # cispo 10 to 150, its collapse at 9; gspo .2 to 3.
            ratio = update * (10 if recipe == "cispo" else 0.2)
            lines.append(update_line(update, {"ratio/max": ratio}))
            if update % 3 == 0:
                lines.append(validation_line(update, solved[update // 3]))
        write_log(run.folder(tmp_path), lines)
    assert early_signs(study_of(tmp_path, "cispo", "gspo", seeds=1)) == (
        "The largest ratio of a token, new over old policy, was 90 in the 1 run that collapsed (up "
        "to the collapse) and 3 in the 1 run that did not."
    )
    assert early_signs(study_of(tmp_path, "gspo", seeds=1)) is None


def test_a_run_without_its_last_validation_is_not_finished(tmp_path: Path) -> None:
    tune(tmp_path, "grpo")
    run = next(r for r in final(["grpo"], [0], tmp_path) if r.setting == "stable")
    path = write_run(tmp_path, run, (128, 130, 140, 150))
    *lines, _ = path.read_text("utf-8").splitlines(keepends=True)
    path.write_text("".join(lines), "utf-8")
    (result,) = study_of(tmp_path, "grpo", seeds=1).begun("stable")
    assert (result.updates, result.last.update, result.finished) == (24, 16, False)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"seed": 3}, "seed is 3, not 0"),
        ({"recipe": "gspo"}, "recipe is gspo, not grpo"),
        ({"configuration": {}}, "optimisation.updates is None, not 15.0"),
    ],
)
def test_a_log_of_something_else_is_refused(
    tmp_path: Path, changes: dict[str, Any], says: str
) -> None:
    run = Run("aggressive", "grpo", 0, AGGRESSIVE)
    lines = [start_line(configuration=configuration(run)) | changes, validation_line(0)]
    write_log(run.folder(tmp_path), lines)
    with pytest.raises(UserError, match="is not of this study") as caught:
        study_of(tmp_path, "grpo")
    assert says in str(caught.value)


def test_what_the_trainer_logs_of_its_configuration_is_accepted(tmp_path: Path) -> None:
    """The settings as they come back from the trainer's own schema, not as the tests write them."""
    runs = tuning(RECIPES) + [Run("aggressive", recipe, 0, AGGRESSIVE) for recipe in RECIPES]
    rate = f"optimisation.learning_rate={GRID[0]:g}"
    runs += [Run("stable", recipe, 0, (*STABLE, rate)) for recipe in RECIPES]
    for run in runs:
        config = resolve(run.recipe, "tiny", ["sokoban"], run.settings).model_dump(mode="json")
        lines: list[Line] = [start_line(run.recipe, run.seed, configuration=config)]
        if run.setting != "tuning":
            lines.append(validation_line(0))
        lines.append(update_line(1, {"rollout/success": 0.5}))
        write_log(run.folder(tmp_path), lines)
    study = study_of(tmp_path, *RECIPES, seeds=1)
    assert len(study.results) == 2 * len(RECIPES)
    assert {result.learning_rate for result in study.begun("aggressive")} == {5e-4}
    assert {result.learning_rate for result in study.begun("stable")} == {GRID[0]}


@pytest.mark.parametrize("other", ["protocol", "init", "panel"])
def test_runs_that_cannot_be_compared_are_refused(tmp_path: Path, other: str) -> None:
    aggressive(tmp_path, "grpo", STEADY)
    run = Run("aggressive", "grpo", 1, AGGRESSIVE)
    line = validation_line(0)
    start = start_line("grpo", 1, configuration=configuration(run))
    if other == "protocol":
        line["fingerprint"] = sha256_text("another")
    elif other == "init":
        start["init"]["sha256"] = sha256_text("another")
    else:
        line["panel"] = "two_boxes"
    write_log(run.folder(tmp_path), [start, line])
    with pytest.raises(UserError, match="differ in their init or protocol|are not of one panel"):
        study_of(tmp_path, "grpo")
