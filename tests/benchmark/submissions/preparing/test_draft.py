"""`arlarena-bench submit init` fills in what is known; the rest is rejected until edited."""

import shlex
from pathlib import Path

import pytest
import yaml

from baselines.inits.registry import read_registry
from benchmark.cli.main import main, parse
from benchmark.submissions.format.plain_yaml import read_plain_yaml
from tests.benchmark.submissions.preparing.test_prepare_command import Given


@pytest.fixture
def given(tmp_path: Path, expert_run: Path, random_run: Path) -> Given:
    return Given(tmp_path, expert_run, random_run)


def test_a_first_about_of_trainings(given: Given, capsys: pytest.CaptureFixture[str]) -> None:
    path = given.root / "first.yaml"
    command = ["submit", "init", *given.runs, "--training-log", *given.logs, "--out", str(path)]
    assert main(command) == 0
    first, last = capsys.readouterr().out.splitlines()
    assert first == f"{path}: 7 lines to fill in, then:"
    # The next command, to be copied.
    arguments = parse(shlex.split(last)[1:])
    assert (arguments.run, arguments.training_log) == (given.runs, given.logs)
    assert arguments.about == str(path)
    text = path.read_text()
    assert "# seed 7: run-7 (2026-01-01), log log-7.jsonl (grpo, 2026-01-02)\n" in text
    assert "# The folder's date: 2026-01-02 or later.\n" in text
    about = read_plain_yaml(text)
    assert isinstance(about, dict)
    assert about["method"]["recipe"] == "grpo"
    assert (about["base_model"], about["init"]) == ("tiny-sokoban", "tiny-sokoban")
    assert about["parameters"] == 442_272
    assert about["training_data"]["training_streams"] == ["sokoban"]
    # Unedited, it makes no statement in anybody's name.
    given.about = about
    assert given.prepare(*given.runs, "--training-log", *given.logs) == 2
    refused = capsys.readouterr().err
    assert "about.yaml: 7 mistakes" in refused
    about |= {"name": "Mine", "authors": ["Ada Lovelace"], "contact": "ada@example.org"}
    about["method"]["description"] = "As it is."
    about["training_data"] |= {"statement": "Levels.", "other": False, "panel_episodes": False}
    assert given.prepare(*given.runs, "--training-log", *given.logs) == 0


def test_a_first_about_without_logs(given: Given, capsys: pytest.CaptureFixture[str]) -> None:
    path = given.root / "first.yaml"
    command = ["submit", "init", given.runs[0], "--out", str(path)]
    assert main(command) == 0
    about = yaml.safe_load(path.read_text())
    assert about["method"]["recipe"] == "my-method"
    assert about["base_model"] is about["parameters"] is about["init"] is None
    assert main(command) == 2
    assert "first.yaml exists already" in capsys.readouterr().err


def test_a_first_about_of_a_policy(given: Given, expert_run: Path) -> None:
    path = given.root / "first.yaml"
    assert main(["submit", "init", str(expert_run), "--out", str(path)]) == 0
    assert set(yaml.safe_load(path.read_text())) == {"name", "authors", "contact", "method"}


def test_the_hash_of_an_init_and_of_its_folder(capsys: pytest.CaptureFixture[str]) -> None:
    init = read_registry()["tiny-sokoban"]
    assert main(["hash", "tiny-sokoban", str(init.folder)]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == f"{init.sha256}  tiny-sokoban (init)"
    assert second.split()[0] == init.sha256
    assert main(["hash", "tiny-sokobann"]) == 2
    assert "did you mean tiny-sokoban" in capsys.readouterr().err
