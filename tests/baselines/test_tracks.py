"""Tracks are pinned, say every setting, and give a recipe its configuration."""

from pathlib import Path

import pytest
import yaml

from baselines import tracks
from baselines.recipes import RECIPES, names, resolve
from baselines.registry import read_registry
from baselines.tracks import (
    INDEX,
    Pin,
    all_tracks,
    index_text,
    load_track,
    pinned_index,
    rates_text,
    read_index,
    read_rates,
    resolve_on_track,
    track_names,
)
from baselines.train_config import GSPO, PPOClip
from benchmark.tracks import FREE, FixedRate, RateGrid, Track
from tasks.errors import UserError

TASKS = ("alfworld", "sokoban", "tir_math", "webshop")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A registry of one's own with one of the shipped tracks."""
    for name in (INDEX, "sokoban-standard.yaml"):
        (tmp_path / name).write_bytes((tracks.TRACKS / name).read_bytes())
    monkeypatch.setattr(tracks, "TRACKS", tmp_path)
    monkeypatch.setattr(tracks, "RESULTS", tmp_path / "results")
    return tmp_path


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def fault(name: str = "sokoban-standard") -> str:
    with pytest.raises(UserError) as caught:
        load_track(name)
    (line,) = str(caught.value).splitlines()
    return line


def test_every_task_has_a_standard_a_stress_and_a_paper_track() -> None:
    kinds = [f"{task}-{kind}" for task in TASKS for kind in ("standard", "stress")]
    assert track_names() == tuple(sorted([*kinds, *(f"paper-{task}" for task in TASKS)]))


def test_the_index_pins_the_files_as_they_are() -> None:
    assert pinned_index() == read_index()
    assert (tracks.TRACKS / INDEX).read_text() == index_text(read_index())


@pytest.mark.parametrize("name", track_names())
def test_every_recipe_goes_with_every_track(name: str) -> None:
    track = load_track(name)
    for recipe in names(RECIPES):
        for rate in track.learning_rate.rates:
            assert resolve_on_track(track, recipe, rate).optimisation.learning_rate == rate


@pytest.mark.parametrize("task", TASKS)
def test_tiny_tracks_start_from_the_shipped_inits(task: str) -> None:
    for kind in ("standard", "stress"):
        track = load_track(f"{task}-{kind}")
        assert track.tasks == (task,)
        assert track.init.sha256 == read_registry()[track.init.name].sha256


def test_stress_tracks_are_a_high_fixed_rate_two_passes_and_no_kl() -> None:
    for task in TASKS:
        track = load_track(f"{task}-stress")
        config = resolve_on_track(track, "grpo", 5e-4)
        assert isinstance(track.learning_rate, FixedRate)
        assert (config.kl.coef, config.optimisation.epochs) == (0, 2)
        assert config.optimisation.warmup_updates == 0


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("recipe", ["grpo", "gspo", "sampo", "cispo_sm", "sapo"])
def test_paper_tracks_are_the_scale_paper(task: str, recipe: str) -> None:
    track = load_track(f"paper-{task}")
    found = resolve_on_track(track, recipe, 1e-6).model_dump()
    expected = resolve(recipe, "paper", [task]).model_dump()
    # What a scale leaves to the task, a track says.
    for name in ("unit", "format_penalty"):
        found.pop(name), expected.pop(name)
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
        "there is no track 'socoban-standard'; did you mean sokoban-standard or "
    )


