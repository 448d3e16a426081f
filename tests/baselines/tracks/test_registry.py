"""Tracks are pinned, state every setting, and determine a recipe's configuration."""

import math
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from baselines.algorithms.clipping.gspo import GSPO
from baselines.algorithms.clipping.ppo import PPOClip
from baselines.config.layers import RECIPES, names, resolve
from baselines.inits.registry import read_registry
from baselines.tracks import registry as tracks
from baselines.tracks.registry import (
    INDEX,
    Pin,
    all_tracks,
    index_text,
    load_track,
    pinned_index,
    rates_text,
    read_index,
    read_rates,
    read_track,
    resolve_on_track,
    track_names,
)
from benchmark.track_schema import FREE, FixedRate, RateGrid, Track
from tasks.errors import UserError
from tests.support.training.small_track import small, small_track

TASKS = ("alfworld", "sokoban", "tir_math", "webshop")
SWEEP = {
    "x1": (5e-5, 0.0),
    "x3": (1.5e-4, 0.0),
    "x1-kl": (5e-5, 0.01),
    "x3-kl": (1.5e-4, 0.01),
    "x10-kl": (5e-4, 0.01),
}
"""Learning rate and KL coefficient; x10 without KL is `sokoban-stress` itself."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A separate registry with the track `small`."""
    monkeypatch.setattr(tracks, "TRACKS", tmp_path)
    monkeypatch.setattr(tracks, "RESULTS", tmp_path / "results")
    write(tmp_path)
    (tmp_path / INDEX).write_text(index_text(pinned_index()))
    return tmp_path


def write(folder: Path, changes: dict[str, Any] | None = None) -> None:
    (folder / "small.yaml").write_text(yaml.safe_dump(small_track(changes)))


def fault(name: str = "small") -> str:
    with pytest.raises(UserError) as caught:
        load_track(name)
    (line,) = str(caught.value).splitlines()
    return line


def test_every_task_has_a_standard_a_stress_and_a_paper_track() -> None:
    tiny = (*TASKS, "sokoban-pixels")
    kinds = [f"{name}-{kind}" for name in tiny for kind in ("standard", "stress")]
    kinds += [f"paper-{task}" for task in TASKS] + [f"{task}-specialist" for task in TASKS]
    kinds += ["all-standard", "all-async-1", "all-async-4"]
    kinds += [f"sokoban-sweep-{point}" for point in SWEEP]
    assert track_names() == tuple(sorted(kinds))


def test_one_policy_for_all_tasks_plays_as_much_as_four_specialists() -> None:
    """The init and the settings are equal except task-specific ones, and so are the episodes."""
    whole = load_track("all-standard")
    rollout = whole.settings["rollout"]
    for task in TASKS:
        alone = load_track(f"{task}-specialist")
        assert (alone.tasks, alone.init, alone.learning_rate) == (
            (task,),
            whole.init,
            whole.learning_rate,
        )
        own = alone.settings["rollout"]
        assert own["groups"] == rollout["mixture"][task]
        assert own["max_turns"] == rollout["max_turns"][task]
        assert {**alone.settings, "rollout": 0, "unit": 0, "validation": 0} == {
            **whole.settings,
            "rollout": 0,
            "unit": 0,
            "validation": 0,
        }


@pytest.mark.parametrize("staleness", [1, 4])
def test_asynchronous_tracks_are_the_synchronous_one_but_for_stale_rollouts(staleness: int) -> None:
    whole, track = load_track("all-standard"), load_track(f"all-async-{staleness}")
    changed = {"rollout.max_staleness": staleness, "tis_cap": 2.0}
    assert track.pinned == {**whole.pinned, **changed}
    assert track.init == whole.init


@pytest.mark.parametrize(("point", "rate", "kl"), [(k, *v) for k, v in SWEEP.items()])
def test_a_sweep_varies_the_rate_and_kl_of_the_stress_track(
    point: str, rate: float, kl: float
) -> None:
    base, track = load_track("sokoban-stress"), load_track(f"sokoban-sweep-{point}")
    assert track.base == "sokoban-stress"
    assert track.learning_rate == FixedRate(fixed=rate)
    assert track.pinned == {**base.pinned, "kl.coef": kl}
    assert track.init == base.init


