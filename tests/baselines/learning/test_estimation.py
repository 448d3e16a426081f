"""Rows get what a recipe chooses: each advantage compared with its algorithm, by hand."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from baselines.algorithms.advantage.base import Advantage, RowBatch
from baselines.algorithms.advantage.gae import gae
from baselines.algorithms.advantage.groups import Over, Variance
from baselines.algorithms.advantage.reinforce_pp import reinforce_plus_plus
from baselines.algorithms.advantage.rloo import leave_one_out
from baselines.algorithms.masked import task_normalized
from baselines.config.layers import resolve
from baselines.config.schema import TrainConfig
from baselines.learning.estimation import estimate, penalty_share, returns_differ
from baselines.rollouts.rows import Row
from tasks.errors import UserError
from tests.baselines.algorithms.usual import empg, gigpo, group_relative
from tests.support.training.synthetic_rows import random_rows


def doubles(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def row(
    group: int,
    member: int,
    turn: int,
    reward: float,
    mask: list[int],
    penalty: float = 0.0,
    step_reward: float = 0.0,
    anchor: str = "start",
) -> Row:
    like = random_rows(1)[0]
    return replace(
        like,
        group=group,
        member=member,
        turn=turn,
        response_ids=np.ones(len(mask), np.int32),
        response_mask=np.array(mask, np.int32),
        engine_log_probs=np.zeros(len(mask), np.float32),
        reward=reward,
        penalty=penalty,
        step_reward=step_reward,
        anchor=anchor,
    )


# Group 7: episode 0 earns 4 in two turns, the second of which has a penalty of 1; episode 1 earns 1
# in one turn. Group 2: episodes that earn 0 and 2. Rows are in the order of their keys.
ROWS = [
    row(2, 0, 0, 0.0, [1], step_reward=0.0),
    row(2, 1, 0, 2.0, [1, 1], step_reward=2.0),
    row(7, 0, 0, 4.0, [1, 1, 1], step_reward=1.0),
    row(7, 0, 1, 4.0, [1, 0, 0, 1], penalty=1.0, step_reward=3.0, anchor="later"),
    row(7, 1, 0, 1.0, [1, 1], step_reward=1.0, anchor="later"),
]
SPARED = [replace(row, penalty=0.0) for row in ROWS]
SCORES = doubles(0, 2, 4, 3, 1)
GROUPS = torch.tensor([2, 2, 7, 7, 7])
TRAJECTORIES = torch.tensor([0, 1, 2, 2, 3])
TURNS = torch.tensor([0, 0, 0, 1, 0])
MASK = torch.tensor([[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 0, 1], [1, 1, 0, 0]]).double()
NOTHING: list[Tensor | None] = [None] * len(ROWS)


def choose(recipe: str, *own: str) -> TrainConfig:
    return resolve(recipe, "tiny", ["sokoban"], own)


def found(
    config: TrainConfig,
    entropies: list[Tensor | None] = NOTHING,
    values: list[Tensor | None] = NOTHING,
    distances: list[Tensor | None] = NOTHING,
    rows: list[Row] = ROWS,
) -> list[Tensor]:
    advantages, targets = estimate(config, rows, entropies, values, distances)
    assert targets is None
    return advantages


def assert_rows(advantages: list[Tensor], expected: Tensor) -> None:
    """Compare with an (N, T) matrix, of which each row's own tokens count."""
    assert [len(own) for own in advantages] == [len(row.response_ids) for row in ROWS]
    for own, wanted, row in zip(advantages, expected, ROWS, strict=True):
        assert own.dtype == torch.float32
        assert not own[torch.from_numpy(row.response_mask) == 0].any()
        torch.testing.assert_close(own.double(), wanted[: len(own)], rtol=1e-5, atol=1e-6)