def test_a_track_with_a_changed_value_is_refused(folder: Path) -> None:
    before = load_track("sokoban-standard").sha256
    edit(folder / "sokoban-standard.yaml", "coef: 0.01", "coef: 0.02")
    line = fault()
    assert line.startswith("track sokoban-standard was changed: ")
    assert line.endswith(f"the index pins {before[:12]}...; restore the file")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("description: ", "description: Other. "),
        ("micro_batch_tokens: 8192", "micro_batch_tokens: 4096"),
        ("gradient_checkpointing: false", "gradient_checkpointing: true"),
        ("concurrency: null", "concurrency: 8"),
        ("checkpoint_every: 10", "checkpoint_every: 1"),
    ],
)
def test_what_moves_no_result_moves_no_hash(old: str, new: str, folder: Path) -> None:
    before = load_track("sokoban-standard").sha256
    edit(folder / "sokoban-standard.yaml", old, new)
    assert load_track("sokoban-standard").sha256 == before


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("tasks: [sokoban]", "tasks: []", "tasks: Tuple should have at least 1 item"),
        ("tasks: [sokoban]", "tsks: [sokoban]", "tsks: Extra inputs are not permitted"),
        ("updates: 24", "learning_rate: 1.0", "leave optimisation.learning_rate out: a track"),
        ("kl: {coef", "advantage: {name: grpo}\n  kl: {coef", "leave advantage out: a track"),
        ("last: 5", "last: 11", "last is 11, and there are 10 updates"),
        ("grid: [0.0003, 0.001]", "grid: [0.001, 0.0003]", "grid must be ascending, each rate onc"),
        ("grid: [0.0003, 0.001]", "grid: [0.0003, .inf]", "grid.grid.1: Input should be a finite"),
        ("settings:", "recipes: {gspo: {kl: {coef: 1}}}\nsettings:", "gspo sets kl, which is not"),
        ("settings:", "settings: [", "cannot be read"),
    ],
)
def test_a_file_that_is_not_a_track_is_one_line(
    old: str, new: str, message: str, folder: Path
) -> None:
    edit(folder / "sokoban-standard.yaml", old, new)
    line = fault()
    assert line.startswith(str(folder / "sokoban-standard.yaml"))
    assert message in line


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  entropy_coef: 0.0\n", "", "settings lack entropy_coef (0.0); a track says all of them"),
        ("unit: turn", "unit: null", "unit: null leaves it to the task; say the value"),
        ("max_turns: 15", "max_turns: null", "rollout.max_turns: null leaves it to the task"),
        ("kl: {coef", "kll: {coef", "recipe grpo on track sokoban-standard: there is no kll"),
        (
            "settings:",
            "recipes: {gpso: {}}\nsettings:",
            "recipes: there is no recipe 'gpso'; did you mean gspo",
        ),
    ],
)
def test_a_track_that_leaves_something_open_is_not_pinned(
    old: str, new: str, message: str, folder: Path
) -> None:
    edit(folder / "sokoban-standard.yaml", old, new)
    with pytest.raises(UserError) as caught:
        pinned_index()
    assert message in str(caught.value)


def test_pinning_drops_the_measurements_of_what_has_changed(folder: Path) -> None:
    kept = load_track("sokoban-standard")
    index = {"sokoban-standard": Pin(sha256=kept.sha256, cpu_minutes=12.5)}
    (folder / INDEX).write_text(index_text(index))
    assert pinned_index() == index
    edit(folder / "sokoban-standard.yaml", "coef: 0.01", "coef: 0.02")
    changed = pinned_index()["sokoban-standard"]
    assert changed.cpu_minutes is None and changed.sha256 != kept.sha256


def test_a_recipe_that_sets_what_the_track_pins_is_refused(tmp_path: Path) -> None:
    recipe = tmp_path / "mine.yaml"
    content = yaml.safe_load((RECIPES / "grpo.yaml").read_text())
    recipe.write_text(yaml.safe_dump(content | {"kl": {"coef": 1.0}}))
    with pytest.raises(UserError, match=r"sets kl, which track sokoban-standard pins: leave it"):
        resolve_on_track(load_track("sokoban-standard"), str(recipe), 3e-4)


def test_a_rate_that_is_not_the_tracks_is_refused() -> None:
    with pytest.raises(UserError, match=r"sokoban-stress has the learning rate 0.0005, not 0.001"):
        resolve_on_track(load_track("sokoban-stress"), "grpo", 1e-3)


def write_rates(folder: Path, text: str) -> None:
    (folder / "results" / "sokoban-standard").mkdir(parents=True)
    (folder / "results" / "sokoban-standard" / "rates.yaml").write_text(text)


def test_rates_of_a_study_are_read_back(folder: Path) -> None:
    track = load_track("sokoban-standard")
    assert read_rates(track) == {}
    write_rates(folder, rates_text(track, {"sampo": 1e-3, "grpo": 3e-4}))
    assert read_rates(track) == {"grpo": 3e-4, "sampo": 1e-3}


def test_rates_that_were_tuned_on_an_older_track_are_not_used(folder: Path) -> None:
    track = load_track("sokoban-standard")
    older = track.model_copy(update={"tasks": ("sokoban", "alfworld")})
    write_rates(folder, rates_text(older, {"sampo": 1e-3}))
    assert read_rates(track) == {}


def test_a_rate_outside_of_the_grid_is_refused(folder: Path) -> None:
    track = load_track("sokoban-standard")
    write_rates(folder, rates_text(track, {"sampo": 2e-3}))
    with pytest.raises(
        UserError, match=r"rates.yaml: sampo: track sokoban-standard does not allow"
    ):
        read_rates(track)


def test_all_tracks_pin_what_they_may_and_nothing_free() -> None:
    for track in all_tracks().values():
        assert isinstance(track, Track)
        assert not FREE & track.pinned.keys()
        assert isinstance(track.learning_rate, FixedRate | RateGrid)
