"""The preset `released` reproduces recorded results of the released code's own functions."""

import pytest
import torch

from baselines.algorithms.advantage.base import Relative, RowBatch
from baselines.config.layers import PRESETS, RECIPES, names, resolve
from tasks.errors import UserError
from tests.baselines.algorithms.vectors import Case, cases, close, matrix, numbers

ROUNDED = 1e-6
"""Tolerance for values that the recording code rounded to single precision."""


def released(recipe: str, *own: str) -> Relative:
    """The advantage of a recipe under only the preset."""
    chosen = resolve(recipe, "paper", ["alfworld"], ["preset=released", *own]).advantage
    assert isinstance(chosen, Relative)
    return chosen


def rows_of(inputs: Case) -> RowBatch:
    """The rows of a recording, with the inputs that it contains."""
    scores, mask = matrix(inputs["token_level_rewards"]).sum(1), matrix(inputs["response_mask"])
    trajectories = inputs["traj_uid"]
    turns = [trajectories[:row].count(name) for row, name in enumerate(trajectories)]
    return RowBatch(
        scores=scores,
        groups=numbers(inputs["uid"]),
        trajectories=numbers(trajectories),
        turns=torch.tensor(inputs.get("turn_index", turns)),
        step_rewards=torch.zeros_like(scores),
        step_penalties=torch.zeros_like(scores),
        anchors=[""] * len(scores),
        mask=mask,
        token_costs=torch.zeros_like(mask),
        entropies=list(matrix(inputs["token_entropy"])) if "token_entropy" in inputs else [],
        values=[],
    )


@pytest.mark.parametrize(
    ("recipe", "own", "recorded"),
    [
        ("grpo", [], (True, True)),
        ("dr_grpo", [], (True, False)),
        # The authors call this vanilla GRPO.
        ("grpo", ["advantage.over=trajectories"], (False, True)),
        ("dr_grpo", ["advantage.over=trajectories"], (False, False)),
    ],
)
def test_group_advantages(recipe: str, own: list[str], recorded: tuple[bool, bool]) -> None:
    advantage = released(recipe, *own)
    for case in cases("grpo_advantage.json"):
        rows = rows_of(case["inputs"])
        (expected,) = (
            each
            for each in case["expected"]
            if (each["cross_steps"], each["norm_by_std"]) == recorded
        )
        close(advantage.of(rows)[:, None] * rows.mask, expected["advantages"], ROUNDED)


def test_the_episode_part_of_gigpo() -> None:
    # Without the second part: the recording has step returns, but the advantage takes rewards.
    advantage = released("sampo", "advantage.step_weight=0")
    for case in cases("gigpo_advantage.json"):
        rows = rows_of(case["inputs"])
        for expected in case["expected"]:
            if expected["mode"] == "mean_std_norm":
                found = advantage.of(rows)[:, None] * rows.mask
                close(found, expected["episode_advantages"], ROUNDED)


def test_empg() -> None:
    advantage = released("empg")
    for case in cases("empg_advantage.json"):
        rows = rows_of(case["inputs"])
        found = advantage.of(rows)[:, None] * rows.mask
        close(found, case["expected"]["advantages"], ROUNDED)


WITHOUT_EFFECT = ("ppo", "reinforce_pp", "rloo")


@pytest.mark.parametrize("recipe", sorted({*names(RECIPES)} - {*WITHOUT_EFFECT}))
def test_the_preset_changes_what_a_group_is_compared_by(recipe: str) -> None:
    config = resolve(recipe, "paper", ["alfworld"], ["preset=released"])
    assert config.regularizer_aggregation == "token-mean"
    if isinstance(config.advantage, Relative):
        assert (config.advantage.over, config.advantage.single) == ("rows", "raw")
    plain = resolve(recipe, "paper", ["alfworld"])
    # Runs without the new setting do not even contain its name.
    assert "regularizer_aggregation" not in plain.model_dump()
    assert plain.aggregation == config.aggregation


@pytest.mark.parametrize("recipe", WITHOUT_EFFECT)
def test_a_preset_that_changes_nothing_is_refused(recipe: str) -> None:
    with pytest.raises(UserError) as raised:
        resolve(recipe, "tiny", ["sokoban"], ["preset=released"])
    assert "preset released has no effect with advantage " in str(raised.value)
    assert str(raised.value).endswith("; remove it")


def test_an_aggregation_that_nothing_uses_is_no_difference() -> None:
    own = ["aggregation=seq-mean-token-mean", "kl.coef=0"]
    said = [*own, "regularizer_aggregation=token-mean"]
    plain, other = (resolve("rloo", "tiny", ["sokoban"], each) for each in (own, said))
    assert other.computes_like(plain)
    for use in ("entropy_coef=0.01", "kl.coef=0.01"):
        plain, other = (resolve("rloo", "tiny", ["sokoban"], [*each, use]) for each in (own, said))
        assert not other.computes_like(plain)


def test_a_preset_stands_below_everything_else_and_has_to_exist() -> None:
    assert released("grpo", "advantage.single=zero").single == "zero"
    assert names(PRESETS) == ("released",)
    with pytest.raises(UserError, match="no preset 'relased'; did you mean released"):
        resolve("grpo", "tiny", ["sokoban"], ["preset=relased"])
