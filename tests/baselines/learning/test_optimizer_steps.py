"""An update's result does not depend on micro-batches, shared prefixes or number of processes."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from accelerate import Accelerator
from safetensors.torch import load_file

from baselines.algorithms.aggregation import Aggregation
from baselines.algorithms.clipping.base import TokenBatch, TokenLosses
from baselines.algorithms.clipping.ppo import PPOClip
from baselines.config.layers import RECIPES, names, resolve
from baselines.config.schema import Optimization
from baselines.learning import optimizer_steps
from baselines.learning.microbatches import RowValues
from baselines.learning.optimizer_steps import Updater, mini_batches
from baselines.learning.policy import evaluate_tokens
from tests.baselines.learning.update_once import Recorder, gradient
from tests.support.training.ranks import run_together
from tests.support.training.synthetic_rows import random_model, random_rows

# The network's norms use float32 whatever its weights' dtype: gradients of 0.01 differ by 1e-8.
TOLERANCE = 1e-6
ABSOLUTE = 1e-7
EXTRA = ["kl.coef=0.05", "entropy_coef=0.01", "optimization.max_grad_norm=1e9"]
MICRO = ["optimization.micro_batch_tokens=1"]
"""One row per micro-batch."""
WITHOUT_CRITIC = [name for name in names(RECIPES) if name not in ("ppo", "reinforce_pp")]


@pytest.fixture(autouse=True)
def _default_dtype() -> Iterator[None]:
    yield
    torch.set_default_dtype(torch.float32)


def once(
    recipe: str, tokens: int, share_prefix: bool = False, pack: bool = False, *more: str
) -> dict[str, torch.Tensor]:
    own = [*EXTRA, f"optimization.micro_batch_tokens={tokens}", *more]
    config = resolve(recipe, "tiny", ["sokoban"], own)
    return gradient(config, Accelerator(cpu=True), share_prefix, pack)


def assert_same(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=TOLERANCE, atol=ABSOLUTE)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", WITHOUT_CRITIC)
def test_micro_batches_add_up_to_the_step(recipe: str) -> None:
    whole = once(recipe, tokens=100_000)
    assert max(float(value.abs().max()) for value in whole.values()) > 1e-4
    assert_same(once(recipe, tokens=150), whole)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["grpo", "sapo_sm", "sampo"])
def test_a_shared_prefix_changes_nothing_but_the_time(recipe: str) -> None:
    assert_same(once(recipe, 400, share_prefix=True), once(recipe, 400, share_prefix=False))


@pytest.mark.slow
@pytest.mark.parametrize("tokens", [300, 100_000])
@pytest.mark.parametrize("recipe", ["grpo", "sapo_sm", "sampo"])
def test_packed_rows_change_nothing_but_the_time(recipe: str, tokens: int) -> None:
    assert_same(once(recipe, tokens, pack=True), once(recipe, 400))


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["grpo_sm", "sampo"])
def test_two_processes_make_the_step_of_one(recipe: str, tmp_path: Path) -> None:
    out = tmp_path / "gradient.safetensors"
    script = Path(__file__).parent / "update_once.py"
    run_together(script, str(out), recipe, *EXTRA, "optimization.micro_batch_tokens=300")
    assert_same(load_file(out), once(recipe, 100_000))


@pytest.mark.slow
def test_kl_and_entropy_may_have_another_mean_than_the_losses() -> None:
    tokens, by_tokens = 400, "aggregation=token-mean"

    def regularizers(*own: str) -> torch.Tensor:
        off = ["kl.coef=0", "entropy_coef=0"]
        return (
            once("gspo", tokens, False, False, *own)["loss"]
            - (once("gspo", tokens, False, False, *own, *off)["loss"])
        )

    mixed = regularizers("regularizer_aggregation=token-mean")
    torch.testing.assert_close(mixed, regularizers(by_tokens), rtol=1e-9, atol=1e-12)
    assert abs(float(mixed - regularizers())) > 1e-4


@pytest.mark.parametrize("denominator", ["kept", "all"])
@pytest.mark.parametrize("recipe", ["grpo_sm", "sapo_sm", "cispo_sm"])
def test_a_step_whose_rows_are_all_masked_has_no_gradient(recipe: str, denominator: str) -> None:
    own = ["kl.coef=0", f"clipping.sequence_mask.denominator={denominator}"]
    config = resolve(recipe, "tiny", ["sokoban"], own)
    torch.set_default_dtype(torch.float64)
    accelerator = Accelerator(cpu=True)
    model = accelerator.prepare(random_model())
    optimizer = Recorder(model.parameters(), lr=0.0)
    rows = random_rows(7)
    updater = Updater(accelerator, model, optimizer, config)
    now, _, _ = updater.values_of(rows, range(7))
    unlikely = [value + 1 for value in now if value is not None]
    bad = [-torch.ones_like(value) for value in unlikely]
    tally = updater.update(rows, RowValues(bad, list(unlikely), [None] * 7, [None] * 7), [range(7)])
    assert (tally.masked_rows, tally.losses, tally.grad_norms) == (7, [0.0], [0.0])
    assert all((value == 0).all() for value in optimizer.gradients.values())


@pytest.mark.parametrize("aggregation", get_args(Aggregation))
def test_a_mask_costs_a_pass_where_it_changes_the_denominators_alone(
    aggregation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[int] = []

    def counting(*given: Any, **named: Any) -> Any:
        passes[-1] += 1
        return evaluate_tokens(*given, **named)

    monkeypatch.setattr(optimizer_steps, "evaluate_tokens", counting)
    found = []
    for denominator in ("kept", "all"):
        passes.append(0)
        own = (f"aggregation={aggregation}", f"clipping.sequence_mask.denominator={denominator}")
        found.append(once("grpo_sm", 300, False, False, *own))
    shrinks = aggregation in ("token-mean", "seq-mean-token-mean")
    assert (passes[0] > passes[1]) == shrinks
    if not shrinks:
        assert_same(*found)


@pytest.mark.parametrize("skip", [False, True])
def test_a_step_without_advantages_is_left_out_where_that_is_chosen(skip: bool) -> None:
    own = ["kl.coef=0", f"optimization.skip_empty={str(skip).lower()}"]
    config = resolve("grpo", "tiny", ["sokoban"], own)
    torch.set_default_dtype(torch.float64)
    accelerator = Accelerator(cpu=True)
    model = accelerator.prepare(random_model())
    rows = random_rows(6)
    updater = Updater(accelerator, model, Recorder(model.parameters(), lr=0.0), config)
    something = [torch.zeros(len(row.response_ids)) for row in rows]
    something[4] += 1
    values = RowValues(something, [None] * 6, [None] * 6, [None] * 6)
    tally = updater.update(rows, values, [range(3), range(3, 6)])
    assert len(tally.losses) == (1 if skip else 2)
    assert tally.grad_norms[-1] > 0 and tally.skipped == 0


def test_a_rule_may_learn_from_some_micro_batches_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """For example, a rule that omits bad rows and skips micro-batches without any others."""
    losses = PPOClip.losses

    def of_good_rows(self: PPOClip, batch: TokenBatch) -> TokenLosses:
        if not (batch.advantages > 0).any():
            nothing = torch.zeros_like(batch.counted)
            return TokenLosses(torch.zeros_like(batch.advantages), nothing, nothing)
        return losses(self, batch)

    monkeypatch.setattr(PPOClip, "losses", of_good_rows)
    config = resolve("grpo", "tiny", ["sokoban"], ["kl.coef=0", *MICRO])
    torch.set_default_dtype(torch.float64)
    accelerator = Accelerator(cpu=True)
    model = accelerator.prepare(random_model())
    rows = random_rows(6)
    updater = Updater(accelerator, model, Recorder(model.parameters(), lr=0.0), config)
    signs = (-1.0, -1.0, -1.0, -1.0, 1.0, 1.0)
    signed = [
        torch.full((len(row.response_ids),), sign) for row, sign in zip(rows, signs, strict=True)
    ]
    values = RowValues(signed, [None] * 6, [None] * 6, [None] * 6)
    tally = updater.update(rows, values, [range(6)])
    assert len(tally.losses) == 1 and tally.grad_norms[0] > 0


def test_rows_are_dealt_evenly_and_anew_in_every_epoch() -> None:
    steps = mini_batches(10, Optimization(mini_batches=3, epochs=2), seed=0, update=1)
    assert [len(step) for step in steps] == [4, 3, 3, 4, 3, 3]
    assert sorted(chain(*steps[:3])) == sorted(chain(*steps[3:])) == list(range(10))
    assert steps[:3] != steps[3:]
    assert steps == mini_batches(10, Optimization(mini_batches=3, epochs=2), seed=0, update=1)
    by_rows = mini_batches(10, Optimization(mini_batch_rows=4), seed=0, update=1)
    assert [len(step) for step in by_rows] == [4, 3, 3]
    few = mini_batches(2, Optimization(mini_batches=4), seed=0, update=1)
    assert sorted(chain(*few)) == [0, 1] and len(few) == 2
