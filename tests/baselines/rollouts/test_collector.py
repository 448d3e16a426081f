"""Collects from a real task: which groups, in which order, with how many tries, and how old."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from accelerate import Accelerator

from baselines.config.layers import resolve
from baselines.rollouts.async_collector import AsyncCollector
from baselines.rollouts.collector import Collector, TaskSource
from baselines.rollouts.process_shards import ProcessShards, Stopped
from baselines.rollouts.rows import PlayedGroup, group_jobs, longest_row, training_protocol
from benchmark.engines.core.base import EngineDown, EngineError, Request
from benchmark.hosts.inline import InlineHost
from tasks.errors import UserError
from tasks.registry import load_task
from tasks.seeding import stable_seed
from tests.baselines.rollouts.byte_engine import WAIT, ByteEngine, Policy, expert, wait

SEED = 11
MAX_TURNS = 6
SIZE = 2
TASK = load_task("sokoban")
OWN = [f"rollout.group_size={SIZE}", f"rollout.max_turns={MAX_TURNS}"]


LENGTHS = [int(TASK.training_entry(group, SEED).category) for group in range(40)]
"""Lengths of the shortest solutions of the stream's levels."""
GOOD = [group for group, length in enumerate(LENGTHS) if length <= MAX_TURNS]
"""Levels that can be solved within an episode."""


def make(
    engine: ByteEngine, *own: str, recipe: str = "dapo_grpo", tasks: tuple[str, ...] = ("sokoban",)
) -> Collector:
    config = resolve(recipe, "tiny", tasks, [*OWN, *own])
    sources = {
        name: TaskSource(load_task(name), training_protocol(load_task(name), config, SEED))
        for name in tasks
    }
    kind = Collector if config.rollout.max_staleness is None else AsyncCollector
    return kind(config, sources, engine, InlineHost(), ProcessShards(Accelerator(cpu=True), engine))


def first_members() -> set[int]:
    """Keys of the first episode of each group, which its requests share."""
    protocol = training_protocol(TASK, resolve("grpo", "tiny", ["sokoban"], OWN), SEED)
    jobs = [group_jobs(TASK, protocol, group, SIZE)[0] for group in range(len(LENGTHS))]
    return {stable_seed(*job.key) for job in jobs}


def experts_and_idlers() -> Policy:
    """In each group the expert plays the first episode, while the others do nothing.

    A group's returns therefore differ if and only if its level can be solved within an episode.
    """
    firsts = first_members()

    async def policy(request: Request) -> str:
        return await (expert if request.affinity in firsts else wait)(request)

    return policy


def numbers(groups: tuple[PlayedGroup, ...]) -> list[int]:
    return [group.group for group in groups]


def test_the_levels_tell_groups_apart() -> None:
    # The following tests need both kinds, and one group that the first batch cannot fill.
    assert 1 < len(GOOD) < len(LENGTHS) - 10
    assert not set(range(4)) <= set(GOOD)
    assert MAX_TURNS in {LENGTHS[group] for group in GOOD if group < 24}


async def test_without_filtering_a_batch_is_the_next_piece_of_the_stream() -> None:
    collector = make(ByteEngine(wait), "rollout.groups=3", recipe="grpo")
    first, second = await collector.collect(1), await collector.collect(2)
    assert numbers(first.groups) == numbers(first.drawn) == [0, 1, 2]
    assert numbers(second.groups) == [3, 4, 5]
    assert (first.tries, collector.position) == (1, 6)
    keys = [row.key for row in first.rows]
    assert keys == [
        ("sokoban", group, member, turn)
        for group in range(3)
        for member in range(SIZE)
        for turn in range(MAX_TURNS)
    ]


async def test_dynamic_sampling_draws_again_until_enough_groups_differ() -> None:
    policy = experts_and_idlers()
    wanted = 4
    collector = make(ByteEngine(policy), f"rollout.groups={wanted}", "sampling.dynamic.tries=9")
    rollout = await collector.collect(1)
    assert numbers(rollout.groups) == GOOD[:wanted]
    tries = GOOD[wanted - 1] // wanted + 1
    assert tries > 1
    assert rollout.tries == tries
    assert numbers(rollout.drawn) == list(range(tries * wanted))
    assert collector.position == tries * wanted
    assert {row.group for row in rollout.rows} == set(GOOD[:wanted])
    # The next update continues where this one stopped; leftover groups are not kept.
    following = await collector.collect(2)
    assert numbers(following.groups) == [g for g in GOOD if g >= tries * wanted][:wanted]


