"""Recipes, scales and settings of the user's become one checked configuration, or one line."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from baselines.algorithms.advantage.empg import EMPG
from baselines.algorithms.advantage.gae import GAE
from baselines.algorithms.advantage.gigpo import GiGPO
from baselines.algorithms.advantage.grpo import GRPO
from baselines.algorithms.clipping.cispo import CISPO
from baselines.algorithms.clipping.gspo import GSPO
from baselines.algorithms.clipping.ppo import PPOClip
from baselines.algorithms.clipping.sapo import SAPO
from baselines.config.layers import RECIPES, SCALES, deep_merge, names, resolve
from baselines.config.schema import TrainConfig
from tasks.errors import UserError
from tasks.registry import load_task

TASKS = ("sokoban", "alfworld", "webshop", "tir_math")
ENVIRONMENTS = TASKS[:3]


@cache
def shipped(recipe: str, scale: str, task: str) -> TrainConfig:
    return resolve(recipe, scale, [task])


def paper(recipe: str, task: str) -> TrainConfig:
    return shipped(recipe, "paper", task)


def fault(*own: str, recipe: str = "sampo", scale: str = "tiny", task: str = "sokoban") -> str:
    """The one line that a wrong choice ends in."""
    with pytest.raises(UserError) as caught:
        resolve(recipe, scale, [task], own)
    (line,) = str(caught.value).splitlines()
    return line


def test_the_recipes_are_those_of_the_paper_and_its_neighbors() -> None:
    expected = "agentrl cispo cispo_sm dapo_gigpo dapo_grpo dr_grpo empg gigpo grpo grpo_sm grpo_st"
    expected += " gspo ppo reinforce_pp rloo sampo sapo sapo_sm"
    assert names(RECIPES) == tuple(expected.split())
    assert names(SCALES) == ("paper", "paper_released", "tiny")


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("scale", names(SCALES))
@pytest.mark.parametrize("recipe", names(RECIPES))
def test_every_recipe_goes_with_every_scale_and_task(recipe: str, scale: str, task: str) -> None:
    config = shipped(recipe, scale, task)
    # A recipe's own choices survive whatever the scale says.
    chosen = yaml.safe_load((RECIPES / f"{recipe}.yaml").read_text())
    assert config.advantage.name == chosen["advantage"]["name"]
    assert config.clipping.name == chosen["clipping"]["name"]
    assert config.aggregation == chosen["aggregation"]
    masked = "sequence_mask" in chosen["clipping"]
    assert (config.clipping.sequence_mask is not None) == masked == recipe.endswith("_sm")
    sampling = chosen.get("sampling", {})
    assert (config.sampling.dynamic is not None) == ("dynamic" in sampling)
    assert (config.sampling.cross_policy is not None) == ("cross_policy" in sampling)


# Table S1 of arXiv 2602.21534v2, one line a task: groups, group size, longest response, turns,
# rows of a mini-batch, KL coefficient, validation temperature, updates.
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
        rollout.max_turns or load_task(task).training_max_turns,
        optimization.mini_batch_rows,
        config.kl.coef,
        validation.temperature,
        optimization.updates,
    )
    assert found == TABLE_S1[task]
    assert (rollout.temperature, config.format_penalty) == (1.0, 0.1)
    assert (optimization.learning_rate, optimization.mini_batches) == (1e-6, None)
    assert (validation.top_p, validation.top_k) == (0.95, 20)


def clip(config: TrainConfig) -> tuple[float, float]:
    """Upper and lower limit, in the order of the table."""
    clipping = config.clipping
    assert isinstance(clipping, PPOClip | GSPO | CISPO)
    return clipping.clip_high, clipping.clip_low


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


def test_settings_of_ones_own_win_in_every_form() -> None:
    own = (
        "rollout.groups=3",
        "optimization.learning_rate=1e-4",
        "optimization.betas=[0.9, 0.95]",
        "validation.every=null",
        "unit=trajectory",
        "advantage.step_weight=0.5",
        "sampling.dynamic={tries: 5, fill: smaller}",
        "rollout.groups=4",
    )
    config = resolve("sampo", "tiny", ["sokoban"], own)
    assert config.rollout.groups == 4, "the last one counts"
    untouched = resolve("sampo", "tiny", ["sokoban"])
    assert config.rollout.group_size == untouched.rollout.group_size, "its neighbors stay"
    assert config.optimization.learning_rate == 1e-4
    assert config.optimization.betas == (0.9, 0.95)
    assert config.validation.every is None
    assert config.unit == "trajectory"
    assert isinstance(config.advantage, GiGPO) and config.advantage.step_weight == 0.5
    dynamic = config.sampling.dynamic
    assert dynamic is not None and (dynamic.tries, dynamic.fill) == (5, "smaller")
    assert resolve("sampo", "tiny", ["sokoban"], ["sampling.dynamic=null"]).sampling.dynamic is None


def test_another_choice_of_a_dimension_takes_nothing_from_the_old_one() -> None:
    config = resolve("grpo", "paper", ["tir_math"], ["clipping.name=gspo"])
    assert config.clipping == GSPO(name="gspo")  # and not GRPO's upper limit of 0.28
    config = resolve("gspo", "paper", ["webshop"], ["clipping={name: gspo, clip_low: 0.5}"])
    assert clip(config) == (4e-2, 0.5)
    config = resolve("sampo", "tiny", ["sokoban"], ["advantage.name=gae", "advantage.lam=0.9"])
    assert config.advantage == GAE(name="gae", lam=0.9)


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ("rollout.grups=3", "there is no rollout.grups; did you mean groups or group_size?"),
        ("rolout.groups=3", "there is no rolout; did you mean rollout.groups?"),
        ("rolout={groups: 3, group_size: 2}", "there is no rolout; did you mean rollout?"),
        ("learning_rate=1", "there is no learning_rate; did you mean optimization.learning_rate?"),
        ("lerning_rate=1", "there is no lerning_rate; did you mean optimization.learning_rate?"),
        ("run.learning_rate=1", "there is no run; did you mean optimization.learning_rate?"),
        ("lr=1", "there is no lr; did you mean optimization.learning_rate?"),
        (
            "max_tokens=9",
            "no max_tokens; did you mean rollout.max_tokens or validation.max_tokens?",
        ),
        ("sampling.tries=3", "there is no sampling.tries; did you mean sampling.dynamic.tries?"),
        ("optimization.kl.coef=1", "there is no optimization.kl; did you mean kl?"),
        ("nothing=1", "there is no nothing; there are advantage, clipping, aggregation, sampling,"),
        ("advantage.gama=1", "there is no advantage.gama; did you mean gamma"),
        ("clipping.clip_lo=1", "there is no clipping.clip_lo; did you mean clip_low"),
        ("sampling.dynamic.trys=3", "there is no sampling.dynamic.trys; did you mean tries?"),
        ("optimization.lr=1", "no optimization.lr; did you mean optimization.learning_rate?"),
        ("optimization.k=1", "there is no optimization.k; there are updates, mini_batch_rows,"),
        ("clipping.sequence_mask.delt=1", "no clipping.sequence_mask.delt; did you mean delta?"),
        ("kl.x.y=1", "there is no kl.x; there are coef, estimator, place"),
        ("rollout.groups=0", "rollout.groups: Input should be greater than 0"),
        ("rollout.groups=1e3", "rollout.groups: Input should be a valid integer"),
        ("optimization.learning_rate=.nan", "optimization.learning_rate: Input should be"),
        ("optimization.learning_rate=-1", "learning_rate: Input should be greater than or equal"),
        ("optimization.betas=[0.9, 1.0]", "optimization.betas.1: Input should be less than 1"),
        (
            "clipping={name: ppo, dual_clip: 1}",
            "clipping.dual_clip: Input should be greater than 1",
        ),
        ("validation.top_p=0", "validation.top_p: Input should be greater than 0"),
        ("entropy_coef=.inf", "entropy_coef: Input should be a finite number"),
        ("aggregation=token_mean", "aggregation: Input should be 'token-mean', 'seq-mean-tok"),
        ("advantage.name=grop", "advantage.name: there is no 'grop'; did you mean grpo or rloo?"),
        ("clipping.name=pppo", "clipping.name: there is no 'pppo'; did you mean ppo, sapo or "),
        ("clipping.name=3", "clipping.name: there is no '3'; there are cispo, gspo, ppo, sapo"),
        ("advantage=grpo", "advantage: give its name and constants: {name: NAME, ...}"),
        ("rollout=3", "rollout: has keys of its own; write rollout: {KEY: VALUE}, or "),
        ("kl={1: 2}", "kl.1: Keys should be strings"),
    ],
)
def test_a_wrong_setting_is_named(own: str, message: str) -> None:
    line = fault(own)
    assert line.startswith("recipe sampo at scale tiny: ")
    assert message in line


@pytest.mark.parametrize("own", ["rollout.groups", "=3", "rollout.=3", ".groups=3", "a..b=3", ""])
def test_a_setting_that_is_none_is_refused(own: str) -> None:
    assert fault(own).startswith("--set needs KEY=VALUE, such as optimization.learning_rate=1e-4")


def test_a_value_that_is_no_yaml_is_refused() -> None:
    assert fault("rollout.groups=[") == "--set rollout.groups=[: the value is not valid"


@pytest.mark.parametrize(
    ("own", "message"),
    [
        (
            ["tis_cap=2", "rollout.temperature=0.7"],
            "engines give log-probabilities at temperature 1, so tis_cap needs "
            "tokens sampled at it: set rollout.temperature=1, or leave out tis_cap",
        ),
        (
            ["rollout.group_size=1"],
            "gigpo compares the episodes of a group, but rollout.group_size=1 leaves "
            "nothing to compare: use gae or reinforce_pp",
        ),
        (
            ["rollout.group_size=1", "advantage.name=gae"],
            "dynamic sampling would drop every group of one episode",
        ),
        (["kl.place=reward"], "kl.place=reward needs advantages of tokens (gae or reinforce_pp)"),
        (
            ["optimization.mini_batch_rows=4", "optimization.mini_batches=2"],
            "optimization: give mini_batch_rows or mini_batches, not both",
        ),
    ],
)
def test_contradictions_are_refused_with_their_reason(own: list[str], message: str) -> None:
    assert message in fault(*own)


def test_of_two_ways_to_say_one_thing_the_later_layer_wins() -> None:
    # Scale tiny has mini_batches, scale paper has mini_batch_rows.
    size = resolve("sampo", "tiny", ["sokoban"], ["optimization.mini_batch_rows=8"]).optimization
    assert (size.mini_batch_rows, size.mini_batches) == (8, None)
    size = resolve("sampo", "paper", ["sokoban"], ["optimization.mini_batches=2"]).optimization
    assert (size.mini_batch_rows, size.mini_batches) == (None, 2)
    # What is taken back says nothing of the other.
    size = resolve("sampo", "tiny", ["sokoban"], ["optimization.mini_batch_rows=null"]).optimization
    assert (size.mini_batch_rows, size.mini_batches) == (None, 4)


def test_the_later_layer_wins_in_files_too(tmp_path: Path) -> None:
    special = {"common": {"optimization": {"mini_batch_rows": 6}}}
    content = {"common": {"optimization": {"mini_batches": 3}}, "tasks": {"sokoban": special}}
    scale = write(tmp_path / "small.yaml", content)
    size = resolve("grpo", scale, ["sokoban"]).optimization
    assert (size.mini_batch_rows, size.mini_batches) == (6, None)
    size = resolve("grpo", scale, ["webshop"]).optimization
    assert (size.mini_batch_rows, size.mini_batches) == (None, 3)


def test_the_order_of_settings_of_ones_own_does_not_matter() -> None:
    own = ["advantage.lam=0.9", "advantage.name=gae"]
    for order in (own, own[::-1]):
        assert resolve("sampo", "tiny", ["sokoban"], order).advantage == GAE(name="gae", lam=0.9)


def test_groups_of_one_are_for_recipes_without_groups() -> None:
    for recipe in ("ppo", "reinforce_pp"):
        config = resolve(recipe, "tiny", ["sokoban"], ["rollout.group_size=1"])
        assert config.rollout.group_size == 1
    for recipe in ("grpo", "empg", "rloo", "cispo_sm", "agentrl"):
        assert "leaves nothing to compare" in fault("rollout.group_size=1", recipe=recipe)


def test_what_is_unknown_is_named_with_near_matches() -> None:
    assert fault(recipe="samp").startswith("there is no recipe 'samp'; did you mean sampo")
    assert fault(recipe="xyz").startswith("there is no recipe 'xyz'; there are agentrl, cispo, ")
    assert (
        fault(scale="papper") == "there is no scale 'papper'; did you mean paper or paper_released?"
    )
    assert fault(task="socoban").startswith("unknown task 'socoban'; did you mean sokoban?;")
    assert fault(recipe="no/such.yaml") == "no/such.yaml does not exist"


def write(path: Path, content: Any) -> str:
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return str(path)


def test_recipes_and_scales_of_ones_own(tmp_path: Path) -> None:
    recipe = write(
        tmp_path / "mine.yaml",
        {
            "advantage": {"name": "rloo"},
            "clipping": {"name": "cispo"},
            "aggregation": "seq-mean-token-sum",
        },
    )
    special = {"common": {"kl": {"coef": 0.5}}, "recipes": {"rloo": {"entropy_coef": 0.1}}}
    scale = write(
        tmp_path / "small.yaml",
        {"common": {"rollout": {"groups": 2}}, "tasks": {"sokoban": special}},
    )
    config = resolve(recipe, scale, ["sokoban"])
    assert (config.advantage.name, config.aggregation) == ("rloo", "seq-mean-token-sum")
    assert (config.rollout.groups, config.kl.coef, config.entropy_coef) == (2, 0.5, 0.0)
    elsewhere = resolve(recipe, scale, ["webshop"])
    assert (elsewhere.rollout.groups, elsewhere.kl.coef) == (2, 0.0)
    assert resolve("rloo", scale, ["sokoban"]).entropy_coef == 0.1


def test_the_name_of_a_file_does_not_decide_its_constants(tmp_path: Path) -> None:
    content = (RECIPES / "gspo.yaml").read_text("utf-8")
    recipe = write(tmp_path / "my_gspo.yaml", content)
    # The limits of the schema; those of scale paper are for the shipped recipe on webshop.
    assert clip(resolve(recipe, "paper", ["webshop"])) == (4e-3, 3e-3)
    recipe = write(tmp_path / "gspo.yaml", content)
    line = fault(recipe=recipe)
    assert f"{recipe}: gspo is the name of a shipped recipe" in line
    assert line.endswith("rename the file, for example to my_gspo.yaml, or use --recipe gspo")
    assert "is the name of a shipped recipe" in fault(recipe=str(RECIPES / "gspo.yaml"))


@pytest.mark.parametrize("name", ["my recipe", "_x", ".x", "größe", "a" * 101])
def test_a_file_whose_name_cannot_stand_in_a_log_is_refused(name: str, tmp_path: Path) -> None:
    recipe = write(tmp_path / f"{name}.yaml", (RECIPES / "grpo.yaml").read_text("utf-8"))
    assert f"{recipe}: the file's name becomes the recipe's name: rename it to" in (
        fault(recipe=recipe)
    )


def test_a_scale_for_what_there_is_not_is_refused(tmp_path: Path) -> None:
    scale = write(tmp_path / "a.yaml", {"tasks": {"sokoban": {"recipes": {"gsop": {}}}}})
    assert fault(scale=scale) == (
        f"{scale}: tasks.sokoban.recipes: no shipped recipe is called 'gsop', and a "
        "custom recipe contains its own values; did you mean gspo, sapo or grpo?"
    )
    scale = write(tmp_path / "b.yaml", {"tasks": {"socoban": {}}})
    assert fault(scale=scale) == f"{scale}: tasks: unknown task 'socoban'; did you mean sokoban?"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("advantage: {name: [", "cannot be read: "),
        ("just a text", "must contain settings, like the shipped files"),
        ("", "must contain settings, like the shipped files"),
        ("clipping: {name: ppo}\naggregation: token-mean\n", "advantage: Field required"),
    ],
)
def test_a_broken_recipe_is_one_line(content: str, message: str, tmp_path: Path) -> None:
    line = fault(recipe=write(tmp_path / "broken.yaml", content))
    assert "broken.yaml" in line
    assert message in line


def test_a_file_that_is_no_text_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "binary.yaml"
    path.write_bytes(b"\xff\xfe\x00advantage")
    assert "binary.yaml cannot be read: " in fault(recipe=str(path))


def test_an_unknown_part_of_a_scale_is_named(tmp_path: Path) -> None:
    scale = write(tmp_path / "s.yaml", {"task": {"sokoban": {}}})
    assert f"{scale}: task: Extra inputs are not permitted" in fault(scale=scale)


leaves = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=3))
trees = st.dictionaries(
    st.sampled_from("abcd"),
    st.recursive(
        leaves, lambda inner: st.dictionaries(st.sampled_from("abcd"), inner), max_leaves=8
    ),
)


@given(trees, trees)
def test_merging_keeps_what_nobody_replaces(under: dict[str, Any], over: dict[str, Any]) -> None:
    joined = deep_merge(under, over)
    assert deep_merge(joined, over) == joined
    assert deep_merge(under, {}) == under and deep_merge({}, over) == over
    assert joined.keys() == under.keys() | over.keys()
    for key in joined:
        if key not in over:
            assert joined[key] == under[key]
        elif not (isinstance(over[key], dict) and isinstance(under.get(key), dict)):
            assert joined[key] == over[key]


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
    norms = [released(recipe, "webshop").advantage for recipe in ("gigpo", "sampo")]
    assert [getattr(norm, "step_norm", None) for norm in norms] == ["mean_std", "mean"]
    # Both are for GPUs, whose engine is not the trainer.
    assert released("grpo", "alfworld").tis_cap == paper("grpo", "alfworld").tis_cap == 2.0