def test_a_track_that_varies_another_is_pinned_as_a_whole(folder: Path) -> None:
    content = {"base": "small", "description": "faster", "learning_rate": {"fixed": 0.5}}
    path = folder / "varied.yaml"
    path.write_text(yaml.safe_dump(content))
    (folder / INDEX).write_text(index_text(pinned_index()))
    track = load_track("varied")
    assert track.learning_rate == FixedRate(fixed=0.5)
    assert track.settings == load_track("small").settings
    # The same content in one file has the same hash; another base has a different one.
    (folder / "whole.yaml").write_text(
        yaml.safe_dump({**small_track(), "learning_rate": {"fixed": 0.5}})
    )
    assert read_track(folder / "whole.yaml").sha256 == track.sha256
    write(folder, {"settings": {"entropy_coef": 0.5}})
    assert fault("varied").startswith("track varied was changed")


@pytest.mark.parametrize(
    ("base", "message"),
    [
        ("smal", "varied.yaml: base: there is no track 'smal'"),
        ("a/small", "varied.yaml: base: there is no track .a/small."),
        ("second", "varied.yaml: base: second varies small itself; name that one"),
    ],
)
def test_a_track_varies_one_that_is_whole(base: str, message: str, folder: Path) -> None:
    (folder / "second.yaml").write_text("{base: small, description: the same}\n")
    (folder / "varied.yaml").write_text(f"{{base: {base}, description: another}}\n")
    with pytest.raises(UserError, match=message):
        read_track(folder / "varied.yaml")


def test_the_tracks_of_images_show_images() -> None:
    init = read_registry()["tiny-sokoban-pixels"]
    for kind in ("standard", "stress"):
        track = load_track(f"sokoban-pixels-{kind}")
        assert (track.init.name, track.init.sha256) == ("tiny-sokoban-pixels", init.sha256)
        assert [task.settings() for task in track.load_tasks()] == [{"view": "pixels"}]


def test_the_index_pins_the_files_as_they_are() -> None:
    assert pinned_index() == read_index()
    assert (tracks.TRACKS / INDEX).read_text() == index_text(read_index())


@pytest.mark.parametrize("name", track_names())
def test_every_recipe_goes_with_every_track(name: str) -> None:
    track = load_track(name)
    for recipe in names(RECIPES):
        for rate in track.learning_rate.rates:
            assert resolve_on_track(track, recipe, rate).optimization.learning_rate == rate


@pytest.mark.parametrize("task", TASKS)
def test_tiny_tracks_start_from_the_shipped_inits(task: str) -> None:
    for kind in ("standard", "stress"):
        track = load_track(f"{task}-{kind}")
        assert track.tasks == (task,)
        assert track.init.sha256 == read_registry()[track.init.name].sha256


def test_stress_tracks_are_a_high_fixed_rate_two_passes_and_no_kl() -> None:
    for task in TASKS:
        track = load_track(f"{task}-stress")
        assert isinstance(track.learning_rate, FixedRate)
        config = resolve_on_track(track, "grpo", track.learning_rate.fixed)
        assert (config.kl.coef, config.optimization.epochs) == (0, 2)
        assert config.optimization.warmup_updates == 0


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("recipe", ["grpo", "gspo", "sampo", "cispo_sm", "sapo"])
def test_paper_tracks_are_the_scale_paper(task: str, recipe: str) -> None:
    track = load_track(f"paper-{task}")
    found = resolve_on_track(track, recipe, 1e-6).model_dump()
    expected = resolve(recipe, "paper", [task]).model_dump()
    # A track states what a scale leaves to the task, but not settings added to the scale later.
    for name in ("unit", "format_penalty", "tis_cap"):
        found.pop(name), expected.pop(name)
    for name in ("micro_batch_tokens", "skip_empty"):
        found["optimization"].pop(name, None), expected["optimization"].pop(name)
    # Tracks predate the masking of void episodes, and never change.
    found.pop("void_episodes", None), expected.pop("void_episodes", None)
    for part, name in (("rollout", "max_turns"), ("validation", "panel")):
        assert found[part].pop(name) is not None
        expected[part].pop(name)
    assert found == expected


