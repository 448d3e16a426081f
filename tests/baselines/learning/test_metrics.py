"""The metrics of an update's line: computed by hand, and within the ranges that a log allows."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from hypothesis import given
from hypothesis import strategies as st

from baselines.learning.metrics import (
    check_first_update,
    engine_metrics,
    explained_variance,
    gathered,
    init_metrics,
    memory_metrics,
    staleness_metrics,
    update_metrics,
)
from baselines.learning.optimizer_steps import Tensors
from baselines.learning.tally import UpdateStats
from baselines.rollouts.rows import Row
from benchmark.logs.metrics import METRICS
from tasks.errors import UserError
from tests.support.training.synthetic_rows import random_rows


def numbers(*values: float) -> "np.typing.NDArray[np.float32]":
    return np.array(values, np.float32)


LOG2 = math.log(2)


def tally() -> UpdateStats:
    """Two steps over three rows: token ratios 1, 2 | 1/2 and 4."""
    return UpdateStats(
        losses=[0.5, -1.5],
        grad_norms=[1.0, math.inf, 4.0],
        skipped=1,
        masked_rows=1,
        log_ratios=[numbers(0, LOG2, -LOG2), numbers(2 * LOG2)],
        row_ratios=[numbers(LOG2 / 2, -LOG2), numbers(2 * LOG2)],
        entropies=[numbers(1, 2, 3), numbers(6)],
        low=1,
        high=2,
        critic_losses=[1.0, 2.0, 6.0],
        critic_skipped=2,
    )


def test_numbers_of_the_optimizer_steps() -> None:
    found = update_metrics(tally())
    # k3 with d the log-ratio: exp(d) - 1 - d.
    k3 = sorted([0.0, 1 - LOG2, -0.5 + LOG2, 3 - 2 * LOG2])
    # Positions of the quantiles among 1/2, 1, 2, 4.
    low, high = 0.5 + 0.03 * 0.5, 2 + 0.97 * 2
    assert found == pytest.approx(
        {
            "tokens/trained": 4,
            "policy/loss": -0.5,
            "policy/grad_norm": math.inf,
            "policy/grad_norm_max": math.inf,
            "policy/entropy": 3.0,
            "policy/optimizer_steps": 2,
            "policy/skipped_steps": 1,
            "policy/masked_rows": 1 / 3,
            "kl_old/mean": sum(k3) / 4,
            "kl_old/median": (k3[1] + k3[2]) / 2,
            "kl_old/clipped_mean": (k3[0] + k3[1] + k3[2] + 1) / 4,
            "ratio/p01": low,
            "ratio/p50": 1.5,
            "ratio/p99": high,
            "ratio/max": 4.0,
            "ratio/sequence_p99": LOG2 + 0.98 * LOG2,
            "ratio/clipped_low": 1 / 4,
            "ratio/clipped_high": 2 / 4,
            # 7.5 squared over 4 times 0.25 + 1 + 4 + 16.
            "ratio/ess": 56.25 / (4 * 21.25),
            "critic/loss": 3.0,
            "critic/skipped_steps": 2,
        },
        rel=1e-6,
    )
    assert set(found) <= set(METRICS)


def test_an_update_without_tokens_has_steps_to_count_and_nothing_else() -> None:
    assert update_metrics(UpdateStats(skipped=2)) == {
        "policy/optimizer_steps": 0,
        "policy/skipped_steps": 2,
    }


def test_without_a_critic_there_is_no_loss_of_one() -> None:
    found = update_metrics(replace(tally(), critic_losses=[], critic_skipped=0))
    assert found["critic/loss"] is None and "critic/skipped_steps" not in found


def test_log_ratios_beyond_all_measure_stay_finite() -> None:
    wild = replace(tally(), log_ratios=[numbers(1000, -1000)], entropies=[numbers(0, 0)])
    found = update_metrics(wild)
    assert found["ratio/max"] == pytest.approx(math.exp(20))
    assert found["kl_old/median"] == pytest.approx((math.exp(20) - 21 + math.exp(-20) + 19) / 2)
    assert found["ratio/ess"] == pytest.approx(0.5)


log_ratios = st.lists(st.floats(-30, 30, width=32), min_size=1, max_size=30)


@given(log_ratios, st.integers(1, 4), st.data())
def test_all_numbers_are_in_the_range_that_the_log_admits(
    values: list[float], epochs: int, data: st.DataObject
) -> None:
    # Rows occur once per epoch, and may be dropped every time.
    count = len(values)
    found = update_metrics(
        UpdateStats(
            losses=[0.0],
            grad_norms=[0.0],
            masked_rows=data.draw(st.integers(0, epochs * count)),
            log_ratios=[numbers(*values)] * epochs,
            row_ratios=[numbers(*values)] * epochs,
            entropies=[numbers(*(abs(value) for value in values))] * epochs,
            low=epochs * count,
            high=0,
        )
    )
    for name, value in found.items():
        low, high = METRICS[name].range
        assert value is None or low - 1e-6 <= value <= high + 1e-6, (name, value)


def test_one_process_gathers_what_it_has() -> None:
    own = tally()
    assert gathered(own, Accelerator(cpu=True)) is own


def row(
    versions: tuple[int, int], engine: tuple[float, ...], mask: tuple[int, ...] | None = None
) -> Row:
    return replace(
        random_rows(1)[0],
        versions=versions,
        response_ids=np.zeros(len(engine), np.int32),
        response_mask=np.array(mask or [1] * len(engine), np.int32),
        engine_log_probs=np.array(engine, np.float32),
    )


def test_the_gap_to_the_engine_is_that_of_rows_of_the_same_weights() -> None:
    rows = [
        row((3, 3), (-1.0, -2.0)),
        row((3, 3), (-1.0, 0.0, -3.0), (1, 0, 1)),
        row((2, 3), (-9.0,)),  # started by older weights
        row((2, 2), (-9.0,)),
        row((3, 3), (-9.0,)),  # not computed
    ]
    trainer = [
        torch.tensor([-1.0, -1.5]),
        torch.tensor([-1.0, 7.0, -3.25]),
        torch.tensor([0.0]),
        torch.tensor([0.0]),
        None,
    ]
    found = engine_metrics(rows, trainer, version=3)
    gaps = [0.0, 0.5, 0.0, -0.25]  # trainer minus engine
    k3 = [math.exp(gap) - 1 - gap for gap in gaps]
    weights = [math.exp(gap) for gap in gaps]
    assert found == pytest.approx(
        {
            "engine/k1": -0.25 / 4,
            "engine/k3": sum(k3) / 4,
            "engine/k3_p95": k3[3] + 0.85 * (k3[1] - k3[3]),
            "engine/abs_mean": 0.75 / 4,
            "engine/abs_max": 0.5,
            "engine/ess": sum(weights) ** 2 / (4 * sum(weight**2 for weight in weights)),
        },
        rel=1e-5,
    )
    assert engine_metrics(rows, trainer, version=4) == {}
    assert engine_metrics(rows, [None] * 5, version=3) == {}


def test_the_gap_to_an_equal_engine_is_zero() -> None:
    found = engine_metrics([row((0, 0), (-1.0, -2.5))], [torch.tensor([-1.0, -2.5])], 0)
    assert {name: value for name, value in found.items() if name != "engine/ess"} == dict.fromkeys(
        ("engine/k1", "engine/k3", "engine/k3_p95", "engine/abs_mean", "engine/abs_max"), 0.0
    )
    assert found["engine/ess"] == 1.0


def test_the_distance_to_the_init_is_that_of_rows_that_both_know() -> None:
    rows = [row((0, 0), (0.0,) * 3, (1, 0, 1)), row((0, 0), (0.0,)), row((0, 0), (0.0,))]
    policy = [torch.tensor([-1.0, 9.0, -2.0]), torch.tensor([-1.0]), None]
    init: Tensors = [torch.tensor([-1.0, -9.0, -1.0]), torch.tensor([2.0]), torch.tensor([0.0])]
    # d = init minus policy: 0, 1 and 3, and k3 = exp(d) - 1 - d.
    k3 = [0.0, math.e - 2, math.exp(3) - 4]
    assert init_metrics(rows, policy, init) == pytest.approx(
        {
            "kl_init/mean": sum(k3) / 3,
            "kl_init/median": k3[1],
            "kl_init/clipped_mean": (k3[1] + 1) / 3,
        },
        rel=1e-5,
    )
    assert init_metrics(rows, [None] * 3, init) == {}


def test_staleness_is_the_age_of_a_rows_first_token() -> None:
    rows = [row((4, 5), (0.0,)), row((5, 5), (0.0,)), row((2, 5), (0.0,))]
    assert staleness_metrics(rows, 5) == {
        "staleness/mean": pytest.approx(4 / 3),
        "staleness/max": 3,
    }
    assert staleness_metrics([], 5) == {"staleness/mean": None, "staleness/max": None}


def test_explained_variance() -> None:
    targets = torch.tensor([1.0, 2.0, 3.0, 6.0])
    assert explained_variance(targets, targets) == 1.0
    assert explained_variance(torch.full((4,), 9.0), targets) == pytest.approx(0.0)
    assert explained_variance(targets + 5, targets) == pytest.approx(1.0), (
        "an offset is not variance"
    )
    # Differences 0, 1, 0, 1 have variance 1/4, the targets 14/4.
    assert explained_variance(targets - torch.tensor([0.0, 1, 0, 1]), targets) == pytest.approx(
        1 - 1 / 14
    )
    assert explained_variance(targets, torch.ones(4)) is None


def test_memory_is_that_of_this_process() -> None:
    found = memory_metrics()
    host = found["memory/host_gib"]
    # torch alone takes a tenth, and no test machine has a thousand.
    assert host is not None and 0.1 < host < 1000
    assert (found["memory/gpu_gib"] is None) == (not torch.cuda.is_available())


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("kl_init/mean", "reference's weights were not loaded"),
        ("engine/k3", "serves another model"),
    ],
)
def test_a_first_update_that_cannot_be_right_ends_the_run(name: str, cause: str) -> None:
    check_first_update({"kl_init/mean": 1e-2, "engine/k3": None})
    for value in (2.58, float("nan")):
        with pytest.raises(UserError, match=cause) as caught:
            check_first_update({name: value})
        assert len(str(caught.value).splitlines()) == 1
