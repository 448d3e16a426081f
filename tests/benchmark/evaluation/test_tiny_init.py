"""The shipped inits play end to end, with known results, and the same at any concurrency."""

import asyncio
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from baselines.inits.registry import find_model
from benchmark.cli.main import main
from benchmark.engines.core.chat import Chat
from benchmark.engines.transformers.engine import TransformersEngine
from benchmark.evaluation.evaluate import Plan, evaluate
from benchmark.evaluation.manifest import Shard
from benchmark.evaluation.protocol import SamplingOverrides
from benchmark.evaluation.records import EpisodeRecord
from benchmark.evaluation.run_folder import RunFolder, read_run
from benchmark.submissions.check import read_accepted
from benchmark.submissions.reading.entry import ReadRun

SOURCE = find_model("tiny-sokoban")
SUBMISSIONS = Path(__file__).parents[3] / "submissions"


def play(path: Path, plan: Plan, concurrency: int) -> list[EpisodeRecord]:
    async def run() -> list[EpisodeRecord]:
        assert SOURCE.path is not None
        async with TransformersEngine(SOURCE.path, dtype="float32", max_batch=64) as engine:
            manifest = plan.manifest(SOURCE.identity, engine)
            with RunFolder(path, manifest, plan.keys()) as folder:
                await evaluate(plan, engine, folder, concurrency)
                return list(folder.records.values())

    return asyncio.run(run())


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The init's current play on a part of its panel, once per session."""

    @cache
    def run(name: str) -> Path:
        path = tmp_path_factory.mktemp(name)
        panels = (f"{task}/builtin" for task in find_model(name).tasks)
        command = ["eval", "--model", name, "--task", ",".join(panels)]
        shard = {"tiny-webshop": "1/8", "tiny-alfworld": "1/16"}.get(name, "1/4")
        assert main([*command, "--shard", shard, "--out", str(path)]) == 0
        return path

    return run


def accepted_run(name: str) -> ReadRun:
    """The init's play on the whole panel, from its entry."""
    (folder,) = SUBMISSIONS.glob(f"*_{name}")
    (run,) = read_accepted(folder).runs
    return run


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("name", "episodes"),
    [("tiny-sokoban", 64), ("tiny-alfworld", 9), ("tiny-tir-math", 63), ("tiny-webshop", 32)],
)
def test_an_init_plays_as_it_is_known_to(
    name: str, episodes: int, runs: Callable[[str], Path]
) -> None:
    path = runs(name)
    (panel,) = json.loads((path / "summary.json").read_bytes())["panels"]
    assert ((panel["task"],), panel["panel"]) == (find_model(name).tasks, "builtin")
    assert (panel["records"], panel["errors"]) == (episodes, 0)
    assert panel["format_valid"] > 0.95
    assert main(["replay", str(path)]) == 0
    manifest, records = read_run(path)
    assert manifest.model.kind == "init"
    assert manifest.overrides == {}
    # Other processors round differently, which occasionally changes the choice between two tokens.
    known = {record.key: record.success for record in accepted_run(name).records}
    same = [known[record.key] == record.success for record in records]
    assert sum(same) >= 0.9 * episodes