def test_constants_of_the_source_go_to_their_recipe_alone() -> None:
    track = load_track("paper-webshop")
    wide = resolve_on_track(track, "gspo", 1e-6).clipping
    assert isinstance(wide, GSPO) and (wide.clip_low, wide.clip_high) == (3e-2, 4e-2)
    narrow = resolve_on_track(track, "sampo", 1e-6).clipping
    assert isinstance(narrow, GSPO) and (narrow.clip_low, narrow.clip_high) == (3e-3, 4e-3)
    clip = resolve_on_track(load_track("paper-tir_math"), "grpo", 1e-6).clipping
    assert isinstance(clip, PPOClip) and (clip.clip_low, clip.clip_high) == (0.2, 0.28)


def test_an_unknown_track_is_named_with_near_matches() -> None:
    assert fault("socoban-standard").startswith(
        "there is no track 'socoban-standard'; did you mean sokoban-standard, "
    )


def test_a_track_with_a_changed_value_is_refused(folder: Path) -> None:
    before = load_track("small").sha256
    write(folder, {"settings": {"kl": {"coef": 0.02}}})
    line = fault()
    assert line.startswith(f"track small was changed: {folder}/small.yaml has SHA-256 ")
    assert line.endswith(f"the index pins {before[:12]}...; restore the file")
    (folder / "small.yaml").unlink()
    assert fault() == (
        f"the index pins track small, but {folder}/small.yaml is missing; restore it"
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"description": "Other words"},
        {"settings": {"optimization": {"micro_batch_tokens": 4096}}},
        {"settings": {"optimization": {"gradient_checkpointing": True}}},
        {"settings": {"rollout": {"concurrency": 8}}},
        {"settings": {"checkpoint_every": 7}},
    ],
)
def test_what_moves_no_result_moves_no_hash(changes: dict[str, Any], folder: Path) -> None:
    before = load_track("small").sha256
    write(folder, changes)
    assert load_track("small").sha256 == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tasks": []}, "tasks: Tuple should have at least 1 item"),
        ({"tsks": ["sokoban"]}, "tsks: Extra inputs are not permitted"),
        (
            {"settings": {"optimization": {"learning_rate": 1.0}}},
            "remove optimization.learning_rate: a track does not pin it",
        ),
        ({"settings": {"advantage": {"name": "grpo"}}}, "remove advantage: a track does not"),
        ({"learning_rate": {"last": 3}}, "last is 3, but there are 2 updates"),
        ({"learning_rate": {"grid": [1e-2, 1e-4]}}, "grid must be ascending, each rate once"),
        ({"learning_rate": {"grid": [1e-4, math.inf]}}, "grid.1: Input should be a finite number"),
        ({"learning_rate": {"fixed": 1e-4}}, "learning_rate.fixed.grid: Extra inputs"),
        (
            {"recipes": {"gspo": {"kl": {"coef": 1}}}},
            "gspo sets kl, which are not part of the method",
        ),
        ({"init": {"sha256": "none"}}, "init.sha256: String should match pattern"),
    ],
)
def test_a_file_that_is_not_a_track_is_one_line(
    changes: dict[str, Any], message: str, folder: Path
) -> None:
    write(folder, changes)
    line = fault()
    assert line.startswith(f"{folder}/small.yaml: ")
    assert message in line


def test_a_file_that_is_not_yaml_is_one_line(folder: Path) -> None:
    (folder / "small.yaml").write_text("settings: [")
    assert fault().startswith(f"{folder}/small.yaml, line 2, column 1 is not valid YAML: ")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"unit": None}, "unit: null leaves it to the task; give a value"),
        ({"rollout": {"max_turns": None}}, "rollout.max_turns: null leaves it to the task"),
        (
            {"kll": {"coef": 0}},
            "recipe grpo on track small: there is no kll; did you mean kl.coef?",
        ),
    ],
)
def test_a_track_that_leaves_something_open_is_not_pinned(
    changes: dict[str, Any], message: str, folder: Path
) -> None:
    write(folder, {"settings": changes})
    with pytest.raises(UserError, match=re.escape(message)):
        pinned_index()


