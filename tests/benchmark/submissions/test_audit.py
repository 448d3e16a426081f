"""The audit passes records of the named weights, but not those of anything else."""

import asyncio
import math
import re
import shutil
import statistics
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel

from baselines.inits.registry import find_model
from benchmark.cli.main import main
from benchmark.engines.core.base import Sampling
from benchmark.engines.core.chat import Chat
from benchmark.engines.transformers.engine import TransformersEngine, load_model
from benchmark.evaluation.evaluate import Plan, evaluate
from benchmark.evaluation.manifest import Shard
from benchmark.evaluation.protocol import SamplingOverrides
from benchmark.evaluation.records import SequenceRecord, TurnRecord
from benchmark.evaluation.run_folder import RunFolder, read_run
from benchmark.evaluation.summarize import summarize
from benchmark.models import ModelIdentity, from_folder
from benchmark.submissions.audit import (
    EVIDENCE,
    EpisodeAudit,
    audit_run,
    evidence_of,
)
from benchmark.submissions.parts import Played, RunUpload
from benchmark.submissions.prepare import prepare
from benchmark.submissions.reading.entry import ReadRun
from benchmark.submissions.token_scores import EXACT, ROUGH, excluded_tokens
from tasks.errors import UserError
from tests.support.submissions.small import about, play_policy

pytestmark = pytest.mark.slow

Weights = tuple[PreTrainedModel, Chat]

SOKOBAN = find_model("tiny-sokoban")
GREEDY, DRAWN = SamplingOverrides(), SamplingOverrides(temperature=0.7, top_p=0.95)
EPISODES = 8


def plan(choices: SamplingOverrides = GREEDY, task: str = "sokoban", parts: int = 32) -> Plan:
    return Plan.of([(task, "builtin")], choices, shard=Shard(index=1, count=parts))


def play(path: Path, folder: Path, planned: Plan) -> ReadRun:
    """Play a part of a panel with a model."""

    async def run() -> None:
        async with TransformersEngine(folder, dtype="float32") as engine:
            manifest = planned.manifest(from_folder(folder).identity, engine)
            with RunFolder(path, manifest, planned.keys()) as out:
                await evaluate(planned, engine, out, 16)

    asyncio.run(run())
    return read(path)


def read(path: Path) -> ReadRun:
    manifest, records = read_run(path)
    return ReadRun("runs/r0", manifest, tuple(records), summarize(manifest, records))


def weights(folder: Path | None) -> Weights:
    assert folder is not None
    return load_model(folder, "float32", "cpu"), Chat.load(folder)


@pytest.fixture(scope="module")
def tiny() -> Weights:
    torch.set_num_threads(1)
    return weights(SOKOBAN.path)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ReadRun]:
    """The init's own plays, greedy and sampled."""
    assert SOKOBAN.path is not None
    root = tmp_path_factory.mktemp("own")
    return {
        "greedy": play(root / "greedy", SOKOBAN.path, plan()),
        "drawn": play(root / "drawn", SOKOBAN.path, plan(DRAWN)),
    }


