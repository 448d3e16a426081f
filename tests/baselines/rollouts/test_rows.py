"""Converts plays to rows, token by token, and to metrics of the log."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.config.layers import resolve
from baselines.config.run import Unit
from baselines.config.schema import TrainConfig
from baselines.rollouts.rows import (
    PlayedGroup,
    group_jobs,
    longest_row,
    played_group,
    repeats_itself,
    rollout_metrics,
    training_protocol,
)
from benchmark.engines.core.base import Engine, Generation
from benchmark.engines.core.scripted import ScriptedEngine
from benchmark.evaluation.protocol import PanelProtocol
from benchmark.evaluation.rollout import Job, Trajectory, Turn, play_episode
from benchmark.hosts.inline import InlineHost
from benchmark.logs.metrics import metric_of
from tasks.base import Task
from tasks.chat.messages import text_of, user_message
from tasks.episode import Outcome, Step, View
from tasks.errors import UserError
from tasks.registry import load_task
from tasks.sokoban.pixels import draw_board
from tests.baselines.rollouts.byte_engine import ByteEngine, log_probs

PENALTY = 0.25


def config(*own: str) -> TrainConfig:
    return resolve("sampo", "tiny", ["sokoban"], own)


CONFIG = config()


def stream(task: Task, *own: str) -> PanelProtocol:
    settings = [f"format_penalty={PENALTY}", "rollout.max_turns=6", *own]
    return training_protocol(task, resolve("sampo", "tiny", [task.info.name], settings), seed=3)


def job(name: str = "sokoban") -> Job:
    task = load_task(name)
    return group_jobs(task, stream(task), group=5, size=2)[0]


def generation(
    prompt: tuple[int, ...], response: tuple[int, ...], versions: tuple[int, int] = (0, 0)
) -> Generation:
    """A response whose tokens have log-probabilities of minus a tenth of their ids."""
    return Generation(
        text="",
        finish_reason="stop",
        prompt_tokens=len(prompt),
        response_tokens=len(response),
        prompt_ids=prompt,
        response_ids=response,
        token_log_probs=tuple(-token / 10 for token in response),
        weights_versions=versions,
    )


def view(observation: str) -> View:
    return View((), observation)


def turn(
    made: Generation,
    reward: float = -0.1,
    ok: tuple[bool, bool] = (True, True),
    after: str = "",
    outcome: Outcome | None = None,
) -> Turn:
    format_ok, action_ok = ok
    return Turn(
        view("the view of a turn is not what anchors it"),
        made,
        Step("up", format_ok, action_ok, reward, view(after), outcome),
    )


WON = Outcome(success=True, score=8.0)


def three_turns(of: Job) -> Trajectory:
    """Two turns with a penalty each, then one that wins."""
    return Trajectory(
        of,
        view("first"),
        (
            turn(generation((1, 2), (3,), (4, 4)), ok=(False, True), after="second"),
            turn(generation((1, 5, 6), (7, 8), (4, 5)), ok=(True, False), after="third"),
            turn(generation((9,), (2, 2, 2), (5, 5)), 10.9, after="last", outcome=WON),
        ),
        WON,
        None,
    )


def failed(of: Job, turns: tuple[Turn, ...] = ()) -> Trajectory:
    return Trajectory(of, view("first"), turns, None, "EngineError: no")


def test_a_turn_is_a_row() -> None:
    group = played_group([three_turns(job())], group=5, unit="turn", config=CONFIG)
    assert (group.task, group.group) == ("sokoban", 5)
    first, second, third = group.rows
    assert [row.key for row in group.rows] == [("sokoban", 5, 0, number) for number in range(3)]
    assert first.prompt_ids.tolist() == [1, 2] and first.response_ids.tolist() == [3]
    assert second.prompt_ids.tolist() == [1, 5, 6] and second.response_ids.tolist() == [7, 8]
    assert third.response_mask.tolist() == [1, 1, 1]
    np.testing.assert_allclose(second.engine_log_probs, [-0.7, -0.8], rtol=1e-6)
    assert [row.versions for row in group.rows] == [(4, 4), (4, 5), (5, 5)]
    assert [row.length for row in group.rows] == [3, 5, 4]
    # A turn's anchor is the observation before it, never the one after it.
    assert [row.anchor for row in group.rows] == ["first", "second", "third"]
    # Every row has the episode's total return, and the environment's reward for its own turn.
    assert [row.reward for row in group.rows] == [pytest.approx(10.7)] * 3
    assert [row.step_reward for row in group.rows] == [-0.1, -0.1, 10.9]
    assert all(row.success for row in group.rows)


def test_a_penalty_falls_on_its_turn_or_on_all_turns_of_the_episode() -> None:
    played = three_turns(job())
    own = played_group([played], 5, "turn", CONFIG)
    assert [row.penalty for row in own.rows] == [PENALTY, PENALTY, 0.0]
    shared = played_group([played], 5, "turn", config("penalty_on=episode"))
    assert [row.penalty for row in shared.rows] == [2 * PENALTY] * 3
    # The first turn violates the format; the second is an invalid action.
    format_alone = played_group([played], 5, "turn", config("penalty_for=format"))
    assert [row.penalty for row in format_alone.rows] == [PENALTY, 0.0, 0.0]
    assert format_alone.episodes[0].penalty == PENALTY
    for group in (own, shared):
        (episode,) = group.episodes
        assert episode.penalty == 2 * PENALTY
        assert episode.episode_return == pytest.approx(10.7 - 2 * PENALTY)


def test_an_episode_with_a_void_turn_is_masked_where_that_is_chosen() -> None:
    void = three_turns(job())
    admitted = turn(generation((1,), (2,)), ok=(True, False), outcome=WON)
    fine = Trajectory(job(), view(""), (admitted,), WON, None)
    kept = played_group([void, fine], 5, "turn", CONFIG)
    assert not any(row.masked for row in kept.rows)
    masked = played_group([void, fine], 5, "turn", config("void_episodes=masked"))
    # All turns of the first episode, not only the one that violates the format.
    assert [row.masked for row in masked.rows] == [True, True, True, False]
    assert [row.reward for row in masked.rows] == [row.reward for row in kept.rows]
    assert rollout_metrics([masked], 1)["rollout/masked"] == 1


def conversation(of: Job) -> Trajectory:
    """Consecutive prompts, the second of which drops the end of the first response."""
    return Trajectory(
        of,
        view("problem"),
        (
            turn(generation((1, 2), (3, 4, 9), (0, 0)), 0.0, (False, True), "out"),
            turn(generation((1, 2, 3, 4, 20, 21), (5, 6), (1, 2)), 0.5, outcome=WON),
        ),
        WON,
        None,
    )


@pytest.mark.parametrize("penalty_on", ["turn", "episode"])
def test_a_trajectory_is_a_row_in_which_the_world_is_masked(penalty_on: str) -> None:
    (row,) = played_group(
        [conversation(job("tir_math"))], 5, "trajectory", config(f"penalty_on={penalty_on}")
    ).rows
    assert row.prompt_ids.tolist() == [1, 2]
    assert row.response_ids.tolist() == [3, 4, 20, 21, 5, 6]
    assert row.response_mask.tolist() == [1, 1, 0, 0, 1, 1]
    # The log-probability of the dropped token (9) is dropped as well; the others stay in place.
    np.testing.assert_allclose(row.engine_log_probs, [-0.3, -0.4, 0, 0, -0.5, -0.6], rtol=1e-6)
    assert row.versions == (0, 2), "from the first turn's oldest to the last turn's newest weights"
    assert (row.key, row.anchor) == (("tir_math", 5, 0, 0), "problem")
    assert (row.reward, row.step_reward, row.penalty) == (0.5, 0.5, PENALTY)


def test_turns_that_drop_out_of_a_trajectory_are_counted() -> None:
    whole = conversation(job("tir_math"))
    first = turn(generation((1, 2), (3, 4)), 0.0, (True, True), "out")
    last = turn(generation((1, 2, 20, 21), (5, 6)), 0.5, outcome=WON)
    without = Trajectory(whole.job, view("problem"), (first, last), WON, None)
    group = played_group([whole, without], 5, "trajectory", CONFIG)
    assert [episode.lost_turns for episode in group.episodes] == [0, 1]
    assert group.rows[1].response_ids.tolist() == [5, 6]
    assert rollout_metrics([group], 1)["rollout/lost_turns"] == 1


def test_prompts_that_do_not_go_on_are_no_trajectory() -> None:
    with pytest.raises(UserError, match=r"a prompt of sokoban .* not one sequence: .*unit=turn"):
        played_group([three_turns(job())], 5, "trajectory", CONFIG)


def test_an_error_leaves_no_rows_but_counts_as_the_worst_failure() -> None:
    here = job()
    cut = failed(here, three_turns(here).turns[:2])
    group = played_group([cut, three_turns(here), failed(here)], 5, "turn", CONFIG)
    assert {row.member for row in group.rows} == {1}
    broken, whole, empty = group.episodes
    assert [episode.member for episode in group.episodes] == [0, 1, 2]
    for episode in (broken, empty):
        assert episode.error == "EngineError: no"
        # Six turns at -0.1 each, whatever was earned before the error.
        assert episode.reward == episode.score == pytest.approx(-0.6)
        assert not episode.success
    assert (broken.turns, broken.penalty, empty.turns, empty.penalty) == (2, 2 * PENALTY, 0, 0.0)
    assert whole.error is None


def play(unit: Unit, engine: Engine, name: str, size: int = 1) -> PlayedGroup:
    task = load_task(name)
    jobs = group_jobs(task, stream(task), group=2, size=size)

    async def trajectories() -> list[Trajectory]:
        return [await play_episode(job, engine, InlineHost()) for job in jobs]

    return played_group(asyncio.run(trajectories()), 2, unit, CONFIG)


def test_rows_of_a_real_world_are_what_was_shown_and_answered() -> None:
    task = load_task("sokoban")
    entry = task.training_entry(2, 3)
    rows = [row for row in play("turn", ByteEngine(), "sokoban", size=2).rows if row.member]
    assert 3 <= len(rows) == min(int(entry.category), 6), "the expert takes a shortest way"
    episode = task.episode(entry, 6)
    seen = episode.reset()
    for row in rows:
        assert row.anchor == seen.observation
        assert bytes(row.prompt_ids.tolist()).decode() == text_of(seen.messages[0])
        response = bytes(row.response_ids.tolist()).decode()
        assert response == task.expert_response(episode)
        np.testing.assert_allclose(row.engine_log_probs, log_probs(response), rtol=1e-6)
        step = episode.step(response)
        assert row.step_reward == step.reward
        seen = step.view
    assert len({row.anchor for row in rows}) == len(rows)


@pytest.mark.slow
def test_a_real_conversation_is_one_row() -> None:
    group = play("trajectory", ByteEngine(), "tir_math")
    (row,), (episode,) = group.rows, group.episodes
    assert episode.turns == 2, "a program, and the answer that came out of it"
    assert int(row.response_mask.sum()) == sum(episode.response_tokens)
    drawn = row.response_mask > 0
    assert bytes(row.response_ids[~drawn].tolist()).decode() == "Output:\n657306"
    np.testing.assert_allclose(
        row.engine_log_probs[drawn], -row.response_ids[drawn] / 1000, rtol=1e-6
    )
    assert not row.engine_log_probs[~drawn].any()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "unit"), [("sokoban", "turn"), ("tir_math", "trajectory")])
def test_an_engine_without_token_ids_cannot_train(name: str, unit: Unit) -> None:
    with pytest.raises(UserError, match="training needs an engine with token ids and"):
        play(unit, ScriptedEngine("expert"), name)


@pytest.mark.parametrize(("name", "unit"), [("sokoban", "turn"), ("tir_math", "trajectory")])
def test_an_engine_without_log_probs_cannot_train(name: str, unit: Unit) -> None:
    of = job(name)
    silent = replace(generation((1, 2), (3, 4)), token_log_probs=None)
    played = Trajectory(of, view("first"), (turn(silent, outcome=WON),), WON, None)
    with pytest.raises(UserError, match="training needs an engine with token ids and"):
        played_group([played], 5, unit, CONFIG)


def test_episodes_of_a_group_are_plays_of_one_entry_with_draws_of_their_own() -> None:
    task = load_task("sokoban")
    protocol = stream(task)
    third, fourth = (group_jobs(task, protocol, group, size=4) for group in (3, 4))
    assert {job.entry.id for job in third} == {task.training_entry(3, 3).id}
    seeds = {
        job.protocol.turn_seed(job.entry.id, job.repeat, number)
        for job in third + fourth
        for number in range(6)
    }
    assert len(seeds) == 2 * 4 * 6
    # If a stream returns to an entry, its sampling seeds are still new.
    assert {job.repeat for job in third}.isdisjoint(job.repeat for job in fourth)


def test_the_protocol_of_training() -> None:
    task = load_task("sokoban")
    config = resolve(
        "grpo", "tiny", ["sokoban"], ["rollout.temperature=0.7", "rollout.max_tokens=99"]
    )
    protocol = training_protocol(task, config, seed=0)
    assert protocol.max_turns == 15
    assert protocol.format_penalty == 0.1
    sampling = protocol.sampling
    assert (sampling.temperature, sampling.max_tokens) == (0.7, 99)
    assert (sampling.top_p, sampling.top_k) == (1.0, 0), "draws come from the whole distribution"
    other = training_protocol(task, config, seed=1)
    assert other.fingerprint != protocol.fingerprint, "the seed of a run moves all of its draws"


def test_a_response_repeats_itself_when_most_of_its_4_grams_are_old() -> None:
    assert repeats_itself([7] * 8)
    assert not repeats_itself([7] * 7), "too short to tell"
    assert not repeats_itself(range(40))
    # Nine 4-grams: (1 2 3 4), (2 3 4 1), (3 4 1 2), (4 1 2 3), and repeats of five of them.
    assert repeats_itself([1, 2, 3, 4] * 3)
    # Eight 4-grams, four of them repeats: half is not more than half.
    assert not repeats_itself([1, 2, 3, 4] * 2 + [1, 2, 3])
    assert not repeats_itself([])


@given(st.lists(st.integers(0, 3), max_size=60))
def test_text_said_twice_is_repeated_more(tokens: list[int]) -> None:
    thrice = tokens * 3
    if repeats_itself(tokens):
        assert repeats_itself(thrice)
    if len(tokens) >= 8:
        assert repeats_itself(thrice), "two thirds of it have been said before"


def test_numbers_of_what_was_played() -> None:
    here = job()
    won = three_turns(here)
    chatty = turn(replace(generation((1,), (4,) * 10), finish_reason="length"), outcome=WON)
    lost = Outcome(success=False, score=-0.1)
    plain = turn(generation((1, 2, 3), (5, 6)), outcome=lost)
    unequal = played_group(
        [won, Trajectory(here, view(""), (chatty,), WON, None), failed(here)], 5, "turn", CONFIG
    )
    alike = played_group([Trajectory(here, view(""), (plain,), lost, None)] * 3, 6, "turn", CONFIG)
    found = rollout_metrics([unequal, alike], tries=2)
    returns = [10.7 - 2 * PENALTY, -0.1, -0.6]
    # Over the two episodes that were played.
    deviation = (returns[0] - returns[1]) / 2
    assert found == {
        "rollout/success": pytest.approx(2 / 6),
        "rollout/score": pytest.approx((8 + 8 - 0.6 - 3 * 0.1) / 6),
        "rollout/return": pytest.approx((sum(returns) - 3 * 0.1) / 6),
        "rollout/reward": pytest.approx((10.7 - 0.1 - 0.6 - 3 * 0.1) / 6),
        "rollout/penalty": pytest.approx(2 * PENALTY / 6),
        "rollout/format_ok": pytest.approx(6 / 7),
        "rollout/action_ok": pytest.approx(6 / 7),
        "rollout/turns": pytest.approx(7 / 6),
        "rollout/episodes": 6,
        "rollout/groups": 2,
        "rollout/uniform_groups": 0.5,
        "rollout/group_std": pytest.approx(deviation / 2),
        "rollout/tries": 2,
        "rollout/errors": 1,
        "rollout/lost_turns": 0,
        "rollout/masked": 0,
        "rollout/repeated": pytest.approx(1 / 7),
        "response/tokens_mean": pytest.approx((1 + 2 + 3 + 10 + 3 * 2) / 7),
        "response/tokens_max": 10,
        "response/truncated": pytest.approx(1 / 7),
        "tokens/prompt": 2 + 3 + 1 + 1 + 3 * 3,
        "tokens/response": 1 + 2 + 3 + 10 + 3 * 2,
    }


def test_an_error_makes_no_spread_in_a_group() -> None:
    """Training skips such groups, as well as those with equal returns."""
    whole = three_turns(job())
    alike = played_group([whole, failed(job()), whole], 5, "turn", CONFIG)
    nothing = played_group([failed(job())] * 2, 6, "turn", CONFIG)
    found = rollout_metrics([alike, nothing], tries=1)
    assert (found["rollout/uniform_groups"], found["rollout/group_std"]) == (1.0, 0.0)
    assert found["rollout/errors"] == 3


def test_numbers_of_a_mixture_are_those_of_each_task_too() -> None:
    won = played_group([three_turns(job())] * 2, 5, "turn", CONFIG)
    lost = replace(played_group([failed(job())] * 3, 6, "turn", CONFIG), task="webshop")
    found = rollout_metrics([won, lost], tries=1)
    assert found["rollout/success"] == pytest.approx(2 / 5)
    assert found["rollout/success@sokoban"] == 1
    assert found["rollout/success@webshop"] == 0
    assert (found["rollout/episodes@sokoban"], found["rollout/episodes@webshop"]) == (2, 3)
    assert found["rollout/format_ok@webshop"] is None  # no turn was played
    assert all(metric_of(name) for name in found)


def test_shares_of_turns_are_unknown_where_no_turn_was_played() -> None:
    found = rollout_metrics([played_group([failed(job())], 0, "turn", CONFIG)], tries=1)
    assert found["rollout/format_ok"] is None and found["response/tokens_mean"] is None
    assert (found["rollout/errors"], found["rollout/success"], found["tokens/response"]) == (
        1,
        0,
        0,
    )


def test_a_trajectory_can_have_the_tokens_of_all_its_turns() -> None:
    tasks = (load_task("tir_math"),)
    own = ["rollout.max_tokens=10", "rollout.max_turns=3"]
    assert longest_row(resolve("dr_grpo", "tiny", ["tir_math"], own), tasks) == 30
    by_turn = resolve("dr_grpo", "tiny", ["tir_math"], [*own, "unit=turn"])
    assert longest_row(by_turn, tasks) == 10
    sokoban = (load_task("sokoban"),)
    assert longest_row(resolve("dr_grpo", "tiny", ["sokoban"], own), sokoban) == 10


def test_rows_have_the_images_of_their_prompts() -> None:
    played = three_turns(job())
    assert played.start is not None
    image = draw_board(("###", "#@#", "###"))
    start = replace(played.start, messages=(user_message("Look.", (image,)),))
    played = replace(played, start=start)
    rows = played_group([played], group=5, unit="turn", config=CONFIG).rows
    assert [row.images for row in rows] == [(image,), (), ()]