def spread(of_rows: Tensor) -> Tensor:
    return of_rows[:, None] * MASK


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (torch.zeros(5, 1), r"gives \(5, 1\) instead of a tensor of shape \(5,\): one number for"),
        (None, "gives NoneType instead of"),
        (MASK, r"one number for each row \(a class that gives one for each token says of_tokens"),
        (torch.zeros(5, device="meta"), "is on the device meta, but rows are on cpu"),
        (np.zeros(5), r"gives ndarray instead of a tensor of shape \(5,\)"),
        (torch.zeros(5, dtype=torch.int64), "gives torch.int64 instead of floating-point numbers"),
    ],
)
def test_an_advantage_that_is_none_is_named(
    given: Any, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plug-in may return such advantages."""
    config = choose("grpo")
    monkeypatch.setattr(type(config.advantage), "of", lambda self, rows: given)
    with pytest.raises(UserError, match=said):
        found(config)


def test_an_advantage_with_a_gradient_is_taken_as_a_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = choose("grpo")
    of = type(config.advantage).of
    monkeypatch.setattr(
        type(config.advantage), "of", lambda self, rows: of(self, rows).requires_grad_()
    )
    assert not any(tensor.requires_grad for tensor in found(config))


@pytest.mark.parametrize("part", ["scores", "mask", "values"])
def test_rows_that_are_changed_in_place_are_named(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = choose("grpo")

    def change(self: Advantage, rows: RowBatch) -> Tensor:
        given = getattr(rows, part)
        (given if isinstance(given, Tensor) else given[0]).mul_(2)
        return rows.scores

    monkeypatch.setattr(type(config.advantage), "of", change)
    values: list[Tensor | None] = [torch.ones(len(row.response_ids)) for row in ROWS]
    with pytest.raises(UserError, match=f"grpo changes rows.{part} in place: let it change a clon"):
        found(config, values=values)


def test_targets_of_a_critic_that_are_none_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    config = choose("ppo")
    values: list[Tensor | None] = [torch.ones(len(row.response_ids)) for row in ROWS]
    given = (torch.zeros(5, 4), torch.zeros(5))
    monkeypatch.setattr(type(config.advantage), "with_targets", lambda self, rows: given)
    with pytest.raises(UserError, match=r"the critic's target of gae gives \(5,\) instead of a"):
        estimate(config, ROWS, NOTHING, values, NOTHING)


def test_whether_returns_differ_does_not_look_at_penalties() -> None:
    # Group 7 has 4 and 1, group 2 has 0 and 2; the same number in another task is another group.
    assert returns_differ(ROWS)
    assert not returns_differ(ROWS[2:4])
    assert not returns_differ([ROWS[0], replace(ROWS[1], task="tir_math")])


@pytest.mark.parametrize("given", [math.nan, math.inf])
def test_an_advantage_that_is_not_finite_is_named(
    given: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error, unless the policy or the critic that it uses is not finite either."""
    config = choose("grpo")
    advantages = torch.tensor([0.0, given, 1.0, given, 0.0])
    monkeypatch.setattr(type(config.advantage), "of", lambda self, rows: advantages)
    with pytest.raises(UserError) as caught:
        found(config)
    assert str(caught.value) == (
        "the advantage grpo is not finite for 2 of 5 rows: "
        "row 1 (sokoban, group 2, member 1, turn 0); row 3 (sokoban, group 7, member 0, turn 1)"
    )
    broken = [torch.full((len(row.response_ids),), math.nan) for row in ROWS]
    assert not all(bool(own.isfinite().all()) for own in found(config, entropies=[*broken]))


def test_of_tokens_that_are_not_finite_the_first_rows_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = choose("ppo")
    values: list[Tensor | None] = [torch.ones(len(row.response_ids)) for row in ROWS]
    targets = torch.zeros(5, 4)
    targets[1:, :2] = math.nan
    monkeypatch.setattr(
        type(config.advantage), "with_targets", lambda self, rows: (torch.zeros(5, 4), targets)
    )
    with pytest.raises(UserError) as caught:
        estimate(config, ROWS, NOTHING, values, NOTHING)
    assert str(caught.value) == (
        "the critic's target of gae is not finite for 8 of 20 tokens: "
        "row 1 (sokoban, group 2, member 1, turn 0); row 2 (sokoban, group 7, member 0, turn 0); "
        "row 3 (sokoban, group 7, member 0, turn 1); and 1 more row"
    )


def test_grpo_by_hand() -> None:
    # Without a standard deviation: group 2 has the mean 1, group 7 that of 3.5 and 1.
    expected = spread(doubles(-1, 1, 1.75, 0.75, -1.25))
    assert_rows(found(choose("dr_grpo")), expected)


def test_penalties_outside_of_the_scores_by_hand() -> None:
    # Group 7 compares rewards, 4 and 1 (mean 2.5); then the fourth row pays its penalty of 1.
    outside = found(choose("dr_grpo", "penalty_in=advantages"))
    assert_rows(outside, spread(doubles(-1, 1, 1.5, 0.5, -1.5)))
    # The effect of a penalty no longer depends on the standard deviation of the group.
    normalized = found(choose("grpo", "penalty_in=advantages"))
    without = found(choose("grpo", "penalty_in=advantages"), rows=SPARED)
    assert [float((one - other).sum()) for one, other in zip(normalized, without, strict=True)] == (
        pytest.approx([0, 0, 0, -2, 0])
    )


@pytest.mark.parametrize("recipe", ["gigpo", "rloo", "reinforce_pp"])
def test_a_penalty_outside_moves_no_other_row(recipe: str) -> None:
    config = choose(recipe, "penalty_in=advantages", "kl.coef=0")
    charged, spared = found(config), found(config, rows=SPARED)
    for place, (own, without) in enumerate(zip(charged, spared, strict=True)):
        assert torch.equal(own, without) == (place != 3)


def test_the_share_of_penalties_by_hand() -> None:
    # Dr. GRPO: without penalties 1.5 and -1.5 in group 7, with them 1.75, 0.75 and -1.25; rows have
    # 1, 2, 3, 2 and 2 counted tokens.
    with_, without = found(choose("dr_grpo")), found(choose("dr_grpo"), rows=SPARED)
    moved = 3 * 0.25 + 2 * 0.75 + 2 * 0.25
    assert penalty_share(with_, without) == pytest.approx(moved / (moved + 1 + 2 + 7 * 1.5))
    assert penalty_share(without, without) == 0
    nothing = [torch.zeros_like(own) for own in without]
    assert penalty_share(nothing, nothing) == 0
    assert penalty_share(with_, nothing) == 1


@pytest.mark.parametrize("over", ["trajectories", "rows"])
@pytest.mark.parametrize("variance", ["total", "between"])
@pytest.mark.parametrize("divide", [True, False])
def test_grpo(over: Over, variance: Variance, divide: bool) -> None:
    own = (f"over={over}", f"variance={variance}", f"divide_by_std={divide}")
    config = choose("grpo", *(f"advantage.{setting}" for setting in own))
    expected = group_relative(
        SCORES, GROUPS, TRAJECTORIES, over=over, variance=variance, divide_by_std=divide
    )
    assert_rows(found(config), spread(expected))


@pytest.mark.parametrize("recipe", ["dr_grpo", "gigpo"])
def test_what_an_episode_without_a_group_gets(recipe: str) -> None:
    lone = [row(9, 0, 0, 5.0, [1, 1], penalty=1.0)]
    for single, expected in (("zero", 0.0), ("raw", 4.0)):
        config = choose(recipe, f"advantage.single={single}")
        (advantage,), _ = estimate(config, lone, [None], [None], [None])
        assert advantage.tolist() == pytest.approx([expected] * 2, rel=1e-5)


def test_rloo_by_hand() -> None:
    # Each score minus what the other episode earned on average: 2, 0, and in group 7: 1 and 3.5.
    expected = doubles(-2, 2, 3, 2, -2.5)
    torch.testing.assert_close(leave_one_out(SCORES, GROUPS, TRAJECTORIES), expected)
    assert_rows(found(choose("rloo")), spread(expected))


def test_gigpo_by_hand() -> None:
    own = ("advantage.step_norm=mean", "advantage.gamma=0.5", "advantage.step_weight=2")
    # Step returns: 0 | 2 | 1 + 0.5 * 3 = 2.5, and 3 - 1 = 2: the penalty does not reach back | 1.
    # "start" in group 2: mean 1; "start" in group 7 is alone; "later" has the mean of 2 and 1.
    step = doubles(-1, 1, 0, 0.5, -0.5)
    episode = doubles(-1, 1, 1.75, 0.75, -1.25)
    assert_rows(found(choose("gigpo", *own)), spread(episode + 2 * step))


@pytest.mark.parametrize("over", ["trajectories", "rows"])
@pytest.mark.parametrize("variance", ["total", "between"])
def test_gigpo(over: Over, variance: Variance) -> None:
    expected = gigpo(
        SCORES,
        doubles(0, 2, 1 + 0.95 * 3, 3 - 1, 1),
        GROUPS,
        TRAJECTORIES,
        torch.tensor([0, 0, 1, 2, 2]),
        over=over,
        variance=variance,
    )
    config = choose("sampo", f"advantage.over={over}", f"advantage.variance={variance}")
    assert_rows(found(config), spread(expected))


def test_similar_anchors_are_one_step_group() -> None:
    # "start" and "later" share two letters of five in order: 0.4. The penalty does not propagate
    # back to the first turn, whose return is 1 + 0.95 * 3.
    exact, similar = choose("gigpo"), choose("gigpo", "advantage.similarity=0.3")
    expected = gigpo(
        SCORES,
        doubles(0, 2, 3.85, 2, 1),
        GROUPS,
        TRAJECTORIES,
        torch.tensor([0, 0, 1, 1, 1]),
    )
    assert_rows(found(similar), spread(expected))
    assert not torch.allclose(found(similar)[3], found(exact)[3])


@pytest.mark.parametrize("variance", ["total", "between"])
def test_empg(variance: Variance) -> None:
    entropies = [
        doubles(*values) for values in ([2], [1, 3], [0, 1, 2], [4, 99, 99, 2], [0.5, 0.5])
    ]
    known = torch.zeros(5, 4, dtype=torch.float64)
    for place, values in enumerate(entropies):
        known[place, : len(values)] = values
    own = ("k=0.7", "k_future=0.3", "zeta=0.2", f"variance={variance}")
    config = choose("empg", *(f"advantage.{setting}" for setting in own))
    expected = empg(
        group_relative(SCORES, GROUPS, TRAJECTORIES, variance=variance),
        known,
        MASK,
        TRAJECTORIES,
        TURNS,
        k=0.7,
        k_future=0.3,
        zeta=0.2,
    )
    assert_rows(found(config, entropies=list(entropies)), spread(expected))


REWARDS = torch.zeros(5, 4, dtype=torch.float64)
# The score belongs to the last token sampled from the model.
for place, last in enumerate([0, 1, 2, 3, 1]):
    REWARDS[place, last] = SCORES[place]


def test_reinforce_pp() -> None:
    expected = reinforce_plus_plus(REWARDS, MASK, gamma=0.9)
    assert_rows(found(choose("reinforce_pp", "advantage.gamma=0.9", "kl.coef=0")), expected)


def test_kl_in_the_reward_costs_every_drawn_token() -> None:
    distances = [doubles(*values) for values in ([1], [2, 3], [4, 5, 6], [7, 50, 50, 8], [9, 10])]
    cost = torch.zeros(5, 4, dtype=torch.float64)
    for place, values in enumerate(distances):
        cost[place, : len(values)] = values
    expected = reinforce_plus_plus(REWARDS - 0.1 * cost * MASK, MASK, gamma=1)
    config = choose("reinforce_pp", "kl.coef=0.1")
    assert_rows(found(config, distances=list(distances)), expected)
    # With the KL term in the loss, the same distances do not affect advantages.
    in_loss = choose("reinforce_pp", "kl.coef=0.1", "kl.place=loss")
    expected = reinforce_plus_plus(REWARDS, MASK, gamma=1)
    assert_rows(found(in_loss, distances=list(distances)), expected)


def test_gae_and_the_targets_of_its_critic() -> None:
    values = [doubles(*v) for v in ([0.5], [1, 2], [0, 1, 3], [2, 0, 0, 1], [0.3, 0.1])]
    known = torch.zeros(5, 4, dtype=torch.float64)
    for place, own in enumerate(values):
        known[place, : len(own)] = own
    expected, returns = gae(REWARDS, known, MASK, gamma=0.9, lam=0.8)
    chosen = ("gamma=0.9", "lam=0.8", "discount=tokens")
    config = choose("ppo", *(f"advantage.{each}" for each in chosen), "kl.coef=0")
    advantages, targets = estimate(config, ROWS, NOTHING, list(values), NOTHING)
    assert_rows(advantages, expected)
    assert targets is not None
    for own, wanted in zip(targets, returns, strict=True):
        torch.testing.assert_close(own.double(), wanted[: len(own)], rtol=1e-5, atol=1e-6)
    # The last row by hand: delta is 0.9 * 0.1 - 0.3, then 1 - 0.1 at the end.
    assert targets[4].tolist() == pytest.approx([0.9 * 0.1 + 0.9 * 0.8 * 0.9, 1.0])


def test_task_normalized_standardizes_the_tokens_of_each_task() -> None:
    tasks = ["alfworld", "alfworld", "sokoban", "sokoban", "sokoban"]
    rows = [replace(row, task=task) for row, task in zip(ROWS, tasks, strict=True)]
    base = spread(group_relative(SCORES, GROUPS, TRAJECTORIES))
    expected = task_normalized(base, MASK, torch.tensor([0, 0, 1, 1, 1]))
    advantages, _ = estimate(choose("agentrl"), rows, NOTHING, NOTHING, NOTHING)
    assert_rows(advantages, expected)
    drawn = [
        own[torch.from_numpy(row.response_mask) > 0]
        for own, row in zip(advantages, rows, strict=True)
    ]
    for part in (torch.cat(drawn[:2]), torch.cat(drawn[2:])):
        assert float(part.mean()) == pytest.approx(0, abs=1e-6)


def test_groups_of_one_number_in_two_tasks_are_two_groups() -> None:
    # As a single group, they would have the mean 1, and all but the middle ones would differ.
    rows = [
        replace(row(0, member, 0, reward, [1]), task=task)
        for task, rewards in (("alfworld", (0.0, 2.0)), ("sokoban", (10.0, 20.0)))
        for member, reward in enumerate(rewards)
    ]
    advantages, _ = estimate(choose("dr_grpo"), rows, [None] * 4, [None] * 4, [None] * 4)
    assert [float(own) for own in advantages] == pytest.approx([-1, 1, -5, 5])


@pytest.mark.parametrize("recipe", ["grpo", "dr_grpo", "gigpo", "rloo", "agentrl"])
def test_a_batch_in_which_all_fared_alike_teaches_nothing(recipe: str) -> None:
    rows = [row(group, member, 0, -0.6, [1, 1]) for group in range(3) for member in range(4)]
    advantages, _ = estimate(choose(recipe), rows, [None] * 12, [None] * 12, [None] * 12)
    assert not torch.cat(advantages).any()


def test_a_masked_row_counts_in_its_group_and_nowhere_else() -> None:
    rows = [row(0, 0, 0, 1.0, [1, 1]), replace(row(0, 1, 0, 0.0, [1]), masked=True)]
    config = resolve("rloo", "tiny", ["sokoban"])
    (first, second), _ = estimate(config, rows, NOTHING, NOTHING, NOTHING)
    # The other episode's score is the baseline: 1 - 0.
    assert first.tolist() == [1.0, 1.0] and second.tolist() == [0.0]
    # Whitened over counted tokens only: two equal ones.
    config = resolve("reinforce_pp", "tiny", ["sokoban"], ["kl.coef=0"])
    (first, second), _ = estimate(config, rows, NOTHING, NOTHING, NOTHING)
    assert first.tolist() == [0.0, 0.0] and second.tolist() == [0.0]
