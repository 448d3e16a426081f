"""Help texts and errors of the command line's arguments; nothing here loads a model."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from baselines.study.schema import TABLE
from benchmark.cli.main import command_line, main, parse
from benchmark.cli.parser import Parser
from tasks.registry import load_task, task_names


def refused(capsys: pytest.CaptureFixture[str], words: str) -> str:
    """The one-line error of an invalid command."""
    assert main(words.split()) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    return line


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("evaluate", "there is no command 'evaluate'; did you mean eval?"),
        ("list", "there is no command 'list'; did you mean tasks?"),
        ("repot x", "there is no command 'repot'; did you mean report"),
        ("submit prepar x", "there is no command 'prepar'; did you mean prepare?"),
        ("eval --tasks x", "eval: there is no option '--tasks'; did you mean --task?"),
        ("eval --max_tokens 5", "'--max_tokens'; did you mean --max-tokens?"),
        ("eval --tensor_parallel_size=2", "did you mean --tensor-parallel-size?"),
        ("eval --tp 2", "did you mean --tensor-parallel-size?"),
        ("eval --batch-size 2", "did you mean --concurrency?"),
        ("eval --device cuda", "there is no option '--device': CUDA_VISIBLE_DEVICES"),
        ("eval --tempreture 1", "did you mean --temperature"),
        ("eval --temp 1", "there is no option '--temp'; did you mean"),  # no abbreviations
        ("eval -m ckpt", "did you mean --model?"),
        ("eval my-ckpt", "unexpected 'my-ckpt'; did you mean --model my-ckpt?"),
        ("train --recipe grpo --learning-rate 1", "--set optimization.learning_rate=1e-4"),
        ("train --recipe grpo --update 2", "--set optimization.updates=200"),
        (
            "submit prepare x --about a --out y",
            "arlarena-bench submit prepare: --out y: the folder",
        ),
        ("compare tests ./tests", "tests is given twice"),
        (
            "leaderboard serve --board no.parquet",
            "no.parquet cannot be read: there is no such file",
        ),
        ("eval --dtype bf16", "there is no 'bf16'; did you mean bfloat16"),
        ("eval --concurrency 99999999999", "--concurrency: at most 65,536"),
        ("train --recipe grpo --init tiny-sokoban --gpus 9999999999", "--gpus: at most 1,024"),
        ("doctor --init tiny-sokoban --gpus 9999999999", "--gpus: at most 1,024"),
        ("doctor --threads 99999999999", "--threads: at most "),
        (
            "train --recipe grpo --init tiny-sokoban --task sokoban=99999999999",
            "rollout.groups: Input should be less than or equal to 65536",
        ),
        ("eval --seed -5", "--seed: must be an integer of at least 0, not '-5'"),
        (
            "eval --engine random --task sokoban --repeats 99999999999",
            "the run has 25,599,999,999,744 episodes, more than the limit of 1,000,000",
        ),
        ("train --recipe grpo --serve-gpus 1", "--serve-gpus has no effect without --gpus"),
        (
            "train --recipe grpo --init tiny-sokoban --served-model x",
            "--served-model has no effect without --endpoint",
        ),
        ("doctor --no-smoke --recipe x", "--recipe needs --init"),
        ("doctor --no-smoke --serve-gpus 7", "--serve-gpus needs --init"),
        (f"doctor --no-smoke --out {__file__}", f"--out {__file__} is not a folder"),
        ("doctor --out /proc/x", "--out /proc/x cannot be written"),
        (
            f"study status {TABLE} --results {__file__}",
            f"--results {__file__} is not a folder",
        ),
        (f"study page {TABLE} --results no", "--results no is not a folder"),
        ("leaderboard build --replay-minutes nan", "must be a number of at least 0, not 'nan'"),
        ("leaderboard build --date yesterday", "must be a day such as 2026-01-31"),
        ("leaderboard build --commit xyz", "must be the hash of a commit, not 'xyz'"),
        ("eval --limit 0", "--limit: must be an integer of at least 1, not '0'"),
        (
            "eval --model x --model-args a=1",
            "such as '{\"NAME\": true}', not 'a=1'",
        ),
        (
            "eval --model x --extra-body []",
            "such as '{\"NAME\": true}', not '[]'",
        ),
        (
            "eval --engine expert --task all,sokoban",
            "--task all already includes every task",
        ),
        ("eval --engine expert --task sokoban,sokoban/builtin", "sokoban/builtin is given twice"),
        ("eval --engine expert --task ,", "--task names no task; arlarena-bench tasks lists them"),
        ("eval --engine expert --task sokoban,chess", "unknown task 'chess'"),
        ("eval --engine expert --task sokoban --dtype float32", "--dtype has no effect"),
        (
            "eval --engine transformers --model tiny-sokoban --tensor-parallel-size 4",
            "--tensor-parallel-size has no effect with the transformers engine: only vLLM",
        ),
        (
            "eval --engine transformers --model tiny-sokoban --max-model-len 4",
            "--max-model-len has no effect with the transformers engine",
        ),
        (
            'eval --engine transformers --model tiny-sokoban --extra-body {"top_k":1}',
            "--extra-body has no effect with the transformers engine: only servers get requests",
        ),
        (
            "eval --endpoint http://127.0.0.1:9 --model x --dtype float32",
            "--dtype has no effect with a server: the server has chosen it",
        ),
        (
            'eval --engine expert --chat-template-kwargs {"a":1}',
            "--chat-template-kwargs has no effect with the expert engine",
        ),
    ],
)
def test_a_mistake_in_words_is_one_line_with_what_was_meant(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    words: str,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    if ("--engine" in words or "--endpoint" in words) and "--task" not in words:
        words += " --task sokoban"
    line = refused(capsys, words)
    assert line.startswith("arlarena-bench")
    assert message in line


@pytest.mark.parametrize("words", ["", "help", "submit", "leaderboard", "help eval"])
def test_a_bare_command_shows_its_help(capsys: pytest.CaptureFixture[str], words: str) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(words.split())
    assert stopped.value.code == 0
    assert "usage: arlarena-bench" in capsys.readouterr().out


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    name, version = capsys.readouterr().out.split()
    assert name == "arlarena-bench"
    assert version[0].isdigit()


def test_help_begins_with_what_is_needed_and_has_examples() -> None:
    text = command_line().subcommands()["eval"].format_help()
    options = [line.split()[0] for line in text.splitlines() if line.startswith("  --")]
    assert options[:2] == ["--model", "--task"]
    assert text.partition("examples:")[2].count("arlarena-bench eval") > 5


def test_help_is_wrapped_and_ends_with_what_few_people_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = command_line().subcommands()["validate"].format_help()
    assert max(map(len, text.splitlines())) <= 80
    options = [line.split()[0] for line in text.splitlines() if line.startswith("  --")]
    assert options == [
        "--panel",
        "--training-entries",
        "--pin",
        "--data",
        "--env-processes",
        "--set",
    ]


def test_another_package_of_tasks_is_named(tmp_path: Path) -> None:
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "__init__.py").touch()
    place = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": str(place)}
    command = [sys.executable, "-m", "benchmark.cli", "--version"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert (
        f"another package `tasks` hides the benchmark's own ({tmp_path / 'tasks'})"
        in (done.stderr.splitlines()[-1])
    )
    environment["PYTHONSAFEPATH"] = "1"
    subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=True)


@pytest.mark.slow
def test_a_gpu_without_vllm_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    driver = tmp_path / "version"
    monkeypatch.setattr("benchmark.engines.choose._NVIDIA", driver)
    monkeypatch.setattr("benchmark.engines.choose.has_gpu_vllm", lambda: False)
    words = ["eval", "--model", "tiny-sokoban", "--limit", "1", "--max-tokens", "2", "--out"]
    note = "note: this machine has a GPU but no vLLM for it; install it with `make install-vllm`\n"
    driver.touch()
    assert main([*words, str(tmp_path / "with")]) == 0
    assert note in capsys.readouterr().out
    # No note if the user named the engine.
    assert main([*words, str(tmp_path / "with"), "--engine", "transformers"]) == 0
    assert note not in capsys.readouterr().out


def test_tasks_have_one_line_for_each_panel_in_a_narrow_window(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("benchmark.cli.commands.tasks.table_console", lambda: Console(width=80))
    assert main(["tasks"]) == 0
    table = capsys.readouterr().out.partition("Settings")[0].splitlines()
    head, *lines = [line.rstrip() for line in table[1:] if line.strip()]
    assert head.split() == ["task", "panel", "episodes", "turns", "data", "what"]
    assert len(lines) == sum(len(load_task(name).panels()) for name in task_names())
    assert max(map(len, lines)) == 80
    assert sum(" here " in line or " missing " in line for line in lines) == len(lines)
    assert sum(line.endswith("\N{HORIZONTAL ELLIPSIS}") for line in lines) > len(lines) / 2


def test_every_shell_gets_a_completion(capsys: pytest.CaptureFixture[str]) -> None:
    for shell in ("bash", "zsh"):
        assert main(["completion", shell]) == 0
        text = capsys.readouterr().out
        assert "--chat-template-kwargs" in text
        if shell == "bash":
            subprocess.run(["bash", "-n"], input=text, text=True, check=True)


def examples_of(parser: Parser) -> Iterator[str]:
    """The commands in the help of a parser and its subcommands, without their descriptions."""
    for line in (parser.epilog or "").replace("\\\n", "").splitlines():
        if line.startswith("  arlarena-bench "):
            yield re.sub(r"^(\S.*?\S)  +[a-z].*$", r"\1", line.strip()).partition(" > ")[0]
    for one in parser.subcommands().values():
        yield from examples_of(one)


def test_every_example_of_a_help_is_a_command() -> None:
    found = list(examples_of(command_line()))
    commands = {"train", "submit", "stability", "plot", "replay", "study", "eval", "hash"}
    assert commands <= {example.split()[1] for example in found}
    for example in found:
        _, *words = shlex.split(example)
        assert parse(words).command == words[0]
