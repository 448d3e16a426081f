"""`--limit`, notes on runs that are probably wrong, and checks before a model is loaded."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from baselines.inits.registry import find_model
from benchmark.cli.main import main
from benchmark.evaluation.notes import notes_of
from benchmark.evaluation.protocol import THINKING
from benchmark.evaluation.run_folder import read_run
from tests.support.engines.thinking_models import thinking_model
from tests.support.engines.tiny_model import fill_with_nan

EVAL = ["eval", "--engine", "random", "--task", "sokoban"]


@pytest.mark.slow
def test_a_limit_plays_the_first_episodes_of_every_panel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["eval", "--engine", "expert", "--task", "sokoban/builtin,sokoban/two_boxes"]
    assert main([*words, "--limit", "3", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "first 3 episodes of every panel: a quick look, not the panel's result" in out
    assert re.search(r"^sokoban/two_boxes +success 100.0% .* valid format 100.0%$", out, re.M)
    manifest, records = read_run(tmp_path)
    assert manifest.limit == 3
    assert [record.episode for record in records[:3]] == [
        "one-box-000",
        "one-box-001",
        "one-box-002",
    ]
    assert len(records) == 6
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["complete"] is True
    assert summary["model"]["name"] == "expert"
    assert summary["engine"] == {"kind": "scripted", "policy": "expert"}
    assert summary["part"] == "first 3 episodes of every panel"
    assert main(["replay", str(tmp_path)]) == 0


@pytest.mark.slow
def test_a_quick_look_is_no_whole_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*EVAL, "--limit", "2", "--out", str(tmp_path)]) == 0
    capsys.readouterr()
    assert main([*EVAL, "--out", str(tmp_path)]) == 2
    assert "holds a run with another limit (2; this is none)" in capsys.readouterr().err
    whole = tmp_path / "whole"
    assert main([*EVAL, "--out", str(whole)]) == 0
    assert "limit" not in json.loads((whole / "run.json").read_text())
    # Only the episodes that both runs have played are compared.
    assert main(["compare", str(tmp_path), str(whole)]) == 0
    assert "left out: 254 episodes that only one of the runs has played" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--limit", "2", "--max-tokens", "9"], "sampling.max_tokens 512; this is sampling.max_"),
        (["--limit", "2", "--task", "webshop/builtin"], "panels sokoban/builtin; this is panels"),
        (["--limit", "2", "--shard", "1/2"], "holds all shards, this is shard 1/2"),
    ],
)
def test_another_run_in_the_folder_is_refused_before_the_model_is_looked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert main([*EVAL, "--limit", "2", "--out", str(tmp_path)]) == 0
    task = [] if "--task" in words else ["--task", "sokoban"]
    ask = ["eval", "--engine", "transformers", "--model", "no-such-model", *task, *words]
    assert main([*ask, "--out", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err


def test_a_quick_look_cannot_be_submitted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, about = tmp_path / "run", tmp_path / "about.yaml"
    assert main([*EVAL, "--limit", "2", "--out", str(run)]) == 0
    capsys.readouterr()
    assert main(["submit", "init", str(run), "--out", str(about)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert (
        f"{run} is a quick look (first 2 episodes of every panel), which cannot be submitted: "
        in line
    )
    assert not about.exists()


def test_a_folder_that_cannot_be_written_is_refused_before_the_model_is_looked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ask = ["eval", "--model", "no-such-model", "--task", "sokoban", "--out"]
    assert main([*ask, "/proc/x"]) == 2
    assert "/proc/x cannot be written" in capsys.readouterr().err
    (tmp_path / "file").touch()
    assert main([*ask, str(tmp_path / "file")]) == 2
    assert "is not a folder; choose another --out" in capsys.readouterr().err
    # The folder of a run that did not start is removed; one that existed before stays.
    (tmp_path / "mine").mkdir()
    for out in ("new", "mine"):
        assert main([*ask, str(tmp_path / out)]) == 2
        assert "no init or folder 'no-such-model'" in capsys.readouterr().err
    assert not (tmp_path / "new").exists() and (tmp_path / "mine").is_dir()


@pytest.mark.slow
def test_a_model_of_another_task_is_told_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["eval", "--model", "tiny-sokoban", "--task", "webshop/builtin", "--limit", "1"]
    more = ["--max-tokens", "4", "--show-prompts", "1", "--out", str(tmp_path)]
    assert main([*words, "--engine", "transformers", *more]) == 0
    out = capsys.readouterr().out
    assert "note: tiny-sokoban was made for sokoban and was not trained on webshop" in out
    assert re.search(
        r"^tiny-sokoban \(init, .*\) on transformers, \w+, float32, context 1,024; ", out, re.M
    )
    assert f"1 episode -> {tmp_path}" in out
    assert "--- prompt 1, as the model got it\n<|im_start|>user\n" in out
    assert "<|im_end|>\n<|im_start|>assistant\n" in out
    assert "100% of responses were cut, most at 4 tokens: --max-tokens 4096 gives room" in out
    assert "0% of responses follow the format; the first that does not: " in out


def test_a_thought_that_a_server_began_is_seen_in_the_responses(tmp_path: Path) -> None:
    assert main([*EVAL, "--limit", "2", "--out", str(tmp_path)]) == 0
    manifest, records = read_run(tmp_path)
    assert notes_of(manifest, records) == []
    lost = [
        record.model_copy(
            update={
                "turns": tuple(
                    turn.model_copy(update={"response": "up</think><action>", "format_ok": False})
                    for turn in record.turns
                )
            }
        )
        for record in records
    ]
    (note,) = notes_of(manifest, lost)
    assert "follow the format; the first that does not: 'up</think><action>'" in note
    assert "--protocol thinking takes what follows" in note
    panels = tuple(replace(panel, name=THINKING) for panel in manifest.panels)
    (note,) = notes_of(manifest.model_copy(update={"panels": panels}), lost)
    assert "--show-prompts 1" in note


def copy_of(init: str, folder: Path) -> Path:
    """A copy of an init's folder to modify."""
    path = find_model(init).path
    assert path is not None
    return Path(shutil.copytree(path, folder))


def test_a_run_of_errors_is_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A script must not continue as if the model had been evaluated."""
    model = copy_of("tiny-webshop", tmp_path / "model")
    config = json.loads((model / "config.json").read_text())
    # The first page fits, but not the results of a search.
    (model / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 400}))
    words = ["eval", "--model", str(model), "--task", "webshop/builtin", "--limit", "2"]
    assert main([*words, "--engine", "transformers", "--out", str(tmp_path / "run")]) == 1
    said = capsys.readouterr().out
    assert "note: webshop/builtin: 2 of 2 episodes ended in an error, " in said


def test_weights_that_are_no_numbers_end_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No episode of such a model is meaningful, and none needs to be repeated."""
    broken = fill_with_nan(copy_of("tiny-sokoban", tmp_path / "model"))
    words = ["eval", "--model", str(broken), "--task", "sokoban", "--limit", "2"]
    assert main([*words, "--engine", "transformers", "--out", str(tmp_path / "run")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "the model's logits are not finite" in line
    assert (tmp_path / "run" / "episodes.jsonl").read_bytes() == b""


@pytest.mark.slow
def test_a_template_that_opens_the_thought_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = thinking_model(tmp_path / "model")
    words = ["eval", "--model", str(model), "--task", "sokoban", "--limit", "1"]
    assert main([*words, "--engine", "transformers", "--out", str(tmp_path / "run")]) == 0
    out = capsys.readouterr().out
    assert "note: the chat template opens <think>; responses begin with that tag" in out
    assert "valid format     100.0% of turns" in out
