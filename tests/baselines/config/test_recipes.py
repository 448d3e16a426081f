"""Compares the shipped recipes and scales with the papers."""

import pytest
import yaml

from baselines.algorithms.advantage.empg import EMPG
from baselines.algorithms.advantage.gigpo import GiGPO
from baselines.algorithms.advantage.grpo import GRPO
from baselines.algorithms.clipping.sapo import SAPO
from baselines.config.layers import RECIPES, SCALES, names, resolve
from baselines.config.run import max_turns_of
from baselines.config.schema import TrainConfig
from benchmark.cli.arguments import training
from tasks.registry import load_task
from tests.baselines.config.chosen import ENVIRONMENTS, TASKS, clip, paper, shipped


def test_the_recipes_are_those_of_the_paper_and_its_neighbors() -> None:
    expected = "agentrl agentrl_cross agentrl_norm cispo cispo_sm dapo_gigpo dapo_grpo dr_grpo empg"
    expected += " gigpo grpo grpo_sm grpo_st gspo ppo reinforce_pp rloo sampo sapo sapo_sm"
    assert names(RECIPES) == tuple(expected.split())
    assert names(SCALES) == ("paper", "paper_released", "smoke", "tiny")
    assert tuple(sorted(training.SCALES)) == names(SCALES)  # in the help of --scale


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("scale", names(SCALES))
@pytest.mark.parametrize("recipe", names(RECIPES))
def test_every_recipe_goes_with_every_scale_and_task(recipe: str, scale: str, task: str) -> None:
    config = shipped(recipe, scale, task)
    # A recipe's own choices take precedence over the scale.
    chosen = yaml.safe_load((RECIPES / f"{recipe}.yaml").read_text())
    assert config.advantage.name == chosen["advantage"]["name"]
    assert config.clipping.name == chosen["clipping"]["name"]
    assert config.aggregation == chosen["aggregation"]
    masked = "sequence_mask" in chosen["clipping"]
    assert (config.clipping.sequence_mask is not None) == masked == recipe.endswith("_sm")
    sampling = chosen.get("sampling", {})
    assert (config.sampling.dynamic is not None) == ("dynamic" in sampling)
    assert (config.sampling.cross_policy is not None) == ("cross_policy" in sampling)


# Table S1 of arXiv 2602.21534v2, one line per task: groups, group size, longest response, turns,
# rows per mini-batch, KL coefficient, validation temperature, updates.
TABLE_S1: dict[str, tuple[float, ...]] = {
    "alfworld": (16, 8, 512, 50, 256, 0.01, 0.6, 200),
    "webshop": (16, 8, 512, 15, 128, 0.01, 0.6, 200),
    "sokoban": (32, 8, 512, 15, 64, 0.01, 0.7, 200),
    "tir_math": (512, 5, 4096, 5, 128, 0.0, 0.6, 17),
}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("recipe", names(RECIPES))
def test_sizes_at_paper_scale_are_those_of_table_s1(recipe: str, task: str) -> None:
    config = paper(recipe, task)
    rollout, optimization, validation = config.rollout, config.optimization, config.validation
    found = (
        rollout.groups,
        rollout.group_size,
        rollout.max_tokens,
        max_turns_of(config, load_task(task)),
        optimization.mini_batch_rows,
        config.kl.coef,
        validation.temperature,
        optimization.updates,
    )
    assert found == TABLE_S1[task]
    # The code behind the table has no penalty in mathematics and masks episodes instead.
    mathematics = task == "tir_math"
    assert (rollout.temperature, config.format_penalty) == (1.0, 0.0 if mathematics else 0.1)
    assert config.void_episodes == ("masked" if mathematics else "trained")
    assert (optimization.learning_rate, optimization.mini_batches) == (1e-6, None)
    assert (validation.top_p, validation.top_k) == (0.95, 20)


@pytest.mark.parametrize("recipe", ["grpo", "grpo_st", "grpo_sm", "dr_grpo", "dapo_grpo"])
def test_limits_of_token_ratios_in_table_s1(recipe: str) -> None:
    assert [clip(paper(recipe, task)) for task in ENVIRONMENTS] == [(0.2, 0.2)] * 3
    assert clip(paper(recipe, "tir_math")) == (0.28, 0.2)


@pytest.mark.parametrize("recipe", ["gigpo", "empg", "dapo_gigpo"])
def test_limits_of_recipes_that_table_s1_has_for_the_environments(recipe: str) -> None:
    assert [clip(paper(recipe, task)) for task in ENVIRONMENTS] == [(0.2, 0.2)] * 3


