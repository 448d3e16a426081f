"""The tables of foreign names: every target is one of ours, and no name has two meanings."""

import itertools

import pytest

from benchmark.logs.foreign.mapping import (
    OWN,
    SECONDS,
    TABLES,
    TRL,
    VERL,
    Meaning,
    meaning_of,
    own_words,
    priority,
    unmapped_reason,
)
from benchmark.logs.metrics import METRICS, VALIDATION_METRICS
from tasks.errors import UserError


def test_every_target_is_a_number_of_ours() -> None:
    known = {*METRICS, *VALIDATION_METRICS, SECONDS}
    targets = {meaning.name for table in (TRL, VERL, OWN) for meaning in table.values()}
    assert targets <= known


def test_no_name_stands_in_two_tables_of_one_source() -> None:
    for tables in TABLES.values():
        for one, other in itertools.combinations(tables, 2):
            assert not set(one) & set(other)


def test_trackers_put_train_before_the_names_of_trl_only() -> None:
    assert meaning_of("wandb", "train/kl") == TRL["kl"]
    assert meaning_of("wandb", "kl") is None
    assert meaning_of("trl", "train/kl") is None
    assert meaning_of("tensorboard", "actor/grad_norm") == Meaning("policy/grad_norm")
    assert meaning_of("tensorboard", "policy/grad_norm") == Meaning("policy/grad_norm")
    assert meaning_of("verl", "policy/grad_norm") is None


def test_the_accuracy_of_verl_names_its_data() -> None:
    found = meaning_of("verl", "val-core/openai/gsm8k/acc/mean@8")
    assert found is not None
    assert (found.name, found.panel) == ("validation/success", "openai/gsm8k")
    assert "acc is 1 or 0" in found.provided
    for other in ("val-core/gsm8k/acc/best@8/mean", "val-aux/gsm8k/acc/mean@8", "val-core//acc/x"):
        assert meaning_of("verl", other) is None
    assert meaning_of("trl", "val-core/openai/gsm8k/acc/mean@8") is None


def test_what_is_only_similar_is_unknown_with_its_reason() -> None:
    similar = {
        "trl": ("reward_std", "clip_ratio/low_mean", "num_tokens", "eval_reward", "step_time"),
        "verl": ("actor/kl_loss", "actor/ppo_kl", "actor/pg_loss", "critic/score/mean",
                 "val/text/test_score", "val/test_score/gsm8k", "val-core/x/reward/mean@1"),
        "wandb": ("train/reward_std", "eval/reward", "actor/kl_loss"),
    }  # fmt: skip
    for source, names in similar.items():
        for name in names:
            assert meaning_of(source, name) is None, name  # type: ignore[arg-type]
            assert unmapped_reason(name), name
    assert unmapped_reason("my/own/number") is None


def test_the_upper_of_two_names_for_one_number_goes_first() -> None:
    assert priority("verl", "actor/entropy") < priority("verl", "actor/entropy_loss")
    assert priority("verl", "timing_s/step") < priority("verl", "perf/time_per_step")
    assert priority("verl", "nobody/knows") == len(VERL)


def test_the_user_says_what_a_field_means() -> None:
    words = own_words(["validation/success@math=eval/acc=1", "rollout/action_ok=valid"])
    assert {field: (m.name, m.panel) for field, m in words.items()} == {
        "eval/acc=1": ("validation/success", "math"),
        "valid": ("rollout/action_ok", ""),
    }


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("validation/success", "use NAME=FIELD"),
        ("validation/success=", "use NAME=FIELD"),
        ("validation/succes=x", "did you mean validation/success"),
        ("policy/entropy@math=x", "no metric 'policy/entropy@math'"),
    ],
)
def test_other_words_of_the_user_are_refused(option: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        own_words([option])


def test_a_field_has_one_meaning() -> None:
    with pytest.raises(UserError, match="already has a meaning"):
        own_words(["rollout/format_ok=x", "rollout/action_ok=x"])
