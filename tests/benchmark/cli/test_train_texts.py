"""Messages of `arlarena-bench train` about a run, from hand-made logs and folders."""

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from baselines.config.layers import resolve
from baselines.config.run import TrainingRun
from baselines.inits.registry import find_model
from benchmark.cli.main import command_line
from benchmark.cli.training.texts import closing_lines, config_text, title
from benchmark.models import from_folder
from tasks.errors import UserError
from tasks.registry import load_task
from tests.benchmark.stability.command import LATE_LOSS, run_of
from tests.support.training.logs import Line, start_line, update_line, validation_line, write_log

EVALUATE = "evaluate the last weights: "
COMMAND = ["train", "--recipe", "grpo", "--init", "tiny-sokoban"]


def training(folder: Path, *own: str, task: str = "sokoban") -> TrainingRun:
    init = find_model("tiny-sokoban")
    config = resolve("grpo", "tiny", [task], own)
    return TrainingRun("grpo", config, (load_task(task),), init, 7, folder)


def parsed(*more: str) -> argparse.Namespace:
    return command_line().parse_args([*COMMAND, *more])


def closing(folder: Path, *lines: Line, models: tuple[str, ...] = ("last",)) -> list[str]:
    write_log(folder, [start_line(), *lines])
    for model in models:
        (folder / model).mkdir()
    return closing_lines(training(folder), parsed(), ())


def test_the_title_says_what_is_run(tmp_path: Path) -> None:
    run = training(tmp_path, "optimization.updates=12")
    assert title(run, parsed(), "transformers") == (
        "grpo on sokoban from tiny-sokoban, scale tiny, seed 7, engine transformers, "
        f"12 updates: {tmp_path}"
    )


def test_the_configuration_says_how_to_repeat_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = ["--set", "kl.coef=0.5", "--endpoint", "http://me:secret@host:1"]
    monkeypatch.setattr(sys, "argv", ["/somewhere/arlarena-bench", *COMMAND, *more])
    run = training(tmp_path, "kl.coef=0.5")
    text = config_text(run, parsed(*more), "openai")
    assert yaml.safe_load(text) == run.configuration
    head = [line for line in text.splitlines() if line.startswith("# ")]
    command = shlex.join(["arlarena-bench", *COMMAND, "--set", "kl.coef=0.5", "--endpoint", "URL"])
    sha256 = run.init.identity.sha256
    assert sha256 and len(sha256) == 64
    assert head[:7] == [
        f"# command: {command}",
        "# recipe: grpo",
        "# scale: tiny",
        f"# init: tiny-sokoban, SHA-256 {sha256}",
        "# seed: 7",
        "# engine: openai",
        "# processes: 1",
    ]
    assert "arlarena-bench 0" in head[7] and "torch" in head[7]
    assert "secret" not in text


def test_nothing_in_the_command_ends_the_comment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for evil in ("a\nkl: 1", "a\rkl: 1", "a\u2028kl: 1", "a\x85kl: 1", "\x01", "\udc80", "\ufeff"):
        monkeypatch.setattr(sys, "argv", ["arlarena-bench", "train", "--out", evil])
        run = training(tmp_path)
        text = config_text(run, parsed("--scale", evil), "vllm")
        assert yaml.safe_load(text.encode()) == run.configuration


def test_the_end_names_the_last_and_the_best_beside_the_init(tmp_path: Path) -> None:
    # 64, 128 and 128 of 256; Wilson intervals from `benchmark.stats.intervals`.
    rates = [validation_line(0, solved=64), update_line(1), validation_line(1), update_line(2)]
    assert closing(tmp_path, *rates, validation_line(2), models=("best", "last")) == [
        "last of 3 validations, after update 2: success builtin 50.0% [43.9, 56.1] "
        "(init 25.0% [20.1, 30.6])",
        "best, after update 1: success builtin 50.0% [43.9, 56.1]; it is in best/, chosen on this "
        "panel: report the last weights",
        f"{EVALUATE}arlarena-bench eval --model {tmp_path}/last --task sokoban/builtin",
    ]


@pytest.mark.parametrize(
    ("solved", "last", "best"),
    [
        (
            LATE_LOSS,
            "last of 6 validations, after update 5: success builtin 2.3% [1.1, 5.0] "
            "(init 26.2% [21.2, 31.9]); ended at half of its best or below",
            ["best, after update 2: success builtin 36.3% [30.7, 42.4]"],
        ),
        (
            (128, 160, 0, 0, 0),
            "last of 5 validations, after update 4: success builtin 0.0% [0.0, 1.5] "
            "(init 50.0% [43.9, 56.1]); collapsed at update 3",
            ["best, after update 1: success builtin 62.5% [56.4, 68.2]"],
        ),
        (
            (64, 128),
            "last of 2 validations, the best one, after update 1: success builtin "
            "50.0% [43.9, 56.1] (init 25.0% [20.1, 30.6])",
            [],
        ),
    ],
)
def test_the_end_says_what_was_lost(
    tmp_path: Path, solved: Sequence[int], last: str, best: list[str]
) -> None:
    assert closing(tmp_path, *run_of(solved)[1:])[:-1] == [last, *best]


def test_the_end_of_a_run_that_did_not_gain(tmp_path: Path) -> None:
    lines = [validation_line(0), update_line(1), validation_line(1), update_line(2)]
    assert closing(tmp_path, *lines, validation_line(2, solved=64)) == [
        "no validation was better than the init's; last, after update 2: success builtin "
        "25.0% [20.1, 30.6] (init 50.0% [43.9, 56.1]); ended at half of its best or below",
        f"{EVALUATE}arlarena-bench eval --model {tmp_path}/last --task sokoban/builtin",
    ]


def test_the_end_of_a_run_that_was_not_validated(tmp_path: Path) -> None:
    folder = tmp_path / "a run"
    folder.mkdir()
    assert closing(folder, update_line(1)) == [
        "no validation ran, so the log has no success rate",
        f"{EVALUATE}arlarena-bench eval --model '{folder}/last' --task sokoban/builtin",
    ]


def test_the_evaluation_is_under_the_validations_protocol(tmp_path: Path) -> None:
    own = ("validation.panel=builtin", "validation.temperature=0.5", "validation.max_tokens=9")
    write_log(tmp_path, [start_line(), update_line(1)])
    (tmp_path / "last").mkdir()
    run = training(tmp_path, *own, task="webshop")
    arguments = parsed("--data", "webshop=/data")
    *_, line = closing_lines(run, arguments, ["webshop.compat=on"])
    found = command_line().parse_args(shlex.split(line.removeprefix(EVALUATE))[1:])
    assert (found.task, found.set) == (["webshop/builtin"], ["webshop.compat=on"])
    assert (found.temperature, found.max_tokens, found.top_p) == (0.5, 9, None)
    assert (found.model, found.data) == (f"{tmp_path}/last", ["webshop=/data"])


def test_the_folder_of_a_run_is_no_model_and_names_those_in_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no \.safetensors weights$"):
        from_folder(tmp_path)
    for name in ("last", "best"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_bytes(b"")
        with pytest.raises(UserError, match=f"of a training run, whose models are .*{name}"):
            from_folder(tmp_path)
    with pytest.raises(UserError, match=r"/best and .*/last$"):
        from_folder(tmp_path)
