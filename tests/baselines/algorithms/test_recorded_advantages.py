"""Compares advantages and dynamic sampling with recorded results of the released code."""

import json
from typing import Any

import torch
from torch import Tensor

from baselines.algorithms.advantage.gae import gae
from baselines.algorithms.advantage.gigpo import (
    StepNorm,
    discounted_step_returns,
    step_groups,
    step_relative,
)
from baselines.algorithms.sampling import Dynamic, keep_informative
from tests.baselines.algorithms.usual import empg, gigpo, group_relative
from tests.baselines.algorithms.vectors import Case, cases, close, matrix, numbers

ROUNDED = 1e-6
"""Tolerance for values that the recording code rounded to single precision."""


def spread(rows: Tensor, mask: Tensor) -> Tensor:
    return rows[:, None] * mask


def ids(inputs: Case) -> tuple[Tensor, Tensor]:
    return numbers(inputs["uid"]), numbers(inputs["traj_uid"])


def test_grpo() -> None:
    for case in cases("grpo_advantage.json"):
        inputs = case["inputs"]
        scores, mask = matrix(inputs["token_level_rewards"]).sum(1), matrix(inputs["response_mask"])
        assert len(case["expected"]) == 4
        for expected in case["expected"]:
            advantages = group_relative(
                scores,
                *ids(inputs),
                over="rows" if expected["cross_steps"] else "trajectories",
                divide_by_std=expected["norm_by_std"],
                epsilon=expected["epsilon"],
                single="raw",
                variance="between",
            )
            close(spread(advantages, mask), expected["advantages"], ROUNDED)


def test_step_returns() -> None:
    for case in cases("step_returns.json"):
        rewards, names = matrix(case["inputs"]["step_rewards"]), case["inputs"]["traj_uid"]
        turns = torch.tensor([names[:row].count(name) for row, name in enumerate(names)])
        for expected in case["expected"]:
            returns = discounted_step_returns(rewards, numbers(names), turns, expected["gamma"])
            close(returns, expected["returns"], 1e-5)


def anchor(value: Any) -> str:
    """Serialize grids, which are compared as text."""
    return value if isinstance(value, str) else json.dumps(value)


def test_gigpo() -> None:
    for case in cases("gigpo_advantage.json"):
        inputs = case["inputs"]
        scores, mask = matrix(inputs["token_level_rewards"]).sum(1), matrix(inputs["response_mask"])
        groups, trajectories = ids(inputs)
        anchors = [anchor(value) for value in inputs["anchor"]]
        returns = matrix(inputs["step_returns"])
        for expected in case["expected"]:
            threshold = expected["similarity_threshold"]
            own = step_groups(anchors, groups, similarity=threshold)
            assert own.tolist() == expected["step_groups"]
            mean_only = expected["mode"] == "mean_norm"
            norm: StepNorm = "mean" if mean_only else "mean_std"
            epsilon = expected["epsilon"]
            episode = group_relative(
                scores,
                groups,
                trajectories,
                over="rows",
                divide_by_std=not mean_only,
                epsilon=epsilon,
                single="raw",
            )
            step = step_relative(returns, own, norm=norm, epsilon=epsilon)
            both = gigpo(
                scores,
                returns,
                groups,
                trajectories,
                own,
                step_weight=expected["step_advantage_weight"],
                step_norm=norm,
                over="rows",
                single="raw",
                epsilon=epsilon,
            )
            close(spread(episode, mask), expected["episode_advantages"], ROUNDED)
            close(spread(step, mask), expected["step_advantages"], ROUNDED)
            close(spread(both, mask), expected["advantages"], ROUNDED)


def test_empg() -> None:
    for case in cases("empg_advantage.json"):
        inputs, constants = case["inputs"], case["constants"]
        mask, base = matrix(inputs["response_mask"]), matrix(inputs["base_advantages"])
        entropies = matrix(inputs["token_entropy"])
        # All tokens of a row share its advantage; the first one is always counted here.
        advantages = empg(
            base[:, 0],
            entropies,
            mask,
            numbers(inputs["traj_uid"]),
            torch.tensor(inputs["turn_index"]),
            **constants,
        )
        close(spread(advantages, mask), case["expected"]["advantages"], ROUNDED)
        # The base estimator itself.
        scores = matrix(inputs["token_level_rewards"]).sum(1)
        grpo = group_relative(scores, *ids(inputs), over="rows", single="raw")
        close(spread(grpo, mask), base, ROUNDED)


def test_gae() -> None:
    for case in cases("gae_advantage.json"):
        rewards, values, mask = (
            matrix(case["inputs"][name])
            for name in ("token_level_rewards", "values", "response_mask")
        )
        counted = mask.bool()
        for expected in case["expected"]:
            constants = {"gamma": expected["gamma"], "lam": expected["lam"]}
            advantages, returns = gae(rewards, values, mask, **constants)
            wanted = matrix(expected["advantages_whitened"])
            close(advantages[counted], wanted[counted], ROUNDED)
            close(returns[counted], matrix(expected["returns"])[counted], 1e-9)


def test_dynamic_sampling() -> None:
    for case in cases("dynamic_filter.json"):
        inputs, expected = case["inputs"], case["expected"]
        size = inputs["group_size"]
        batches = [
            [
                batch["episode_rewards"][first : first + size]
                for first in range(0, len(batch["episode_rewards"]), size)
            ]
            for batch in inputs["batches"]
        ]
        for single in expected["single_batch"]:
            groups = batches[single["batch"]]
            assert episodes(keep_informative(groups), size) == single["regular_kept"]
            for last in single["last_try"]:
                found = Dynamic(tries=1).collect(last["needed_groups"], groups, 1)
                assert episodes(found.kept, size) == last["kept"]
        rule = Dynamic(tries=inputs["max_tries"])
        kept: list[list[int]] = []
        rewards: list[float] = []
        for attempt, groups in enumerate(batches, 1):
            missing = inputs["groups_per_batch"] - len(kept) // size
            collected = rule.collect(missing, groups, attempt)
            kept += [[attempt - 1, episode] for episode in episodes(collected.kept, size)]
            rewards += [reward for index in collected.kept for reward in groups[index]]
            if not collected.again:
                break
        assert attempt == expected["loop_batches_used"]
        assert kept == expected["loop_kept"]
        assert rewards == expected["loop_rewards"]


def episodes(groups: Any, size: int) -> list[int]:
    return [group * size + member for group in groups for member in range(size)]