@pytest.mark.parametrize("fill", ["uniform", "smaller"])
async def test_after_the_last_try_places_are_filled_or_stay_empty(fill: str) -> None:
    own = ("rollout.groups=4", "sampling.dynamic.tries=1", f"sampling.dynamic.fill={fill}")
    rollout = await make(ByteEngine(experts_and_idlers()), *own).collect(1)
    good = [group for group in range(4) if group in GOOD]
    rest = [group for group in range(4) if group not in GOOD]
    assert numbers(rollout.groups) == (good + rest if fill == "uniform" else good)
    assert (rollout.tries, numbers(rollout.drawn)) == (1, [0, 1, 2, 3])
    # The order of rows does not depend on the order in which groups were chosen.
    assert [row.key for row in rollout.rows] == sorted(row.key for row in rollout.rows)


async def test_filtering_begins_after_the_cold_start() -> None:
    own = ("rollout.groups=2", "sampling.dynamic={tries: 2, cold_start: 1, fill: smaller}")
    collector = make(ByteEngine(wait), *own)
    cold, warm = await collector.collect(1), await collector.collect(2)
    assert (cold.tries, numbers(cold.groups), numbers(cold.drawn)) == (1, [0, 1], [0, 1])
    # All returns are equal: nothing is left to learn from, and that is not an error.
    assert (warm.tries, numbers(warm.groups), numbers(warm.drawn)) == (2, [], [2, 3, 4, 5])
    assert warm.rows == []


@pytest.mark.parametrize("criterion", ["returns", "success"])
async def test_what_counts_is_returns_or_success(criterion: str) -> None:
    begun: set[int] = set()

    async def late(request: Request) -> str:
        first = request.affinity not in begun
        begun.add(request.affinity)
        return await (wait if first else expert)(request)

    async def policy(request: Request) -> str:
        return await (expert if request.affinity in firsts else late)(request)

    firsts = first_members()
    own = (
        "rollout.groups=24",
        f"sampling.dynamic.criterion={criterion}",
        "sampling.dynamic.tries=1",
    )
    rollout = await make(ByteEngine(policy), *own, "sampling.dynamic.fill=smaller").collect(1)
    # After a lost turn, a level with a turn to spare is still solved, but with a lower return.
    expected = GOOD if criterion == "returns" else [g for g in GOOD if LENGTHS[g] == MAX_TURNS]
    assert numbers(rollout.groups) == [group for group in expected if group < 24]
    assert 0 < len(rollout.groups) < 24


async def test_tasks_take_turns() -> None:
    tasks = ("sokoban", "tir_math")
    own = ("rollout.groups=3", "rollout.max_tokens=16", "rollout.max_turns=1")
    collector = make(ByteEngine(wait), *own, recipe="agentrl", tasks=tasks)
    first, second = await collector.collect(1), await collector.collect(2)
    assert [(group.task, group.group) for group in first.groups + second.groups] == [
        ("sokoban", 0),
        ("tir_math", 0),
        ("sokoban", 1),
        ("tir_math", 1),
        ("sokoban", 2),
        ("tir_math", 2),
    ]
    # The task determines a row: one turn in one task, a trajectory in the other.
    assert {row.task for row in first.rows} == set(tasks)


async def test_a_mixture_gives_each_task_its_groups_in_every_update() -> None:
    tasks = ("sokoban", "tir_math")
    mixture = ("rollout.groups=4", "rollout.mixture.sokoban=1", "rollout.mixture.tir_math=3")
    own = (*mixture, "rollout.max_tokens=16", "rollout.max_turns=1")
    collector = make(ByteEngine(wait), *own, recipe="agentrl", tasks=tasks)
    for update in (0, 1):
        rollout = await collector.collect(update + 1)
        assert [(group.task, group.group) for group in rollout.groups] == [
            ("sokoban", update),
            ("tir_math", 3 * update),
            ("tir_math", 3 * update + 1),
            ("tir_math", 3 * update + 2),
        ]


