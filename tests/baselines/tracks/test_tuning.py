"""The learning rate of a track's grid: its tuning runs, how they are judged, and which wins."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from baselines.config.run import TrainingRun
from baselines.inits.registry import find_model
from baselines.tracks.registry import resolve_on_track
from baselines.tracks.tuning import best_rate, tuning_runs, tuning_success, updates_left
from benchmark.logs.training_log import LOG
from benchmark.track_schema import RateGrid
from tasks.registry import load_task
from tests.support.training.logs import start_line, update_line, write_log
from tests.support.training.small_track import small

RULE = RateGrid(grid=(3e-4, 1e-3), seed=1000, updates=4, last=2)


@pytest.fixture
def run(tmp_path: Path) -> TrainingRun:
    track = small()
    config = resolve_on_track(track, "grpo", 1e-4)
    task, init = load_task("sokoban"), find_model("tiny-sokoban")
    return TrainingRun("grpo", config, (task,), init, 7, tmp_path, track=track.claim)


def log_of(run: TrainingRun, curve: list[float | None], **changes: Any) -> None:
    facts: dict[str, Any] = {
        "configuration": run.configuration,
        "init": run.init.identity.model_dump(),
        "seed": run.seed,
    }
    run.folder.mkdir(parents=True, exist_ok=True)
    lines = [update_line(n, {"rollout/success": v}) for n, v in enumerate(curve, 1)]
    write_log(run.folder, [start_line(**(facts | changes)), *lines])


def test_the_short_trainings_differ_in_their_rate_and_see_no_panel(run: TrainingRun) -> None:
    found = tuning_runs(run, RULE)
    assert list(found) == [3e-4, 1e-3]
    for rate, short in found.items():
        assert short.config.optimization.learning_rate == rate
        assert (short.config.optimization.updates, short.config.validation.every) == (4, None)
        assert (short.seed, short.track) == (1000, None)
        same = short.configuration | {"optimization": 0, "validation": 0}
        assert same == run.configuration | {"optimization": 0, "validation": 0}
    assert [short.folder for short in found.values()] == [
        run.folder / "tuning" / "0.0003",
        run.folder / "tuning" / "0.001",
    ]
    shared = tuning_runs(run, RULE, Path("shared"))
    assert [short.folder for short in shared.values()] == [
        Path("shared/0.0003"),
        Path("shared/0.001"),
    ]
    # The tuning runs are the same for every seed.
    other = tuning_runs(replace(run, seed=8), RULE)
    assert [each.sha256 for each in other.values()] == [each.sha256 for each in found.values()]


def test_the_last_rollouts_are_judged(run: TrainingRun) -> None:
    short = tuning_runs(run, RULE)[1e-3]
    assert tuning_success(short, RULE) is None
    assert updates_left(short, RULE) == 4
    log_of(short, [1.0, 1.0, 0.25])
    assert tuning_success(short, RULE) is None, "one update is missing"
    assert updates_left(short, RULE) == 1
    log_of(short, [1.0, 1.0, 0.25, 0.5])
    assert tuning_success(short, RULE) == 0.375
    assert updates_left(short, RULE) == 0
    log_of(short, [1.0, 1.0, None, 0.5])
    assert tuning_success(short, RULE) == 0.25, "nothing that was measured is a failure"


def test_a_rate_whose_steps_are_not_finite_solves_nothing(run: TrainingRun) -> None:
    """An interrupted training run, however low its success rate, continues instead."""
    trial = tuning_runs(run, RULE)[0.001]
    log_of(trial, [0.5, 0.0])
    assert tuning_success(trial, RULE) is None
    limit = trial.config.optimization.max_skipped
    with (trial.folder / LOG).open("a") as log:
        ended = update_line(3, {"policy/optimizer_steps": 0, "policy/skipped_steps": limit})
        log.write(json.dumps(ended) + "\n")
    assert tuning_success(trial, RULE) == 0.0
    assert updates_left(trial, RULE) == 0


def test_a_log_of_another_run_is_not_judged(run: TrainingRun) -> None:
    short = tuning_runs(run, RULE)[1e-3]
    other = short.configuration | {"entropy_coef": 0.5}
    for changes in ({"seed": 7}, {"configuration": other}, {"plugins": {"rank.py": "a" * 64}}):
        log_of(short, [1.0, 1.0, 0.25, 0.5], **changes)
        assert tuning_success(short, RULE) is None
        assert updates_left(short, RULE) == 4


def test_of_equal_rates_the_lower_one_wins() -> None:
    assert best_rate({3e-4: 0.5, 1e-3: 0.5}) == 3e-4
    assert best_rate({3e-4: 0.5, 1e-3: 0.51}) == 1e-3
