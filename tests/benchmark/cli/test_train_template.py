"""`train --chat-template-kwargs`: variables reach every prompt, the log, and later commands."""

from pathlib import Path
from typing import Any

import pytest

from baselines.config.layers import resolve
from baselines.config.run import TrainingRun
from baselines.reproduction import logged_configuration
from baselines.rollouts.rows import training_protocol
from benchmark.cli.main import main
from benchmark.engines.core.base import Generation, Request
from benchmark.engines.transformers.engine import TransformersEngine
from benchmark.evaluation.evaluate import Plan
from benchmark.evaluation.protocol import SamplingOverrides
from benchmark.exit_codes import EXIT_USER_ERROR
from benchmark.logs.training_log import LOG, read_training_log
from benchmark.models import from_folder
from tasks.registry import load_task
from tests.support.engines.thinking_models import HYBRID, thinking_model

SMALL = (
    *("rollout.groups=2", "rollout.group_size=2", "rollout.max_turns=2", "rollout.max_tokens=8"),
    *("optimization.updates=1", "optimization.mini_batches=1", "validation.every=null"),
)
NOT_THINKING = '{"enable_thinking": false}'
EMPTY_THOUGHT = "<think>\n\n</think>\n\n"


def train(model: Path, out: Path, *arguments: str) -> int:
    sets = [part for each in SMALL for part in ("--set", each)]
    run = ["train", "--recipe", "grpo", "--init", str(model), "--task", "sokoban"]
    return main([*run, "--out", str(out), *sets, *arguments])


@pytest.fixture
def prompts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """All prompts that the model received."""
    real, found = TransformersEngine.generate, []

    async def generate(self: TransformersEngine, request: Request) -> Generation:
        generation = await real(self, request)
        text = await self.prompt_text(request, generation)
        assert text is not None
        found.append(text)
        return generation

    monkeypatch.setattr(TransformersEngine, "generate", generate)
    return found


@pytest.mark.slow
def test_variables_reach_prompts_log_and_evaluation(
    tmp_path: Path, prompts: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    model, out = thinking_model(tmp_path / "model", HYBRID), tmp_path / "run"
    assert train(model, out, "--chat-template-kwargs", NOT_THINKING) == 0
    assert prompts and all(text.endswith(EMPTY_THOUGHT) for text in prompts)
    log = read_training_log(out / LOG)
    assert log.start.configuration["chat_template_kwargs"] == {"enable_thinking": False}
    # A gap would show that trainer and engine used different prompts.
    gap = log.updates[0].values["engine/abs_max"]
    assert gap < 1e-3
    chosen = SamplingOverrides(repeats=1, chat_template_kwargs={"enable_thinking": False})
    evaluated = Plan.of([("sokoban", "builtin")], chosen)
    assert log.start.fingerprint == evaluated.fingerprint
    assert f"--chat-template-kwargs '{NOT_THINKING}'" in capsys.readouterr().out
    assert logged_configuration(log.start)[0].chat_template_kwargs == {"enable_thinking": False}
    prompts.clear()
    # A different run from one that lets the model think.
    assert train(model, out) == EXIT_USER_ERROR
    assert "chat_template_kwargs.enable_thinking" in capsys.readouterr().err
    assert not prompts


@pytest.mark.slow
def test_a_dry_run_repeats_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = thinking_model(tmp_path / "model", HYBRID)
    arguments = ("--dry-run", "--gpus", "2", "--chat-template-kwargs", NOT_THINKING)
    assert train(model, tmp_path / "run", *arguments) == 0
    printed = capsys.readouterr().out
    assert "chat_template_kwargs:\n  enable_thinking: false\n" in printed
    assert printed.splitlines()[-1].count(f"--chat-template-kwargs '{NOT_THINKING}'") == 1


def run_of(*own: str) -> TrainingRun:
    config = resolve("grpo", "tiny", ["sokoban"], own)
    init = from_folder(Path(__file__).parents[3] / "baselines" / "inits" / "tiny-sokoban")
    return TrainingRun("grpo", config, (load_task("sokoban"),), init, 0, Path("unused"))


def test_without_variables_nothing_is_as_if_there_were_some() -> None:
    plain, chosen = run_of(), run_of("chat_template_kwargs={enable_thinking: false}")
    assert "chat_template_kwargs" not in plain.configuration
    assert run_of("chat_template_kwargs={}").sha256 == plain.sha256 != chosen.sha256
    protocols = [training_protocol(run.tasks[0], run.config, 0) for run in (plain, chosen)]
    assert "chat_template_kwargs" not in protocols[0].facts
    assert protocols[0].fingerprint != protocols[1].fingerprint


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ("[1]", "must be a JSON object"),
        ('{"a": NaN}', "must be a JSON object"),
        ("[" * 100_000, "must be a JSON object"),
        ('{"a": 1e999}', "must be a JSON object"),
        ('{"a": "\\ud800"}', "must be a JSON object"),
        ('{"a.b": 1}', "chat_template_kwargs.a.b"),
        ('{"deep": {"a": 1}}', "chat_template_kwargs.deep"),
        ('{"tokenize": true}', "'tokenize': the name is that of a setting of transformers"),
    ],
)
def test_variables_that_cannot_be_are_named(
    variables: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model: Any = thinking_model(tmp_path / "model", HYBRID)
    assert train(model, tmp_path / "run", "--chat-template-kwargs", variables) == EXIT_USER_ERROR
    said = capsys.readouterr().err
    assert message in said and "Traceback" not in said
