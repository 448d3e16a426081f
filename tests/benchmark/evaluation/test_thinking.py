"""Reasoning models: a template that opens the thought, template variables, audits of both."""

from pathlib import Path

import pytest

from benchmark.engines.core.base import Generation, Request
from benchmark.engines.core.chat import Chat
from benchmark.engines.transformers.engine import TransformersEngine, load_model
from benchmark.evaluation.evaluate import Plan, evaluate
from benchmark.evaluation.manifest import Manifest, Shard
from benchmark.evaluation.protocol import STANDARD, THINKING, SamplingOverrides
from benchmark.evaluation.records import EpisodeRecord
from benchmark.evaluation.replay import replay_run
from benchmark.evaluation.run_folder import RunFolder, read_run
from benchmark.evaluation.summarize import summarize
from benchmark.models import from_folder
from benchmark.submissions.audit import audit_run
from benchmark.submissions.reading.entry import ReadRun
from tasks.errors import UserError
from tests.support.engines.thinking_models import HYBRID, thinking_model

NOT_THINKING = SamplingOverrides(chat_template_kwargs={"enable_thinking": False})


class Watching(TransformersEngine):
    """Stores the prompts that the model received."""

    async def generate(self, request: Request) -> Generation:
        generation = await super().generate(request)
        self.prompts = getattr(self, "prompts", [])
        self.prompts.append(await self.prompt_text(request, generation))
        return generation


async def played(
    folder: Path, out: Path, choices: SamplingOverrides = STANDARD
) -> tuple[Manifest, list[EpisodeRecord], list[str]]:
    """Play eight levels; returns the manifest, the records and the prompts."""
    plan = Plan.of([("sokoban", "builtin")], choices, Shard(index=1, count=32))
    chat = plan.panels[0].protocol.chat
    async with Watching(folder, dtype="float32", chat=chat) as engine:
        manifest = plan.manifest(from_folder(folder).identity, engine)
        with RunFolder(out, manifest, plan.keys()) as run:
            await evaluate(plan, engine, run, 8)
    return *read_run(out), engine.prompts


@pytest.mark.slow
async def test_a_tag_that_the_template_opens_belongs_to_the_response(tmp_path: Path) -> None:
    folder = thinking_model(tmp_path / "model")
    manifest, records, prompts = await played(folder, tmp_path / "run")
    turns = [turn for record in records for turn in record.turns]
    assert all(prompt.endswith("<think>") for prompt in prompts)
    assert all(turn.response.startswith("<think>") for turn in turns)
    assert all(turn.format_ok for turn in turns)
    assert all(record.penalty == 0 for record in records)
    assert manifest.engine["opened"] == "<think>"
    assert not any(replay.differences for replay in replay_run(manifest, records))


@pytest.mark.slow
async def test_an_audit_scores_what_the_model_wrote_and_not_the_tag(tmp_path: Path) -> None:
    folder = thinking_model(tmp_path / "model")
    manifest, records, _ = await played(folder, tmp_path / "run")
    run = ReadRun("runs/r0", manifest, tuple(records), summarize(manifest, records))
    audits = list(audit_run(run, load_model(folder, "float32", "cpu"), Chat.load(folder), 8))
    assert len(audits) == 8
    assert all(audit.credible for audit in audits)
    assert sum(audit.unscored for audit in audits) == 0


@pytest.mark.slow
async def test_variables_reach_the_template_and_the_fingerprint(tmp_path: Path) -> None:
    folder = thinking_model(tmp_path / "model", HYBRID)
    manifest, _, prompts = await played(folder, tmp_path / "run", NOT_THINKING)
    assert all(prompt.endswith("<think>\n\n</think>\n\n") for prompt in prompts)
    assert manifest.overrides == {"chat_template_kwargs": {"enable_thinking": False}}
    plain, _, usual = await played(folder, tmp_path / "plain")
    assert plain.fingerprint != manifest.fingerprint
    assert all(prompt.endswith("assistant\n") for prompt in usual)
    assert "opened" not in manifest.engine | plain.engine


async def test_a_variable_that_is_a_setting_of_the_library_is_refused(tmp_path: Path) -> None:
    folder = thinking_model(tmp_path / "model", HYBRID)
    choices = SamplingOverrides(chat_template_kwargs={"tokenize": True})
    with pytest.raises(UserError, match="'tokenize': the name is that of a setting"):
        await played(folder, tmp_path / "run", choices)


@pytest.mark.slow
async def test_the_thinking_protocol_reads_thought_and_answer(tmp_path: Path) -> None:
    folder = thinking_model(tmp_path / "model")
    choices = SamplingOverrides(protocol=THINKING, max_tokens=64)
    manifest, records, _ = await played(folder, tmp_path / "run", choices)
    assert manifest.overrides == {"max_tokens": 64}
    assert manifest.panels[0].name == THINKING
    turns = [turn for record in records for turn in record.turns]
    assert sum(turn.format_ok for turn in turns) > 0.9 * len(turns)
    assert not any(replay.differences for replay in replay_run(manifest, records))
