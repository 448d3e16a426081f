"""The four choices: exactly what the log states."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from baselines.algorithms.advantage.base import Advantage
from baselines.algorithms.clipping.base import Clipping
from baselines.config.layers import resolve
from benchmark.logs.training_log import TrainingLog, read_training_log
from leaderboard.board.recipe_choices import SHIPPED, UNKNOWN, choices_of
from leaderboard.board.rows import RecipeChoices
from tasks.errors import UserError
from tests.support.training.logs import start_line, write_log

TINY = "16 \u00d7 4 episodes, 50 updates, 1 epoch, KL 0.01"


def setting(**changes: Any) -> dict[str, Any]:
    known = {
        "rollout": {"groups": 8, "group_size": 4},
        "optimization": {"updates": 1, "epochs": 2, "learning_rate": 1e-3},
        "kl": None,
    }
    return known | changes


def choices_with(setting: str) -> RecipeChoices:
    return RecipeChoices(None, None, None, None, setting)


def log_with(folder: Path, configuration: dict[str, Any], recipe: str = "grpo") -> TrainingLog:
    path = write_log(folder / "log.jsonl", [start_line(recipe, configuration=configuration)])
    return read_training_log(path)


@pytest.mark.parametrize(
    ("recipe", "choices"),
    [
        ("grpo", RecipeChoices("grpo", "ppo", "token-mean", "plain", TINY)),
        ("cispo_sm", RecipeChoices("grpo", "cispo + sequence mask", "token-mean", "plain", TINY)),
        ("sampo", RecipeChoices("gigpo", "gspo", "seq-mean-token-mean", "dynamic", TINY)),
        ("agentrl", RecipeChoices("grpo", "ppo", "token-mean", "cross_policy", TINY)),
    ],
)
def test_the_shipped_recipes(tmp_path: Path, recipe: str, choices: RecipeChoices) -> None:
    found = choices_of([log_with(tmp_path, resolved(recipe))])
    assert replace(found, hashes=()) == choices
    assert len(found.hashes) == 5


def test_hashes_tell_constants_apart_and_nothing_else(tmp_path: Path) -> None:
    """Aggregation, followed by what `dr_grpo` and `agentrl` change outside their own dimension."""

    def differ(one: dict[str, Any], other: dict[str, Any]) -> list[int]:
        pair = [choices_of([log_with(tmp_path, each)]).hashes for each in (one, other)]
        return [place for place in range(5) if pair[0][place] != pair[1][place]]

    grpo = resolved("grpo")
    assert differ(grpo, grpo | {"learner": {"name": "early_turns"}}) == [4]
    assert differ(grpo, resolved("grpo_st")) == [2]
    assert 0 in differ(grpo, resolved("dr_grpo"))
    assert 0 in differ(grpo, resolved("agentrl"))
    wide = grpo | {"clipping": grpo["clipping"] | {"clip_high": 10.0}}
    assert differ(grpo, wide) == [1]
    faster = grpo | {"optimization": grpo["optimization"] | {"learning_rate": 1.0}}
    often = grpo | {"validation": grpo["validation"] | {"every": 1}, "checkpoint_every": 1}
    assert differ(grpo, faster) == differ(grpo, often) == []
    harder = grpo | {"optimization": grpo["optimization"] | {"max_grad_norm": 9.0}}
    assert differ(grpo, harder) == [4]


def test_choices_of_one_name_and_other_code_are_told_apart(tmp_path: Path) -> None:
    """Plug-ins count in the choices that are not shipped; where all are, in the setting."""

    def hashes(plugins: dict[str, str], **changes: Any) -> tuple[str, ...]:
        start = start_line("mine", configuration=resolved("grpo") | changes, plugins=plugins)
        log = read_training_log(write_log(tmp_path / "log.jsonl", [start]))
        return choices_of([log]).hashes

    def differ(**changes: Any) -> list[int]:
        one, other = (hashes({"mine.py": digit * 64}, **changes) for digit in "12")
        renamed = hashes({"moved.py": "1" * 64}, **changes)
        assert renamed == one
        return [place for place in range(5) if one[place] != other[place]]

    clipping = resolved("grpo")["clipping"]
    assert differ(advantage={"name": "rank"}) == [0]
    assert differ(clipping=clipping | {"name": "soft"}) == [1]
    assert differ(advantage={"name": "rank"}, clipping=clipping | {"name": "soft"}) == [0, 1]
    assert differ(learner={"name": "early_turns"}) == [4]
    assert differ(advantage={"name": "rank"}, learner={"name": "early_turns"}) == [0, 4]
    assert differ() == [4]
    # What is shipped is compared with entries without plug-ins.
    assert hashes({"mine.py": "1" * 64}, advantage={"name": "rank"})[1:] == hashes({})[1:]


def test_the_shipped_choices_are_those_of_the_trainer() -> None:
    for name, dimension in (("advantage", Advantage), ("clipping", Clipping)):
        own = [
            choice
            for choice, found in dimension.choices.items()
            if found.__module__.startswith("baselines.")
        ]
        assert SHIPPED[name] == tuple(sorted(own))


def resolved(recipe: str) -> dict[str, Any]:
    return resolve(recipe, "tiny", ["sokoban"]).model_dump(mode="json")


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
            RecipeChoices(None, None, None, "cross_policy + dynamic", None),
        ),
        (setting(), choices_with("8 \u00d7 4 episodes, 1 update, 2 epochs, no KL")),
        (
            setting(kl={"coef": 0.01}),
            choices_with("8 \u00d7 4 episodes, 1 update, 2 epochs, KL 0.01"),
        ),
        (setting(kl={"coef": 0}), choices_with("8 \u00d7 4 episodes, 1 update, 2 epochs, no KL")),
        (
            setting(learner={"name": "early_turns"}),
            choices_with("8 \u00d7 4 episodes, 1 update, 2 epochs, no KL, learner early_turns"),
        ),
        (setting(learner="mine"), UNKNOWN),
        (setting(kl={"coef": "much"}), UNKNOWN),
        (setting(rollout={"groups": 8}), UNKNOWN),
        (setting(rollout={"groups": -8, "group_size": 4}), UNKNOWN),
        (setting(optimization={"updates": True, "epochs": 1}), UNKNOWN),
        ({name: value for name, value in setting().items() if name != "kl"}, UNKNOWN),
    ],
)
def test_other_forms(tmp_path: Path, configuration: dict[str, Any], choices: RecipeChoices) -> None:
    assert choices_of([log_with(tmp_path, configuration)]) == choices


def test_a_number_that_no_float_holds_is_refused_with_its_log(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"line 1: configuration: .* the number 10000"):
        choices_of([log_with(tmp_path, setting(kl={"coef": 10**400}))])
    largest = log_with(tmp_path, setting(kl={"coef": 2**64 - 1}))
    setting_shown = choices_of([largest]).setting
    assert setting_shown is not None and setting_shown.endswith(", KL 1.84467e+19")


def test_logs_that_disagree(tmp_path: Path) -> None:
    logs = [log_with(tmp_path, {"aggregation": name}) for name in ("token-mean", "other")]
    assert choices_of(logs[:1]).aggregation == "token-mean"
    assert choices_of(logs) == UNKNOWN