def test_each_task_of_a_mixture_has_its_turn_limit() -> None:
    tasks = ("sokoban", "alfworld", "tir_math")
    limits = ("rollout.max_turns.alfworld=20", "rollout.max_turns.sokoban=9")
    config = resolve("grpo", "tiny", tasks, limits)
    found = [training_protocol(load_task(name), config, SEED).max_turns for name in tasks]
    assert found == [9, 20, 5]
    # The longest row is a whole trajectory in mathematics.
    assert longest_row(config, [load_task(name) for name in tasks]) == 5 * config.rollout.max_tokens


async def test_no_result_depends_on_how_many_episodes_run_at_once() -> None:
    found = []
    for concurrency in ("1", "5", "null"):
        engine = ByteEngine(expert)
        own = ("rollout.groups=3", f"rollout.concurrency={concurrency}")
        rollout = await make(engine, *own, recipe="grpo").collect(1)
        found.append([(row.key, row.response_ids.tolist(), row.anchor) for row in rollout.rows])
    assert found[0] == found[1] == found[2]


async def test_episodes_that_fail_are_counted_and_no_rows() -> None:
    protocol = training_protocol(TASK, resolve("grpo", "tiny", ["sokoban"], OWN), SEED)
    broken = {
        stable_seed(*job.key) for group in (1, 2) for job in group_jobs(TASK, protocol, group, SIZE)
    }

    async def policy(request: Request) -> str:
        if request.affinity in broken:
            raise EngineError("refused")
        return WAIT

    rollout = await make(ByteEngine(policy), "rollout.groups=4", recipe="grpo").collect(1)
    assert {row.group for row in rollout.rows} == {0, 3}
    errors = [episode.error for group in rollout.drawn for episode in group.episodes]
    assert errors == [None] * 2 + ["EngineError: refused"] * 4 + [None] * 2


async def test_where_nothing_can_be_played_the_cause_is_named() -> None:
    async def refuse(request: Request) -> str:
        raise EngineError(f"no answer with seed {request.seed >= 0}")

    with pytest.raises(UserError) as caught:
        await make(ByteEngine(refuse), "rollout.groups=2").collect(4)
    assert str(caught.value) == (
        "no episode of update 4 could be played: EngineError: no answer with seed True"
    )


async def until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not done():
            await asyncio.sleep(0.001)


@asynccontextmanager
async def asynchronous(
    staleness: int, engine: ByteEngine, *own: str, recipe: str = "grpo"
) -> AsyncIterator[Collector]:
    """A running collector, with more updates left than its bound allows it to be ahead."""
    own = ("rollout.groups=2", f"rollout.max_staleness={staleness}", *own)
    collector = make(engine, *own, recipe=recipe)
    assert isinstance(collector, AsyncCollector)
    async with collector:
        collector.advance(8)
        yield collector


@pytest.mark.slow
@pytest.mark.parametrize("staleness", [0, 1, 3])
@pytest.mark.parametrize("seconds", [0.0, 0.004])
async def test_no_row_is_older_than_the_bound(staleness: int, seconds: float) -> None:
    engine = ByteEngine(wait, seconds)
    ages, played = [], []
    async with asynchronous(staleness, engine) as collector:
        for update in range(1, 9):
            rollout = await collector.collect(update)
            played += numbers(rollout.groups)
            ages += [update - 1 - row.versions[0] for row in rollout.rows]
            # The update itself, during which episodes continue.
            await asyncio.sleep(0.005)
            await engine.load_weights((), update)
            collector.advance(8)
            assert collector.position == 2 * update
    assert played == list(range(16)), "nothing is left out and nothing played twice"
    assert min(ages) >= 0 and max(ages) <= staleness
    if not seconds:
        # The engine is far ahead, so the bound limits it.
        assert max(ages) == staleness


