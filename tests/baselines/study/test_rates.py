"""Learning rates of a study: tuning runs that are left, and the file of what they found."""

from pathlib import Path

import pytest

from baselines.config.run import TrainingRun
from baselines.inits.registry import find_model
from baselines.study.current_tracks import current_tracks_of
from baselines.study.rates import keep_rate, known_rate, share_tuning, tuning_commands
from baselines.study.schema import Cell
from baselines.tracks.registry import read_tuning, resolve_on_track
from baselines.tracks.tuning import tuning_runs
from benchmark.track_schema import RateGrid, Track
from tasks.errors import UserError
from tasks.registry import load_task
from tests.support.training.logs import start_line, update_line, write_log


@pytest.fixture
def track(tiny_tracks: Path) -> Track:
    """The track `tuned`: one update at each of 3e-4 and 1e-3, on seed 1000."""
    return current_tracks_of([Cell("tuned", "grpo", 0)], "study.yaml")["tuned"].track


def finish_trials(track: Track, folder: Path, recipe: str, success: dict[float, float]) -> None:
    """Logs of tuning runs whose rollouts have this success."""
    rule = track.learning_rate
    assert isinstance(rule, RateGrid)
    config = resolve_on_track(track, recipe, rule.grid[0])
    init = find_model(track.init.name)
    run = TrainingRun(recipe, config, (load_task("sokoban"),), init, rule.seed, folder)
    for rate, trial in tuning_runs(run, rule).items():
        if rate in success:
            identity = init.identity.model_dump()
            fields = {"configuration": trial.configuration, "init": identity}
            lines = [start_line(recipe, rule.seed, **fields)]
            lines.append(update_line(1, {"rollout/success": success[rate]}))
            write_log(trial.folder, lines)


def test_short_trainings_that_are_finished_are_not_made_again(tmp_path: Path, track: Track) -> None:
    folder = tmp_path / "tuned" / "grpo-s0"
    share_tuning(folder, "grpo")
    first, second = tuning_commands(track, folder, "grpo")
    assert first[:7] == ["train", "--track", "tuned", "--recipe", "grpo", "--seed", "1000"]
    assert "optimization.learning_rate=0.0003" in first
    assert "optimization.updates=1" in first
    assert "validation.every=null" in first
    assert "optimization.learning_rate=0.001" in second
    finish_trials(track, folder, "grpo", {3e-4: 0.5})
    assert tuning_commands(track, folder, "grpo") == [second]
    with pytest.raises(UserError, match=r"the short training run in .*0\.001 is incomplete"):
        keep_rate(tmp_path / "results", track, folder, "grpo")
    # The other seeds find them, too.
    share_tuning(tmp_path / "tuned" / "grpo-s1", "grpo")
    assert tuning_commands(track, tmp_path / "tuned" / "grpo-s1", "grpo") == [
        [*second[:-1], str(tmp_path / "tuned" / "grpo-s1" / "tuning" / "0.001")]
    ]


def test_rates_are_kept_beside_those_of_other_recipes(tmp_path: Path, track: Track) -> None:
    results = tmp_path / "results"
    assert known_rate(results, track, "grpo") is None
    for recipe, success in (("grpo", {3e-4: 0.5, 1e-3: 0.5}), ("sampo", {3e-4: 0.2, 1e-3: 0.3})):
        finish_trials(track, tmp_path / recipe, recipe, success)
        keep_rate(results, track, tmp_path / recipe, recipe)
    # Of equals the lower one.
    assert known_rate(results, track, "grpo") == 3e-4
    assert known_rate(results, track, "sampo") == 1e-3
    assert read_tuning(track, results).success["sampo"] == {3e-4: 0.2, 1e-3: 0.3}


def test_a_track_with_one_rate_needs_no_tuning(tmp_path: Path, tiny_tracks: Path) -> None:
    del tiny_tracks
    fixed = current_tracks_of([Cell("fixed", "grpo", 0)], "study.yaml")["fixed"].track
    assert known_rate(tmp_path, fixed, "grpo") == 5e-4