@pytest.mark.parametrize("recipe", ["cispo", "cispo_sm"])
def test_limits_of_cispo_in_table_s1(recipe: str) -> None:
    assert [clip(paper(recipe, task)) for task in ENVIRONMENTS] == [(0.2, 1.0)] * 3
    assert clip(paper(recipe, "tir_math")) == (0.28, 1.0)


def test_limits_of_gspo_in_table_s1() -> None:
    assert clip(paper("gspo", "alfworld")) == (4e-3, 3e-3)
    assert clip(paper("gspo", "webshop")) == (4e-2, 3e-2)
    assert clip(paper("gspo", "sokoban")) == (4e-3, 3e-3)
    assert clip(paper("gspo", "tir_math")) == (4e-4, 3e-4)


@pytest.mark.parametrize("task", TASKS)
def test_constants_of_table_s1_that_no_task_changes(task: str) -> None:
    for recipe in ("sapo", "sapo_sm"):
        clipping = paper(recipe, task).clipping
        assert isinstance(clipping, SAPO)
        assert (clipping.tau_positive, clipping.tau_negative) == (1.0, 1.05)
    for recipe in ("gigpo", "dapo_gigpo", "sampo"):
        advantage = paper(recipe, task).advantage
        assert isinstance(advantage, GiGPO)
        assert (advantage.gamma, advantage.step_weight) == (0.95, 1.0)
        assert advantage.step_norm == "mean_std"
    advantage = paper("empg", task).advantage
    assert isinstance(advantage, EMPG)
    assert (advantage.k, advantage.k_future, advantage.zeta) == (1.0, 1.0, 0.05)
    for recipe in ("dapo_grpo", "dapo_gigpo", "sampo"):
        dynamic = paper(recipe, task).sampling.dynamic
        assert dynamic is not None and dynamic.tries == 3


def test_dr_grpo_is_grpo_without_the_standard_deviation() -> None:
    for recipe, divides in (("grpo", True), ("dr_grpo", False)):
        advantage = resolve(recipe, "tiny", ["sokoban"]).advantage
        assert isinstance(advantage, GRPO) and advantage.divide_by_std is divides


def test_what_a_scale_says_of_one_task_is_left_out_with_several() -> None:
    assert paper("gspo", "webshop").clipping != paper("gspo", "sokoban").clipping
    both = resolve("gspo", "paper", ["webshop", "sokoban"])
    assert clip(both) == (4e-3, 3e-3)
    assert (both.rollout.groups, both.optimization.mini_batch_rows) == (16, 256)


def test_a_mixture_has_the_turn_limits_and_the_longest_responses_of_its_tasks() -> None:
    rollout = resolve("grpo", "tiny", ["sokoban", "alfworld", "tir_math"]).rollout
    assert (rollout.max_turns, rollout.max_tokens, rollout.groups) == ({"alfworld": 20}, 192, 16)
    assert resolve("grpo", "paper", ["sokoban", "webshop"]).rollout.max_tokens == 512
    own = ["rollout.max_turns=9", "rollout.max_tokens=5"]
    rollout = resolve("grpo", "tiny", ["sokoban", "alfworld"], own).rollout
    assert (rollout.max_turns, rollout.max_tokens) == (9, 5)


def test_the_scale_of_the_released_scripts_differs_where_they_do() -> None:
    def released(recipe: str, task: str) -> TrainConfig:
        return shipped(recipe, "paper_released", task)

    for task in ENVIRONMENTS:
        advantage = released("gigpo", task).advantage
        assert isinstance(advantage, GiGPO)
        assert (advantage.over, advantage.single) == ("rows", "raw")
        assert released("grpo", task).regularizer_aggregation == "token-mean"
    assert released("grpo", "alfworld").entropy_coef == released("grpo", "webshop").entropy_coef
    assert released("grpo", "alfworld").entropy_coef == 0.001
    assert released("grpo", "sokoban").entropy_coef == released("grpo", "sokoban").kl.coef == 0
    assert released("grpo", "sokoban").optimization.warmup_updates == 15
    assert released("grpo", "tir_math").format_penalty == 0
    assert released("grpo", "tir_math").void_episodes == "masked"
    norms = [released(recipe, "webshop").advantage for recipe in ("gigpo", "sampo")]
    assert [getattr(norm, "step_norm", None) for norm in norms] == ["mean_std", "mean"]
    # Both are for GPUs, where the engine is separate from the trainer.
    assert released("grpo", "alfworld").tis_cap == paper("grpo", "alfworld").tis_cap == 2.0


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("recipe", names(RECIPES))
def test_every_recipe_can_be_tried_in_minutes(recipe: str, task: str) -> None:
    config = shipped(recipe, "smoke", task)
    episodes = config.rollout.groups * config.rollout.group_size * config.optimization.updates
    assert episodes <= 50 and config.validation.every is None
    assert config.optimization.mixed_precision == "bf16"