# The target for `tiny-all` was 20% on every task; its upper limits, and the ranges of
# `tiny-all-mixed`, were set when they were made.
@pytest.mark.parametrize(
    ("name", "task", "episodes", "low", "high"),
    [
        ("tiny-sokoban", "sokoban", 256, 0.20, 0.35),
        ("tiny-alfworld", "alfworld", 144, 0.30, 0.60),
        ("tiny-tir-math", "tir_math", 250, 0.30, 0.60),
        ("tiny-webshop", "webshop", 256, 0.30, 0.60),
        ("tiny-alfworld-mixed", "alfworld", 144, 0.10, 0.20),
        ("tiny-webshop-mixed", "webshop", 256, 0.10, 0.20),
        ("tiny-all", "sokoban", 256, 0.20, 0.45),
        ("tiny-all", "alfworld", 144, 0.20, 0.60),
        ("tiny-all", "webshop", 256, 0.20, 0.35),
        ("tiny-all", "tir_math", 250, 0.30, 0.90),
        ("tiny-all-mixed", "sokoban", 256, 0.20, 0.35),
        ("tiny-all-mixed", "alfworld", 144, 0.20, 0.45),
        ("tiny-all-mixed", "webshop", 256, 0.10, 0.20),
        ("tiny-all-mixed", "tir_math", 250, 0.30, 0.60),
    ],
)
def test_an_init_lies_in_its_band(
    name: str, task: str, episodes: int, low: float, high: float
) -> None:
    """Deliberately under-trained, so that reinforcement learning can improve or worsen them."""
    run, source = accepted_run(name), find_model(name)
    panels = {panel.task: panel for panel in run.summary.panels}
    assert set(panels) == set(source.tasks)
    assert run.manifest.model.sha256 == source.identity.sha256
    panel = panels[task]
    assert (panel.panel, panel.records, panel.errors) == ("builtin", episodes, 0)
    assert low <= panel.success.value <= high
    assert (panel.format_valid or 0) > 0.95


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_episode_of_mathematics_is_one_sequence(runs: Callable[[str], Path]) -> None:
    folder = find_model("tiny-tir-math").path
    assert folder is not None
    chat = Chat.load(folder)
    manifest, records = read_run(runs("tiny-tir-math"))
    assert manifest.panels[0].sampling.max_tokens == 4096
    conversations = [record for record in records if len(record.turns) > 1]
    assert len(conversations) > 25
    for record in conversations:
        sequence = record.sequence
        assert sequence is not None
        drawn = [chat.decode(sequence.token_ids[begin:end]) for begin, end in sequence.written]
        # The part of every response kept in the conversation, and the stop token if sampled.
        assert len(drawn) == len(record.turns)
        for text, turn in zip(drawn, record.turns, strict=True):
            assert turn.response.startswith(text)
        assert sum(sequence.response_mask) <= sum(
            turn.response_tokens or 0 for turn in record.turns
        )
        # The output of the programs is in between.
        whole = chat.tokenizer.decode(sequence.token_ids)
        for turn in record.turns[:-1]:
            assert f"Output:\n{turn.info['output']}" in whole


@pytest.mark.slow
def test_greedy_float32_does_not_depend_on_concurrency(tmp_path: Path) -> None:
    plan = Plan.of([("sokoban", "builtin")], shard=Shard(index=1, count=32))
    runs = [play(tmp_path / str(n), plan, n) for n in (1, 3, 64)]
    assert len(runs[0]) == 8
    for other in runs[1:]:
        for one, two in zip(runs[0], other, strict=True):
            # Batched sums round differently, so log-probabilities agree only approximately.
            exact = {"turns": {"__all__": {"log_prob"}}}
            assert one.model_dump(exclude=exact) == two.model_dump(exclude=exact)
            for turn, again in zip(one.turns, two.turns, strict=True):
                assert turn.log_prob == pytest.approx(again.log_prob, abs=1e-4)


@pytest.mark.slow
def test_seeded_sampling_repeats(tmp_path: Path) -> None:
    plan = Plan.of(
        [("sokoban", "builtin")],
        SamplingOverrides(temperature=0.7, top_p=0.95, top_k=20, repeats=2),
        shard=Shard(index=1, count=16),
    )
    first, second = (play(tmp_path / name, plan, n) for name, n in (("a", 64), ("b", 7)))
    responses = [[t.response for r in run for t in r.turns] for run in (first, second)]
    assert responses[0] == responses[1]
    # The two plays of an episode are sampled with different seeds.
    by_key = {(r.episode, r.repeat): [t.response for t in r.turns] for r in first}
    assert any(
        by_key[e, 0] != by_key[e, 1] for e, _ in by_key if (e, 1) in by_key and (e, 0) in by_key
    )
