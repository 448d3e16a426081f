"""Differences between a log's first line and its track."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from baselines.tracks.registry import load_track, resolve_on_track
from benchmark.logs.lines import Start, parse_line
from benchmark.track_schema import Track, deviations
from tests.support.training.logs import Line, start_line
from tests.support.training.small_track import small, small_track

TRACK = small()


def start_on(track: Track, recipe: str = "sampo", **changes: Any) -> Line:
    """The first line of a run on a track."""
    config = resolve_on_track(track, recipe, track.learning_rate.rates[0])
    tasks = {task.info.name: dict(task.settings()) for task in track.load_tasks()}
    return start_line(
        recipe,
        configuration={**config.model_dump(mode="json"), "tasks": tasks},
        task="+".join(track.tasks),
        init={"name": track.init.name, "kind": "init", "sha256": track.init.sha256},
        track=track.claim.model_dump(),
        **changes,
    )


def found(line: Line, track: Track = TRACK) -> list[str]:
    return deviations(track, Start.model_validate(line))


def changed(name: str, value: Any) -> Line:
    """The line of a run with one user setting."""
    line = start_on(TRACK)
    *parts, last = name.split(".")
    place = line["configuration"]
    for part in parts:
        place = place[part]
    place[last] = value
    return line


@pytest.mark.parametrize("recipe", ["grpo", "gspo", "sampo", "cispo_sm", "ppo", "reinforce_pp"])
def test_every_method_is_on_the_track(recipe: str) -> None:
    assert found(start_on(TRACK, recipe)) == []


@pytest.mark.parametrize("name", ["webshop-standard", "tir_math-stress"])
def test_standard_settings_of_tasks_are_the_tracks(name: str) -> None:
    track = load_track(name)
    assert found(start_on(track), track) == []


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("kl.coef", 0.5, "kl.coef is 0.5, the track has 0.01"),
        ("optimization.epochs", 2, "optimization.epochs is 2, the track has 1"),
        ("validation.every", 6, "validation.every is 6, the track has null"),
        ("optimization.betas", [0.9, 0.95], "optimization.betas is [0.9,0.95], the track has "),
        ("rollout.max_staleness", 1, "rollout.max_staleness is 1, the track has null"),
        ("optimization.learning_rate", 0.5, "optimization.learning_rate is 0.5, the track has 0."),
        ("optimization.warmup_updates", True, "warmup_updates is true, the track has "),
        (
            "new_setting",
            "x" * 99,
            f"new_setting is not in the track (the other has {'x' * 79}\u2026)",
        ),
        ("tasks.sokoban.walls", "on", "tasks.sokoban.walls is not in the track (the other has on)"),
    ],
)
def test_one_changed_setting_is_named_with_both_values(name: str, value: Any, text: str) -> None:
    (deviation,) = found(changed(name, value))
    assert text in deviation


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("optimization.micro_batch_tokens", 1),
        ("optimization.gradient_checkpointing", True),
        ("rollout.concurrency", 3),
        ("checkpoint_every", 1),
        ("clipping.clip_low", 0.5),
        ("sampling.dynamic", None),
        ("seed", 7),
        ("kl.coef", 0.01),
    ],
)
def test_what_moves_no_result_and_the_method_are_free(name: str, value: Any) -> None:
    assert found(changed(name, value)) == []


def test_a_missing_setting_is_named() -> None:
    line = start_on(TRACK)
    del line["configuration"]["kl"]["coef"]
    assert found(line) == ["kl.coef is not in the log (the other has 0.01)"]


def test_a_setting_that_came_later_may_be_missing_and_must_not_differ() -> None:
    content = small_track()
    del content["settings"]["entropy_coef"]
    track = Track.model_validate({"name": "small", **content, "added": {"entropy_coef": 0.0}})
    line = start_on(track)
    assert found(line, track) == []
    line["configuration"]["entropy_coef"] = 0.5
    assert found(line, track) == ["entropy_coef is 0.5, the track has 0.0"]
    del line["configuration"]["entropy_coef"]
    assert found(line, track) == []


def test_settings_of_tasks_are_pinned_and_their_absence_moves_no_hash() -> None:
    assert "task_settings" not in TRACK.model_dump()
    pixels = small({"task_settings": {"sokoban": {"view": "pixels"}}})
    assert pixels.sha256 != TRACK.sha256
    assert [dict(task.settings()) for task in pixels.load_tasks()] == [{"view": "pixels"}]
    assert found(start_on(pixels), pixels) == []
    (text,) = found(start_on(TRACK), pixels)
    assert text == "tasks.sokoban.view is not in the log (the other has pixels)"
    (text,) = found(start_on(pixels))
    assert text == "tasks.sokoban.view is not in the track (the other has pixels)"
    with pytest.raises(ValidationError, match="task_settings has webshop, which is not one"):
        small({"task_settings": {"webshop": {"compat": "on"}}})


def test_another_init_and_another_task_are_named() -> None:
    other = {"name": "tiny-sokoban", "kind": "init", "sha256": "0" * 64}
    (text,) = found(start_on(TRACK) | {"init": other})
    assert text.startswith("init is tiny-sokoban (init, SHA-256 000000000000...), the track has ")
    (text,) = found(start_on(TRACK) | {"task": "webshop"})
    assert text == "task is webshop, the track has sokoban"


def test_an_init_without_a_pinned_hash_is_known_by_its_name() -> None:
    track = load_track("paper-alfworld")
    hub = {"name": "qwen3-4b-rft-alfworld", "kind": "hub", "revision": None, "sha256": "0" * 64}
    assert found(start_on(track) | {"init": hub}, track) == []
    (text,) = found(start_on(track) | {"init": hub | {"name": "another"}}, track)
    assert text == "init is another, the track has qwen3-4b-rft-alfworld"


def test_a_log_of_another_trainer_is_on_no_track() -> None:
    texts = found(start_line())
    assert "kl.coef is not in the log (the other has 0.01)" in texts
    assert texts[1].startswith("optimization.learning_rate is null, the track has ")


def test_old_logs_have_no_track_and_a_claim_is_checked_for_its_form() -> None:
    line = start_line()
    assert "track" not in line and Start.model_validate(line).track is None
    bad = start_line(track={"name": "sokoban-standard", "sha256": "short"})
    with pytest.raises(ValueError, match=r"track.sha256"):
        parse_line(json.dumps(bad).encode())
