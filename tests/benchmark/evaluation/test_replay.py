"""Replay: honest records pass, and every changed field is detected."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmark.evaluation.records import EpisodeRecord
from benchmark.evaluation.replay import replay_run
from benchmark.evaluation.run_folder import RECORDS, read_run
from tasks.errors import UserError
from tests.benchmark.evaluation.test_run_folder import play


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("run")
    play(path)
    return path


def differences(run: Path, record: dict[str, Any]) -> list[str]:
    manifest, _ = read_run(run)
    (replay,) = replay_run(manifest, [EpisodeRecord.model_validate_json(json.dumps(record))])
    return [f"{difference.turn}:{difference.field}" for difference in replay.differences]


def record(run: Path, number: int = 0) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((run / RECORDS).read_text().splitlines()[number])
    return loaded


def test_all_records_of_a_run_hold(run: Path) -> None:
    replays = list(replay_run(*read_run(run)))
    assert len(replays) == 256
    assert not any(replay.differences for replay in replays)
    assert all(len(replay.steps) == len(replay.record.turns) for replay in replays)


@pytest.mark.parametrize(
    ("field", "value", "found"),
    [
        ("success", True, "None:success"),
        ("score", 10.0, "None:score"),
        ("reward", 10.0, "None:reward"),
        ("penalty", 0.1, "None:penalty"),
        ("category", "14", "None:category"),
        ("repeat", 1, "None:repeat"),
        ("observation_hash", "0" * 16, "None:observation_hash"),
        ("observation_hash", None, "None:turns"),
        ("error", "EngineError: x", "None:error"),
    ],
)
def test_a_changed_episode_field_is_found(run: Path, field: str, value: object, found: str) -> None:
    original = record(run)
    assert original["success"] is False
    assert found in differences(run, {**original, field: value})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("prompt_hash", "0" * 16),
        ("action", "elsewhere"),
        ("action", None),
        ("format_ok", False),
        ("action_ok", False),
        ("reward", 0.9),
        ("observation_hash", "0" * 16),
        ("info", {"x": 1}),
    ],
)
def test_a_changed_turn_field_is_found(run: Path, field: str, value: object) -> None:
    changed = record(run)
    changed["turns"][2][field] = value
    assert f"3:{field}" in differences(run, changed)


def test_another_response_is_found(run: Path) -> None:
    changed = record(run)
    action = "down" if changed["turns"][0]["action"] != "down" else "up"
    changed["turns"][0]["response"] = f"<think></think><action>{action}</action>"
    assert "1:action" in differences(run, changed)


@pytest.mark.slow
def test_missing_and_surplus_turns_are_found(run: Path) -> None:
    changed = record(run)
    changed["turns"].pop()
    assert "None:outcome" in differences(run, changed)
    changed = record(run)
    changed["turns"].append(changed["turns"][-1])
    assert "None:turns" in differences(run, changed)


def test_an_episode_that_the_panel_does_not_have(run: Path) -> None:
    with pytest.raises(UserError, match="has no episode one-box-999"):
        differences(run, {**record(run), "episode": "one-box-999"})
    with pytest.raises(UserError, match="does not play two_boxes"):
        differences(run, {**record(run), "panel": "two_boxes"})


def test_a_run_of_another_version_is_refused(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "tasks.sokoban.task.SokobanTask.prompt_template", lambda self: "another prompt"
    )
    with pytest.raises(UserError, match="was played with prompt_sha256 .* but here it is"):
        list(replay_run(*read_run(run)))