async def test_batches_that_are_under_way_share_the_episodes_in_flight() -> None:
    most: dict[str, list[int]] = {}
    for concurrency in ("4", "null"):
        engine = ByteEngine(wait, 0.002)
        seen = most.setdefault(concurrency, [])
        async with asynchronous(1, engine, f"rollout.concurrency={concurrency}") as collector:
            for update in range(1, 4):
                playing = asyncio.create_task(collector.collect(update))
                while not playing.done():
                    seen.append(engine.under_way)
                    await asyncio.sleep(0.001)
                await playing
                await engine.load_weights((), update)
                collector.advance(8)
    # Two batches of 2 groups of 2 episodes.
    assert max(most["4"]) == 4 and max(most["null"]) == 8


@pytest.mark.parametrize("staleness", [0, 1])
async def test_the_bound_holds_where_updates_take_several_batches(staleness: int) -> None:
    engine, version = ByteEngine(experts_and_idlers()), 0
    ages, tries = [], []
    async with asynchronous(
        staleness, engine, "sampling.dynamic.tries=3", recipe="dapo_grpo"
    ) as collector:
        for update in range(1, 5):
            rollout = await collector.collect(update)
            tries.append(rollout.tries)
            ages += [version - row.versions[0] for row in rollout.rows]
            assert collector.position == 2 * sum(tries)
            version = update
            await engine.load_weights((), version)
            collector.advance(8)
    assert max(tries) == 2
    assert set(ages) == set(range(staleness + 1))


async def test_episodes_go_on_while_nobody_collects() -> None:
    engine = ByteEngine(wait)
    async with asynchronous(1, engine) as collector:
        # Both batches that the bound allows are played before the first is requested.
        both = 2 * 2 * SIZE * MAX_TURNS
        await until(lambda: len(engine.requests) == both and not engine.under_way)
        await collector.collect(1)
        assert len(engine.requests) == both


async def test_nothing_is_played_after_it_has_settled() -> None:
    engine = ByteEngine(wait, 0.002)
    async with asynchronous(1, engine) as collector:
        await collector.collect(1)
        await collector.settle()
        asked = len(engine.requests)
        await asyncio.sleep(0.05)
        assert len(engine.requests) == asked
        # Batches that are already finished are returned at once; `advance` starts the next ones.
        assert numbers((await collector.collect(2)).groups) == [2, 3]
        assert len(engine.requests) == asked
        # No more requests than the remaining updates need.
        collector.advance(0)
        await collector.settle()
        assert len(engine.requests) == asked
        collector.advance(1)
        await collector.settle()
        assert len(engine.requests) == asked + 2 * SIZE * MAX_TURNS


async def test_a_stop_does_not_wait_for_what_is_under_way() -> None:
    engine = ByteEngine(wait, seconds=60.0)
    async with asynchronous(1, engine) as collector:
        await until(lambda: engine.under_way > 0)
        collector._players.stopping.set()
        await collector.settle()
        with pytest.raises(Stopped):
            await collector.collect(1)
    assert engine.under_way == 0


async def test_leaving_drops_what_is_under_way() -> None:
    before = asyncio.all_tasks()
    engine = ByteEngine(wait, seconds=60.0)
    async with asynchronous(2, engine):
        await until(lambda: engine.under_way == 3 * 2 * SIZE)
    assert engine.under_way == 0
    assert asyncio.all_tasks() == before


async def test_leaving_by_an_error_drops_what_is_under_way() -> None:
    before = asyncio.all_tasks()
    engine = ByteEngine(wait, seconds=60.0)
    with pytest.raises(TimeoutError):
        async with asynchronous(1, engine) as collector, asyncio.timeout(0.05):
            await collector.collect(1)
    assert engine.under_way == 0
    assert asyncio.all_tasks() == before


async def test_an_engine_that_dies_ends_the_collecting() -> None:
    async def dying(request: Request) -> str:
        if engine.version:
            raise EngineDown("gone")
        return await wait(request)

    before = asyncio.all_tasks()
    engine = ByteEngine(dying)
    async with asynchronous(0, engine) as collector:
        await collector.collect(1)
        await engine.load_weights((), 1)
        collector.advance(8)
        with pytest.raises(EngineDown, match="gone"):
            await collector.collect(2)
    assert asyncio.all_tasks() == before