@pytest.fixture(scope="module")
def near(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The init with some noise added to its weights."""
    folder = tmp_path_factory.mktemp("near") / "model"
    assert SOKOBAN.path is not None
    shutil.copytree(SOKOBAN.path, folder)
    model = load_model(SOKOBAN.path, "float32", "cpu")
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for value in model.parameters():
            if value.dim() > 1:
                value.add_(0.1 * value.std() * torch.randn(value.shape, generator=generator))
    model.save_pretrained(folder)
    return folder


def audited(run: ReadRun, under: Weights) -> list[EpisodeAudit]:
    return list(audit_run(run, *under, len(run.records)))


def changed(run: ReadRun, change: Callable[[int, TurnRecord], dict[str, object]]) -> ReadRun:
    """The run with changed turns."""
    records = [
        record.model_copy(
            update={
                "turns": tuple(
                    turn.model_copy(update=change(number, turn))
                    for number, turn in enumerate(record.turns)
                )
            }
        )
        for record in run.records
    ]
    return replace(run, records=tuple(records))


def claimed(run: ReadRun, model: ModelIdentity) -> ReadRun:
    """A policy's run, presented as that of a model in float32."""
    engine = {"kind": "transformers", "dtype": "float32"}
    manifest = run.manifest.model_copy(update={"model": model, "engine": engine})
    return replace(run, manifest=manifest)


@pytest.mark.parametrize("how", ["greedy", "drawn"])
def test_own_records_are_credible(how: str, runs: Mapping[str, ReadRun], tiny: Weights) -> None:
    found = audited(runs[how], tiny)
    by_key = {record.key: record for record in runs[how].records}
    assert len(found) == EPISODES == len({audit.key for audit in found})
    for audit in found:
        turns = by_key[audit.key].turns
        assert audit.credible
        assert audit.tolerance == EXACT
        assert (audit.evidence is None) == (how == "greedy")
        assert audit.off is not None
        assert audit.off < 1e-5
        assert audit.tokens == sum(turn.response_tokens or 0 for turn in turns)
        recorded = math.fsum(turn.log_prob or 0.0 for turn in turns)
        assert audit.log_prob == pytest.approx(recorded, abs=1e-3)
    assert (evidence_of(found) or 0.0) < EVIDENCE


@pytest.mark.parametrize(("how", "least"), [("greedy", 3), ("drawn", 1)])
def test_records_of_the_expert_are_not(
    how: str, least: int, runs: Mapping[str, ReadRun], tiny: Weights, tmp_path: Path
) -> None:
    # The init was cloned from the expert and answers alike where it has learned it: its samples
    # differ from the expert's only where the nucleus excludes an action.
    planned = plan(DRAWN if how == "drawn" else GREEDY)
    run = read(play_policy(tmp_path / "run", "expert", planned))
    found = audited(claimed(run, SOKOBAN.identity), tiny)
    flagged = [audit for audit in found if not audit.plausible]
    assert len(flagged) >= least
    assert all(audit.far > 0 for audit in flagged)
    assert all(audit.off is None for audit in found)  # a policy has no log-probabilities
    said = {record.key: [turn.response for turn in record.turns] for record in run.records}
    own = {record.key: [turn.response for turn in record.turns] for record in runs[how].records}
    if how == "greedy":
        # Where every choice is determined, only what the init itself would answer passes.
        assert {a.key for a in found if a.credible} == {key for key in own if own[key] == said[key]}


@pytest.mark.parametrize("how", ["greedy", "drawn"])
def test_records_of_other_weights_are_not(
    how: str, near: Path, tiny: Weights, tmp_path: Path
) -> None:
    run = play(tmp_path / "run", near, plan(DRAWN if how == "drawn" else GREEDY))
    found = audited(run, tiny)
    assert sum(not audit.credible for audit in found) > EPISODES // 3
    assert any(not audit.plausible for audit in found)
    assert all(audit.credible for audit in audited(run, weights(near)))


def test_words_of_another_tokenizer_are_not(runs: Mapping[str, ReadRun]) -> None:
    found = audited(runs["greedy"], weights(find_model("tiny-alfworld").path))
    assert not any(audit.of_its_text or audit.credible for audit in found)


@pytest.mark.parametrize("invent", [lambda turn: 0.0, lambda turn: -0.3 * turn.response_tokens])
def test_invented_log_probabilities_are_seen(
    invent: Callable[[TurnRecord], float], runs: Mapping[str, ReadRun], tiny: Weights
) -> None:
    forged = changed(runs["drawn"], lambda _, turn: {"log_prob": invent(turn)})
    # Invented values may be right: in an episode of a few turns, the init can be almost certain.
    wrong = {
        record.key: statistics.median(
            abs((turn.log_prob or 0.0) - invent(turn)) / (turn.response_tokens or 1)
            for turn in record.turns
        )
        > EXACT.off
        for record in runs["drawn"].records
    }
    assert sum(wrong.values()) >= EPISODES - 2
    for audit in audited(forged, tiny):
        assert audit.plausible
        assert audit.agrees != wrong[audit.key]
        assert audit.credible != wrong[audit.key]


@pytest.mark.parametrize(("nats", "fine"), [(-0.04, True), (-0.06, False)])
def test_other_data_types_are_allowed_for(
    nats: float, fine: bool, runs: Mapping[str, ReadRun], tiny: Weights
) -> None:
    def moved(_: int, turn: TurnRecord) -> dict[str, object]:
        return {"log_prob": (turn.log_prob or 0) + nats * (turn.response_tokens or 0)}

    manifest = runs["drawn"].manifest.model_copy(update={"engine": {"dtype": "bfloat16"}})
    found = audited(replace(changed(runs["drawn"], moved), manifest=manifest), tiny)
    assert {(audit.credible, audit.tolerance) for audit in found} == {(fine, ROUGH)}


def test_which_of_several_ends_was_drawn_need_not_be_known(
    runs: Mapping[str, ReadRun], tiny: Weights
) -> None:
    model, chat = tiny
    both = Chat(chat.tokenizer, chat.stop_ids | {0})
    for one, other in zip(
        audited(runs["drawn"], tiny), audited(runs["drawn"], (model, both)), strict=True
    ):
        (record,) = (r for r in runs["drawn"].records if r.key == one.key)
        assert other.credible
        assert other.off is not None
        assert other.off < 1e-5
        assert other.tokens == one.tokens - len(record.turns)


def test_text_that_was_drawn_as_other_tokens_is_left_out(
    runs: Mapping[str, ReadRun], tiny: Weights
) -> None:
    def longer(of: Callable[[int], bool]) -> ReadRun:
        return changed(
            runs["greedy"],
            lambda n, turn: {"response_tokens": (turn.response_tokens or 0) + of(n)},
        )

    whole = audited(runs["greedy"], tiny)
    for one, other in zip(whole, audited(longer(lambda n: n == 0), tiny), strict=True):
        assert other.tokens < one.tokens
        assert other.credible
    for audit in audited(longer(lambda n: n % 3 > 0 or n == 0), tiny):
        assert not audit.of_its_text


def test_a_sequence_is_held_against_its_text(tmp_path: Path) -> None:
    folder = find_model("tiny-tir-math").path
    assert folder is not None
    run = play(tmp_path / "run", folder, plan(task="tir_math", parts=50))
    under = weights(folder)
    found = audited(run, under)
    assert len(found) == 5
    assert all(audit.credible and (audit.off or 0) < 1e-5 for audit in found)

    def moved(s: SequenceRecord) -> tuple[tuple[int, int], ...]:
        return *s.written[:-1], (s.written[-1][0] + 1, s.written[-1][1])

    forgeries: list[Callable[[SequenceRecord], dict[str, object]]] = [
        lambda s: {"token_ids": (10**6, *s.token_ids[1:])},  # ignored in decoding
        lambda s: {"token_ids": (s.token_ids[1], *s.token_ids[1:])},  # another prompt
        lambda s: {"written": moved(s)},  # claims less than the whole response as sampled
        lambda s: {"written": s.written[-1:] * 9},
    ]
    records = list(changed(run, lambda _, turn: {"response": turn.response + " "}).records)
    for place, forge in enumerate(forgeries):
        whole = run.records[place]
        assert whole.sequence is not None
        sequence = whole.sequence.model_copy(update=forge(whole.sequence))
        records[place] = whole.model_copy(update={"sequence": sequence})
    # The last record has its own tokens, but somebody else's text.
    found = audited(replace(run, records=tuple(records)), under)
    assert len(found) == len(forgeries) + 1
    assert not any(audit.of_its_text or audit.credible for audit in found)


def test_what_sampling_leaves_out_is_no_choice() -> None:
    shares = torch.tensor([[0.5, 0.3, 0.15, 0.05]] * 4)
    likelier = torch.ones(4, 4).tril(-1).bool()  # of token n all before it

    def excluded(temperature: float, top_p: float = 1, top_k: int = 0) -> list[bool]:
        sampling = Sampling(temperature, top_p, top_k)
        left_out: list[bool] = excluded_tokens(likelier, shares, sampling, EXACT).tolist()
        return left_out

    assert excluded(temperature=0) == [False, True, True, True]
    assert excluded(temperature=1) == [False] * 4
    assert excluded(temperature=1, top_p=0.7) == [False, False, True, True]
    assert excluded(temperature=1, top_k=3) == [False, False, False, True]


def test_evidence_of_episodes_adds_up(runs: Mapping[str, ReadRun], tiny: Weights) -> None:
    (first,) = audit_run(runs["drawn"], *tiny, 1)
    one, two = replace(first, bets=(1.0, 2.0, 3.0)), replace(first, bets=(0.0, 3.0, -1.0))
    assert one.evidence == pytest.approx(math.log((math.e + math.e**2 + math.e**3) / 3))
    together = math.log((math.e + math.e**5 + math.e**2) / 3)
    assert evidence_of([one, two]) == pytest.approx(together)
    assert evidence_of([replace(first, bets=())]) is None
    assert replace(one, bets=(12.0,)).plausible is False
    assert evidence_of([]) is None


def submission(root: Path, run: ReadRun, path: Path, model: ModelIdentity) -> Path:
    folder = root / "20260102_own"
    sent = claimed(run, model)
    prepare([RunUpload(0, model, (Played(path, sent.manifest, sent.records),), None)],
            about("init"), folder)  # fmt: skip
    return folder


def test_the_command(
    tmp_path: Path, runs: Mapping[str, ReadRun], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = submission(tmp_path, runs["greedy"], tmp_path, SOKOBAN.identity)
    command = ["audit", str(folder), "--model", "tiny-sokoban", "--episodes", "3"]
    assert main(command) == 0
    assert "3 episodes scored under tiny-sokoban (init, SHA-256" in capsys.readouterr().out
    shutil.rmtree(folder)
    forged = changed(runs["greedy"], lambda _, turn: {"log_prob": -9.0})
    submission(tmp_path, forged, tmp_path, SOKOBAN.identity)
    assert main(command) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("sokoban/builtin/")
    assert "recorded log-probabilities are off by 0." in lines[0]
    assert ": 3 not plausible, 0 of " in lines[-1]


def test_turns_that_cannot_be_scored_are_counted_and_many_are_an_objection(
    tmp_path: Path, runs: Mapping[str, ReadRun], capsys: pytest.CaptureFixture[str]
) -> None:
    """If a length does not match the text, the turn is excluded from the audit."""

    def longer(number: int, turn: TurnRecord) -> dict[str, object]:
        return {"response_tokens": (turn.response_tokens or 0) + number % 2}

    submission(tmp_path, changed(runs["greedy"], longer), tmp_path, SOKOBAN.identity)
    command = ["audit", str(tmp_path / "20260102_own"), "--model", "tiny-sokoban"]
    assert main([*command, "--episodes", "4"]) == 1
    *_, hidden, last = capsys.readouterr().out.splitlines()
    assert hidden.endswith("token counts that do not match their texts")
    found = re.search(r": 0 not plausible, (\d+) of (\d+) turns not scored$", last)
    assert found is not None
    unscored, turns = map(int, found.groups())
    assert 0 < unscored <= turns / 2


def test_the_command_adds_up_what_speaks_against_draws(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    planned = plan(SamplingOverrides(temperature=1.0))
    run = read(play_policy(tmp_path / "run", "random", planned))
    folder = submission(tmp_path, run, tmp_path, SOKOBAN.identity)
    assert main(["audit", str(folder), "--model", "tiny-sokoban", "--episodes", "4"]) == 1
    *each, together, last = capsys.readouterr().out.splitlines()
    assert len(each) == 4
    assert all("tokens are unlikely samples (evidence " in one for one in each)
    assert together.startswith("all sampled tokens together are unlikely (evidence ")
    assert ": 4 not plausible, 0 of " in last


def test_weights_that_a_submission_does_not_name(
    tmp_path: Path, runs: Mapping[str, ReadRun], near: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # A folder's name does not identify it: every run's last checkpoint is called last.
    model = ModelIdentity(name=near.name, kind="folder", sha256="7" * 64)
    folder = submission(tmp_path, runs["greedy"], tmp_path, model)
    command = ["audit", str(folder), "--model", str(near), "--episodes", "1"]
    assert main(command) == 2
    assert "is not a checkpoint of the submission; use --any-weights" in capsys.readouterr().err
    assert main([*command, "--any-weights"]) in (0, 1)
    assert "1 episodes scored under model (folder" in capsys.readouterr().out


def test_a_run_with_images_is_scored_with_what_it_saw(tmp_path: Path, tiny: Weights) -> None:
    folder = find_model("tiny-sokoban-pixels").path
    assert folder is not None
    pixels = {"sokoban": {"view": "pixels"}}
    shard = Shard(index=1, count=64)
    seen = play(
        tmp_path / "run", folder, Plan.of([("sokoban", "builtin")], settings=pixels, shard=shard)
    )
    model, chat = weights(folder)
    found = audited(seen, (model, chat))
    assert len(found) == 4
    assert all(audit.credible and audit.unscored == 0 for audit in found)
    assert all(audit.off is not None and audit.off < 1e-4 for audit in found)
    # A model that sees other cells answers differently.
    with torch.no_grad():
        model.model.visual.pos_embed.weight.zero_()
    assert not any(audit.credible for audit in audited(seen, (model, chat)))
    with pytest.raises(UserError, match="reads only text"):
        audited(seen, tiny)
