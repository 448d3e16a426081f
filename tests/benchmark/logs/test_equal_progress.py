"""Success after equal updates, episodes and seconds, by hand."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmark.cli.main import main
from benchmark.logs.curves import Points, RunCurves
from benchmark.logs.equal_progress import By, EqualSuccess, equal_rows, progress_of
from benchmark.logs.equal_progress import equal_success as equal_success_of
from tests.support.training.logs import Line, start_line, update_line, validation_line, write_log


def run_of(success: Mapping[int, float], episodes: Sequence[float | None]) -> RunCurves:
    """Validations by update, and the episodes of every update from 1 on; None if not logged."""
    said = [(step, count) for step, count in enumerate(episodes, 1) if count is not None]
    curves = {
        "validation/success": Points(np.array([*success]), np.array([*success.values()])),
        "rollout/episodes": Points(
            np.array([step for step, _ in said], np.int64),
            np.array([count for _, count in said], np.float64),
        ),
        "policy/entropy": Points(np.arange(1, len(episodes) + 1), np.zeros(len(episodes))),
    }
    return RunCurves("run", "arlarena-bench", "grpo", 0, curves)


def equal_success(runs: Sequence[RunCurves], by: By) -> EqualSuccess | None:
    return equal_success_of([progress_of(run) for run in runs], by)


PLAIN = run_of({0: 0.5, 2: 0.55, 4: 0.6, 6: 0.65}, [64] * 6)
"""384 episodes in 6 updates."""
DYNAMIC = run_of({0: 0.5, 2: 0.7, 4: 0.8}, [128, 128, 192, 64])
"""512 episodes in 4 updates: 256 after the second."""


def test_at_equal_updates_the_shortest_run_sets_the_limit() -> None:
    assert equal_success([PLAIN, DYNAMIC], "updates") == EqualSuccess("updates", 4, (0.6, 0.8))


def test_at_equal_episodes_the_one_with_fewest_sets_the_limit() -> None:
    # 384 episodes: the end of the plain run; the other one has 70% after 256 and 80% after 512.
    found = equal_success([PLAIN, DYNAMIC], "episodes")
    assert found is not None
    assert (found.by, found.limit) == ("episodes", 384)
    assert found.success == pytest.approx((0.65, 0.75))


def timed(run: RunCurves, total: Sequence[float], validation: Mapping[int, float]) -> RunCurves:
    """A run with the seconds of its updates, including those of validations."""
    curves = {
        **run.curves,
        "seconds/total": Points(np.arange(1, len(total) + 1), np.array(total, np.float64)),
        "seconds/validation": Points(
            np.array([*validation], np.int64), np.array([*validation.values()], np.float64)
        ),
    }
    return replace(run, curves=curves)


def test_at_equal_seconds_the_fastest_sets_the_limit_and_validations_take_no_time() -> None:
    # 10, 10, 10 and 10 s of training; the other run has 20 s per update.
    fast = timed(DYNAMIC, [10, 70, 10, 30], {2: 60, 4: 20})
    slow = timed(PLAIN, [20, 21, 20, 21, 20, 21], {2: 1, 4: 1, 6: 1})
    found = equal_success([fast, slow], "seconds")
    # The slow run has made two updates by then.
    assert found == EqualSuccess("seconds", 40, (0.8, 0.55))
    # At 60 s it has made three: halfway between 55 and 60%.
    slower = timed(DYNAMIC, [15] * 4, {})
    found = equal_success([slower, slow], "seconds")
    assert found is not None
    assert found.limit == 60
    assert found.success == pytest.approx((0.8, 0.575))
    assert equal_success([fast, PLAIN], "seconds") is None


def test_a_validation_right_at_the_limit_counts() -> None:
    short = run_of({0: 0.1, 2: 0.2}, [128, 128])
    found = equal_success([short, DYNAMIC], "episodes")
    assert found == EqualSuccess("episodes", 256, (0.2, 0.7))


def test_a_line_from_the_init_is_no_measurement() -> None:
    late = run_of({0: 0.5, 4: 0.9}, [64] * 4)
    assert equal_success([late, run_of({0: 0.5, 2: 0.6}, [64] * 3)], "episodes") is None
    assert equal_success([late, PLAIN], "episodes") is not None
    # Nor is the init, if nothing else was validated.
    assert equal_success([run_of({0: 0.3}, [64] * 6), PLAIN], "episodes") is None


def test_a_run_that_was_not_validated_at_its_end_stays_as_it_was() -> None:
    short = run_of({0: 0.4, 1: 0.9}, [10, 300])
    found = equal_success([short, DYNAMIC], "episodes")
    assert found is not None
    assert found.limit == 310
    # 54 of the 256 episodes on the way from 70 to 80%.
    assert found.success == pytest.approx((0.9, 0.7 + 0.1 * 54 / 256))


@pytest.mark.parametrize(
    "other", [run_of({0: 0.5, 2: 0.6}, [64, None]), run_of({2: 0.6}, [64, 900])]
)
def test_what_is_not_known_is_not_compared(other: RunCurves) -> None:
    short = run_of({0: 0.5, 1: 0.6}, [64])
    assert equal_success([short, other], "episodes") is None


def test_a_run_without_validations_is_not_compared() -> None:
    assert equal_success([PLAIN, RunCurves("run", "trl", None, None, {})], "updates") is None


def test_recipes_are_told_by_the_mean_of_their_seeds() -> None:
    second = run_of({0: 0.5, 4: 0.5, 6: 0.5}, [64] * 6)
    # After 4 updates (60 + 50) / 2; after 384 episodes (65 + 50) / 2.
    found = equal_rows({"grpo": [PLAIN, second], "sampo": [DYNAMIC]})
    assert found is not None
    assert found.text("after") == (
        "after  4 updates  384 episodes\n"
        "-----  ---------  ------------\n"
        "grpo       55.0%         57.5%\n"
        "sampo      80.0%         75.0%"
    )
    assert equal_rows({"grpo": [PLAIN, second]}) is None


def log_lines(recipe: str, seed: int, episodes: int, solved: Sequence[int]) -> list[Line]:
    """A validation of 256 episodes before the first and after every update."""
    lines: list[Line] = [start_line(recipe, seed), validation_line(0, solved=solved[0])]
    for update, count in enumerate(solved[1:], 1):
        values = {"rollout/episodes": episodes, "tokens/response": 100}
        lines += [update_line(update, values), validation_line(update, solved=count)]
    return lines


def logs(folder: Path) -> list[str]:
    """Two seeds of a plain recipe and of one that plays twice as many episodes per update."""
    written = []
    for seed in (0, 1):
        for recipe, episodes, solved in (
            ("grpo", 64, [64, 128, 128, 128, 192]),
            ("sampo", 128, [64, 192, 256, 256, 256]),
        ):
            name = folder / f"{recipe}-s{seed}.jsonl"
            written.append(str(write_log(name, log_lines(recipe, seed, episodes, solved))))
    return written


BY_HAND = (
    # After 4 updates each, and after 256 episodes: 4 updates of 64, 2 of 128.
    "after 4 updates 256 episodes",
    "grpo 75.0% 75.0%",
    "sampo 100.0% 100.0%",
)


@pytest.mark.slow
def test_plot_says_both_and_draws_along_episodes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "curves.svg"
    assert main(["plot", *logs(tmp_path), "--x", "episodes", "--out", str(out)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert all(line in printed for line in BY_HAND)
    assert "episodes played" in out.read_text()


def test_stability_says_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stability", *logs(tmp_path)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    for line in BY_HAND:
        assert line in printed
