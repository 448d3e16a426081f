"""User settings: `--set`, contradictions, and precedence of layers."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.algorithms.advantage.gae import GAE
from baselines.algorithms.advantage.gigpo import GiGPO
from baselines.algorithms.clipping.gspo import GSPO
from baselines.config.layers import deep_merge, resolve
from tests.baselines.config.chosen import clip, fault, write


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
    assert config.clipping == GSPO(name="gspo")  # not GRPO's upper limit of 0.28
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
        ("rollout.groups=65537", "groups: Input should be less than or equal to 65536"),
        ("rollout.mixture={sokoban: 65537}", "mixture.sokoban: Input should be less than or equal"),
        ("rollout.group_size=4097", "group_size: Input should be less than or equal to 4096"),
        ("rollout.concurrency=65537", "concurrency: Input should be less than or equal to 65536"),
        ("rollout.max_turns=10001", "Input should be less than or equal to 10000"),
        ("rollout.max_tokens=262145", "max_tokens: Input should be less than or equal to 262144"),
        ("validation.max_tokens=262145", "max_tokens: Input should be less than or equal to"),
        ("optimization.epochs=101", "epochs: Input should be less than or equal to 100"),
        ("optimization.micro_batch_tokens=1048577", "should be less than or equal to 1048576"),
        ("optimization.updates=1000000001", "updates: Input should be less than or equal to 10"),
        ("optimization.warmup_updates=1000000001", "Input should be less than or equal to 10"),
        ("rollout.groups=1e3", "rollout.groups: Input should be a valid integer"),
        ("optimization.learning_rate=.nan", "optimization.learning_rate: Input should be"),
        ("optimization.learning_rate=-1", "learning_rate: Input should be greater than or equal"),
        ("optimization.betas=[0.9, 1.0]", "optimization.betas.1: Input should be less than 1"),
        (
            "clipping={name: ppo, dual_clip: 1}",
            "clipping.dual_clip: Input should be greater than 1",
        ),
        ("validation.top_p=0", "validation.top_p: Input should be greater than 0"),
        ("validation.temperature=0.001", "a temperature is 0, which is greedy, or at least 0.01"),
        ("rollout.temperature=0.001", "rollout.temperature: Input should be greater than or equal"),
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
    assert line.startswith("--set: ")
    assert message in line


def test_a_fault_of_the_recipe_is_not_one_of_its_neighbors_from_the_command_line(
    tmp_path: Path,
) -> None:
    recipe = write(
        tmp_path / "mine.yaml",
        {"advantage": {"name": "grop"}, "clipping": {"name": "ppo"}, "aggregation": "token-mean"},
    )
    line = fault("advantage.lam=0.9", "rollout.groups=3", recipe=recipe)
    assert line.startswith(f"recipe {recipe} at scale tiny: advantage.name: there is no 'grop'")
    assert fault("rollout.group_size=1").startswith("recipe sampo at scale tiny: gigpo compares")
    assert fault("learner.turns=3").endswith(
        "learner.name is missing; there are none (your own class needs --plugin FILE.py)"
    )


@pytest.mark.parametrize("own", ["rollout.groups", "=3", "rollout.=3", ".groups=3", "a..b=3", ""])
def test_a_setting_that_is_none_is_refused(own: str) -> None:
    assert fault(own).startswith("--set needs KEY=VALUE, such as optimization.learning_rate=1e-4")


def test_a_value_that_is_no_yaml_is_refused() -> None:
    assert fault("rollout.groups=[").startswith("--set rollout.groups=[: the value is not valid: ")
    assert fault("kl={coef: 1, coef: 2}").endswith("the value is not valid: 'coef' is given twice")


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
    # Resetting one does not affect the other.
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
    assert fault(recipe="xyz").startswith(
        "there is no recipe 'xyz'; there are agentrl, agentrl_cross, "
    )
    assert (
        fault(scale="papper") == "there is no scale 'papper'; did you mean paper or paper_released?"
    )
    assert fault(task="socoban").startswith("unknown task 'socoban'; did you mean sokoban?;")
    assert fault(recipe="no/such.yaml") == "no/such.yaml does not exist"
    assert fault(recipe="x.py") == (
        "x.py: a recipe is a name or a .yaml file; a plug-in needs --plugin"
    )


leaves = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=3))
trees = st.dictionaries(
    st.sampled_from("abcd"),
    st.recursive(
        leaves, lambda inner: st.dictionaries(st.sampled_from("abcd"), inner), max_leaves=8
    ),
)


@pytest.mark.slow
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
