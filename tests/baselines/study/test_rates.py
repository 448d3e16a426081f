"""Learning rates of a study: remaining tuning runs, and the file of their results."""

from pathlib import Path

import pytest

from baselines.config.run import TrainingRun
from baselines.inits.registry import find_model
from baselines.study.current_tracks import current_tracks_of
from baselines.study.custom import custom_methods
from baselines.study.rates import keep_rate, known_rate, share_tuning, tuning_commands
from baselines.study.schema import Cell, cells_of, read_study
from baselines.study.workspace import StudySetting
from baselines.tracks.registry import read_tuning, resolve_on_track
from baselines.tracks.tuning import tuning_runs
from benchmark.track_schema import RateGrid
from tasks.errors import UserError
from tasks.registry import load_task
from tests.support.training.logs import start_line, update_line, write_log
from tests.support.training.plugins import RANK, RECIPE

GRPO, SECOND = (Cell("tuned", "grpo", seed) for seed in (0, 1))
SAMPO = Cell("tuned", "sampo", 0)


@pytest.fixture
def setting(tmp_path: Path, tiny_tracks: Path) -> StudySetting:
    """The setting for track `tuned`: one update at each of 3e-4 and 1e-3, with seed 1000."""
    del tiny_tracks
    tracks = current_tracks_of([GRPO, SAMPO], "study.yaml")
    return StudySetting(tracks, tmp_path / "runs", tmp_path / "results", 1, ("no",))


def finish_trials(setting: StudySetting, cell: Cell, success: dict[float, float]) -> None:
    """Write logs of tuning runs whose rollouts have this success rate."""
    track, custom = setting.current_tracks[cell.track].track, setting.custom
    rule, recipe = track.learning_rate, cell.recipe
    assert isinstance(rule, RateGrid)
    config = resolve_on_track(track, custom.recipe(recipe), rule.grid[0])
    init, folder = find_model(track.init.name), setting.folder(cell)
    run = TrainingRun(recipe, config, (load_task("sokoban"),), init, rule.seed, folder)
    for rate, trial in tuning_runs(run, rule).items():
        if rate in success:
            identity = init.identity.model_dump()
            fields = {"configuration": trial.configuration, "init": identity}
            code = {"plugins": dict(custom.code(recipe))} if custom.code(recipe) else {}
            lines = [start_line(recipe, rule.seed, **fields, **code)]
            lines.append(update_line(1, {"rollout/success": success[rate]}))
            write_log(trial.folder, lines)


def test_short_trainings_that_are_finished_are_not_made_again(setting: StudySetting) -> None:
    share_tuning(GRPO, setting)
    first, second = tuning_commands(GRPO, setting)
    assert first[:7] == ["train", "--track", "tuned", "--recipe", "grpo", "--seed", "1000"]
    assert "optimization.learning_rate=0.0003" in first
    assert "optimization.updates=1" in first
    assert "validation.every=null" in first
    assert "optimization.learning_rate=0.001" in second
    finish_trials(setting, GRPO, {3e-4: 0.5})
    assert tuning_commands(GRPO, setting) == [second]
    with pytest.raises(UserError, match=r"the tuning run in .*0\.001 is incomplete"):
        keep_rate(GRPO, setting)
    # The other seeds find them as well.
    share_tuning(SECOND, setting)
    place = setting.folder(SECOND) / "tuning" / "0.001"
    assert tuning_commands(SECOND, setting) == [[*second[:-1], str(place)]]


def test_rates_are_kept_beside_those_of_other_recipes(setting: StudySetting) -> None:
    assert known_rate(GRPO, setting) is None
    for cell, success in ((GRPO, {3e-4: 0.5, 1e-3: 0.5}), (SAMPO, {3e-4: 0.2, 1e-3: 0.3})):
        finish_trials(setting, cell, success)
        keep_rate(cell, setting)
    # The lower of two equal rates wins.
    assert known_rate(GRPO, setting) == 3e-4
    assert known_rate(SAMPO, setting) == 1e-3
    track = setting.current_tracks["tuned"].track
    assert read_tuning(track, setting.results).success["sampo"] == {3e-4: 0.2, 1e-3: 0.3}


def test_a_track_with_one_rate_needs_no_tuning(tmp_path: Path, tiny_tracks: Path) -> None:
    del tiny_tracks
    cell = Cell("fixed", "grpo", 0)
    tracks = current_tracks_of([cell], "study.yaml")
    assert known_rate(cell, StudySetting(tracks, tmp_path, tmp_path, 1, ("no",))) == 5e-4


def test_a_custom_recipe_is_tuned_with_its_code_and_again_with_other_code(
    tmp_path: Path, tiny_tracks: Path, own_choices: None
) -> None:
    del tiny_tracks, own_choices
    file, code = tmp_path / "study.yaml", tmp_path / "tuned_rank.py"
    named = RANK.replace('"rank"', '"tuned_rank"')
    (tmp_path / "ranked.yaml").write_text(RECIPE.replace("rank", "tuned_rank"))
    file.write_text(
        "name: s\nrecipes: {ranked.yaml: [tuned_rank.py]}\n"
        "blocks: [{tracks: [tuned], recipes: [ranked, grpo]}]\n"
    )

    def as_it_is_now(text: str) -> StudySetting:
        code.write_text(text)
        study = read_study(file)
        custom = custom_methods(study, file)
        tracks = current_tracks_of(cells_of(study), str(file), custom)
        return StudySetting(tracks, tmp_path / "runs", tmp_path / "results", 1, ("no",), custom)

    cell, setting = Cell("tuned", "ranked", 0), as_it_is_now(named)
    share_tuning(cell, setting)
    given = ["--recipe", str(tmp_path / "ranked.yaml"), "--plugin", str(code)]
    first, _ = tuning_commands(cell, setting)
    assert first[:8] == ["train", "--track", "tuned", *given, "--seed"]
    # Shipped recipes train without the plug-in.
    assert "--plugin" not in tuning_commands(GRPO, setting)[0]
    finish_trials(setting, cell, {3e-4: 0.2})
    assert known_rate(cell, setting) is None
    finish_trials(setting, cell, {3e-4: 0.2, 1e-3: 0.3})
    keep_rate(cell, setting)
    assert known_rate(cell, setting) == 1e-3
    assert not (tmp_path / "results").exists()
    # Changed code gets its own folders, and is tuned again there.
    other = as_it_is_now(f"{named}\n# Another version.\n")
    assert known_rate(cell, other) is None
    assert other.folder(cell) != setting.folder(cell)
    share_tuning(cell, other)
    assert len(tuning_commands(cell, other)) == 2
    assert other.folder(GRPO) == setting.folder(GRPO)
