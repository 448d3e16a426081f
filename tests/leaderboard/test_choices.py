"""The four choices: what the log says, and nothing else."""

from pathlib import Path
from typing import Any

import pytest

from baselines.recipes import resolve
from benchmark.training_log import TrainingLog, read_training_log
from leaderboard.choices import UNKNOWN, choices_of
from leaderboard.rows import Choices
from tests.training_logs import start_line, write_log


def log_with(folder: Path, configuration: dict[str, Any], recipe: str = "grpo") -> TrainingLog:
    path = write_log(folder / "log.jsonl", [start_line(recipe, configuration=configuration)])
    return read_training_log(path)


@pytest.mark.parametrize(
    ("recipe", "choices"),
    [
        ("grpo", Choices("grpo", "ppo", "token-mean", "plain")),
        ("cispo_sm", Choices("grpo", "cispo + sequence mask", "token-mean", "plain")),
        ("sampo", Choices("gigpo", "gspo", "seq-mean-token-mean", "dynamic")),
        ("agentrl", Choices("grpo", "ppo", "token-mean", "cross_policy")),
    ],
)
def test_the_shipped_recipes(tmp_path: Path, recipe: str, choices: Choices) -> None:
    configuration = resolve(recipe, "tiny", ["sokoban"]).model_dump(mode="json")
    assert choices_of([log_with(tmp_path, configuration)]) == choices


def test_nothing_is_guessed_from_the_recipes_name(tmp_path: Path) -> None:
    assert choices_of([log_with(tmp_path, {"optimizer": {}}, recipe="sampo")]) == UNKNOWN
    assert choices_of([]) == UNKNOWN


@pytest.mark.parametrize(
    ("configuration", "choices"),
    [
        ({"advantage": "grpo"}, UNKNOWN),
        ({"advantage": {"name": 3}}, UNKNOWN),
        ({"advantage": {"name": "<b>grpo</b>"}}, UNKNOWN),
        ({"clipping": {"name": "ppo"}}, UNKNOWN),  # with or without a mask?
        ({"aggregation": ["token-mean"]}, UNKNOWN),
        ({"sampling": {}}, UNKNOWN),
        ({"sampling": None}, UNKNOWN),
        ({"sampling": {"=cmd": {}}}, UNKNOWN),
        (
            {"sampling": {"dynamic": {}, "cross_policy": {}}},
            Choices(None, None, None, "cross_policy + dynamic"),
        ),
    ],
)
def test_other_forms(tmp_path: Path, configuration: dict[str, Any], choices: Choices) -> None:
    assert choices_of([log_with(tmp_path, configuration)]) == choices


def test_logs_that_disagree(tmp_path: Path) -> None:
    logs = [log_with(tmp_path, {"aggregation": name}) for name in ("token-mean", "other")]
    assert choices_of(logs[:1]).aggregation == "token-mean"
    assert choices_of(logs) == UNKNOWN