def test_a_track_without_one_of_the_trainers_settings_is_not_pinned(folder: Path) -> None:
    content = small_track()
    del content["settings"]["entropy_coef"]
    (folder / "small.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(
        UserError, match=r"settings lack entropy_coef \(0.0\); a track needs all of"
    ):
        pinned_index()


def test_a_setting_that_came_later_moves_no_hash_and_is_trained_with(folder: Path) -> None:
    content = small_track()
    del content["settings"]["entropy_coef"]
    (folder / "small.yaml").write_text(yaml.safe_dump(content))
    before = read_track(folder / "small.yaml").sha256
    (folder / "small.yaml").write_text(yaml.safe_dump(content | {"added": {"entropy_coef": 0.5}}))
    assert pinned_index()["small"].sha256 == before
    config = resolve_on_track(read_track(folder / "small.yaml"), "grpo", 1e-4)
    assert config.entropy_coef == 0.5


def test_a_setting_is_not_pinned_and_added(folder: Path) -> None:
    write(folder, {"added": {"entropy_coef": 0.5}})
    assert fault().endswith("added repeats entropy_coef, which settings already pins")


def test_constants_for_an_unknown_recipe_are_not_pinned(folder: Path) -> None:
    write(folder, {"recipes": {"gpso": {}}})
    with pytest.raises(UserError, match=r"recipes: there is no recipe 'gpso'; did you mean gspo"):
        pinned_index()


def test_pinning_drops_the_measurements_of_what_has_changed(folder: Path) -> None:
    kept = load_track("small")
    index = {"small": Pin(sha256=kept.sha256, cpu_minutes=12.5)}
    (folder / INDEX).write_text(index_text(index))
    assert pinned_index() == index
    write(folder, {"settings": {"kl": {"coef": 0.02}}})
    changed = pinned_index()["small"]
    assert changed.cpu_minutes is None and changed.sha256 != kept.sha256


def test_a_recipe_that_sets_what_the_track_pins_is_refused(tmp_path: Path) -> None:
    recipe = tmp_path / "mine.yaml"
    content = yaml.safe_load((RECIPES / "grpo.yaml").read_text())
    recipe.write_text(yaml.safe_dump(content | {"kl": {"coef": 1.0}}))
    with pytest.raises(UserError, match=r"sets kl, which track small pins: remove it from the"):
        resolve_on_track(small(), str(recipe), 1e-4)


def test_a_shipped_recipe_has_the_tracks_kl() -> None:
    config = resolve_on_track(small(), "reinforce_pp", 1e-4)
    assert (config.kl.coef, config.kl.place, config.kl.estimator) == (0.01, "loss", "k3")


def test_a_rate_that_is_not_the_tracks_is_refused() -> None:
    with pytest.raises(UserError, match=r"track small has the learning rate 0.0001 or 0.01, not 1"):
        resolve_on_track(small(), "grpo", 1.0)


def write_rates(folder: Path, text: str) -> None:
    (folder / "results" / "small").mkdir(parents=True)
    (folder / "results" / "small" / "rates.yaml").write_text(text)


def test_rates_of_a_study_are_read_back(folder: Path) -> None:
    track = load_track("small")
    assert read_rates(track) == {}
    write_rates(folder, rates_text(track, {"sampo": 1e-2, "grpo": 1e-4}))
    assert read_rates(track) == {"grpo": 1e-4, "sampo": 1e-2}


def test_rates_that_were_tuned_on_an_older_track_are_not_used(folder: Path) -> None:
    track = load_track("small")
    older = track.model_copy(update={"tasks": ("sokoban", "alfworld")})
    write_rates(folder, rates_text(older, {"sampo": 1e-2}))
    assert read_rates(track) == {}


def test_a_rate_outside_of_the_grid_is_refused(folder: Path) -> None:
    track = load_track("small")
    write_rates(folder, rates_text(track, {"sampo": 2e-3}))
    with pytest.raises(UserError, match=r"rates.yaml: sampo: track small does not allow"):
        read_rates(track)


def test_all_tracks_pin_what_they_may_and_nothing_free() -> None:
    for track in all_tracks().values():
        assert isinstance(track, Track)
        assert not FREE & track.pinned.keys()
        assert isinstance(track.learning_rate, FixedRate | RateGrid)
