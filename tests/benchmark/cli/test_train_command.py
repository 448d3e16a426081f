"""`arlarena-bench train` as a user sees it: it runs, resumes, plans, and reports errors."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from benchmark.cli.main import main
from benchmark.engines.transformers.decoding import Decoder
from benchmark.exit_codes import EXIT_ENGINE_DOWN, EXIT_INTERRUPTED, EXIT_USER_ERROR
from benchmark.files import lock_folder
from benchmark.logs.foreign.tensorboard import PATTERN, read_tensorboard
from benchmark.logs.training_log import LOG, read_training_log
from benchmark.models import folder_sha256, from_folder
from tests.support.training.logs import without_times
from tests.support.training.train_command import TINY, one_thread, train

__all__ = ["one_thread"]

pytestmark = pytest.mark.usefixtures("one_thread")
VIEW = re.compile(r"^\w+ on \w+ from .*: |^(rollout|validation) of \d+ episodes begins$|^resumed ")


def refused(capsys: pytest.CaptureFixture[str], code: int) -> str:
    """The one-line error of a rejected command, after the output of the live view so far."""
    assert code == EXIT_USER_ERROR
    *shown, line = capsys.readouterr().err.splitlines()
    assert all(VIEW.search(text) for text in shown), shown
    assert line.startswith("arlarena-bench train: ")
    return line


def lines(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / LOG).read_text().splitlines()]


def updates(out: Path) -> list[dict[str, Any]]:
    return [line for line in lines(out) if line["kind"] == "update"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run at another temperature than 1, with all built-in trackers."""
    out = tmp_path_factory.mktemp("trained") / "run"
    settings = {"rollout__temperature": "0.7"}
    assert train(out, "--tracker", "tensorboard", "--seed", "5", **settings) == 0
    return out


def test_a_run_leaves_log_configuration_and_checkpoint(trained: Path) -> None:
    log = read_training_log(trained / LOG)
    assert [line.update for line in log.updates] == [1, 2]
    assert (log.start.recipe, log.start.task, log.start.seed) == ("sampo", "sokoban", 5)
    assert log.start.init.name == "tiny-sokoban"
    assert log.start.configuration["rollout"]["groups"] == 2
    assert log.start.configuration == yaml.safe_load((trained / "config.yaml").read_text())
    assert (trained / "last" / "model.safetensors").is_file()
    assert not list(trained.glob("*.new")) and not list(trained.glob("*.old"))


def test_the_first_update_starts_at_the_init_at_any_temperature(trained: Path) -> None:
    first, second = updates(trained)
    assert first["kl_init/mean"] == pytest.approx(0, abs=1e-9)
    assert second["kl_init/mean"] > 1e-8
    assert first["engine/abs_max"] < 1e-3


def test_tensorboard_gets_every_number(trained: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    # The file with the metrics; the settings have their own in a subfolder.
    (events,) = (trained / "arlarena-bench").glob("events.out.tfevents.*")
    board = EventAccumulator(str(events))
    board.Reload()
    for line in updates(trained):
        for name, value in line.items():
            if "/" in name and value is not None:
                written = {event.step: event.value for event in board.Scalars(name)}
                assert written[line["update"]] == pytest.approx(value, rel=1e-5, abs=1e-30)


@pytest.mark.slow
def test_tensorboard_has_once_what_a_kill_had_made_again(trained: Path, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    out, kept = tmp_path / "run", tmp_path / "last"
    shutil.copytree(trained, out)
    shutil.copytree(out / "last", kept)
    longer = {"rollout__temperature": "0.7", "optimization__updates": "3"}
    for _ in range(2):
        assert train(out, "--tracker", "tensorboard", "--seed", "5", **longer) == 0
        # As after a kill before the checkpoint of update 3 was written.
        shutil.rmtree(out / "last")
        shutil.copytree(kept, out / "last")
    board = EventAccumulator(str(out / "arlarena-bench"))
    board.Reload()
    assert [event.step for event in board.Scalars("policy/loss")] == [1, 2, 3]
    # This project's own reader accepts the files.
    files = (out / "arlarena-bench").glob(PATTERN)
    (found,) = read_tensorboard(sorted(files, key=lambda path: path.stat().st_mtime_ns), {})
    assert found.run.curves["policy/loss"].steps.tolist() == [1, 2, 3]


def test_a_finished_run_has_nothing_left_to_do(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "copy"
    shutil.copytree(trained, out)
    before = (out / LOG).read_bytes()
    assert train(out, "--seed", "5", rollout__temperature="0.7") == 0
    assert (out / LOG).read_bytes() == before
    said, shown = capsys.readouterr()
    assert said.splitlines() == [
        "no validation ran, so the log has no success rate",
        f"evaluate the last weights: arlarena-bench eval --model {out}/last --task sokoban/builtin",
        f"weights of last: SHA-256 {folder_sha256(out / 'last')}",
        f"log and checkpoints: {out}",
    ]
    assert "sampo on sokoban from tiny-sokoban, scale tiny, seed 5, engine transformers" in shown


def test_a_run_that_another_process_is_at_work_on_is_left_alone(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "copy"
    shutil.copytree(trained, out)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    lock = lock_folder(out)
    assert refused(capsys, train(out, optimization__updates="7")).endswith("wait for it")
    os.close(lock)
    after = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert {path: after[path] for path in before} == before


@pytest.mark.slow
def test_a_run_that_begins_again_keeps_the_old_log(trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "copy"
    shutil.copytree(trained, out)
    shutil.rmtree(out / "last")
    before = (out / LOG).read_bytes()
    assert train(out, rollout__groups="1", optimization__updates="1") == 0
    assert (out / f"{LOG}.old").read_bytes() == before
    assert [line["update"] for line in updates(out)] == [1]


@pytest.mark.slow
def test_several_processes_speak_with_one_voice(tmp_path: Path) -> None:
    out = tmp_path / "run"
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    settings = TINY | {"rollout.max_turns": "2", "optimization.updates": "1"}
    sets = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    run = ["train", "--recipe", "grpo", "--init", "tiny-sokoban", "--out", str(out), *sets]
    done = subprocess.run(
        [sys.executable, *launcher, "-m", "benchmark.cli", *run],
        env=os.environ | {"ACCELERATE_USE_CPU": "true"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("log and checkpoints") == 1
    assert done.stderr.count("grpo on sokoban from tiny-sokoban") == 1
    assert done.stderr.count("2 processes, 1 update: ") == 1
    assert done.stderr.count("update 1 of 1: ") == 1


@pytest.mark.slow
def test_a_longer_run_goes_on_and_a_shorter_one_is_refused(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "copy"
    shutil.copytree(trained, out)
    settings = {"rollout__temperature": "0.7", "optimization__updates": "3"}
    assert train(out, "--seed", "5", **settings) == 0
    assert [line["update"] for line in updates(out)] == [1, 2, 3]
    stated = (out / "config.yaml").read_bytes()
    capsys.readouterr()
    assert train(out, "--seed", "5", **settings | {"optimization__updates": "2"}) == EXIT_USER_ERROR
    assert "has 3 updates, more than the 2 requested" in capsys.readouterr().err
    assert (out / "config.yaml").read_bytes() == stated


@pytest.mark.slow
def test_the_checkpoint_is_a_model_for_eval(trained: Path, tmp_path: Path) -> None:
    from benchmark.cli.from_baselines import find_model

    source = find_model(str(trained / "last"))
    assert source.identity.sha256 != find_model("tiny-sokoban").identity.sha256
    command = ["eval", "--model", str(trained / "last"), "--task", "sokoban/builtin"]
    out = tmp_path / "eval"
    # A sixteenth of the panel with one token per turn is quick, and identifies the model.
    assert main([*command, "--out", str(out), "--shard", "1/16", "--max-tokens", "1"]) == 0
    manifest = json.loads((out / "run.json").read_text())
    assert manifest["model"]["sha256"] == source.identity.sha256


def test_another_run_in_the_same_folder_is_refused_and_changes_nothing(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in trained.rglob("*") if path.is_file()}
    for seed, settings, difference in (
        ("6", {}, "(seed 5, now 6)"),
        ("5", {"kl__coef": "0.5"}, "(kl.coef 0.01, now 0.5)"),
    ):
        code = train(trained, "--seed", seed, rollout__temperature="0.7", **settings)
        other = "another configuration, init, seed or plug-in code"
        said = f"{other}; choose another --out {difference}"
        assert said in refused(capsys, code)
    assert before == {path: path.read_bytes() for path in trained.rglob("*") if path.is_file()}


def fail_after(monkeypatch: pytest.MonkeyPatch, steps: int, error: BaseException) -> None:
    """The engine's thread raises an error in one step, and never again."""
    real: Callable[[Decoder], Any] = Decoder.step
    made = 0

    def step(self: Decoder) -> Any:
        nonlocal made
        made += 1
        if made == steps:
            raise error
        return real(self)

    monkeypatch.setattr(Decoder, "step", step)


def steps_of_a_run(monkeypatch: pytest.MonkeyPatch, out: Path) -> int:
    real: Callable[[Decoder], Any] = Decoder.step
    made = 0

    def step(self: Decoder) -> Any:
        nonlocal made
        made += 1
        return real(self)

    with monkeypatch.context() as patch:
        patch.setattr(Decoder, "step", step)
        assert train(out) == 0
    return made


@pytest.mark.slow
def test_an_engine_that_dies_ends_with_its_code_and_the_same_command_resumes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = steps_of_a_run(monkeypatch, tmp_path / "whole")
    capsys.readouterr()
    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        # Halfway through the second of two rollouts.
        fail_after(patch, steps * 3 // 4, MemoryError("no room for keys"))
        assert train(out) == EXIT_ENGINE_DOWN
    message = capsys.readouterr().err.splitlines()[-1]
    assert message == (
        "arlarena-bench train: the engine failed: the transformers engine died: "
        "MemoryError: no room for keys; run the same command again to resume"
    )
    assert [line["update"] for line in updates(out)] == [1]
    assert train(out) == 0
    found, expected = updates(out), updates(tmp_path / "whole")
    assert [without_times(line) for line in found] == [without_times(line) for line in expected]


def test_an_interrupted_run_says_how_it_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from baselines.training.trainer import Trainer

    async def interrupted(self: Trainer) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Trainer, "train", interrupted)
    assert train(tmp_path) == EXIT_INTERRUPTED
    assert "the same command starts over" in capsys.readouterr().err


@pytest.mark.slow
def test_asynchronous_rollouts_are_never_older_than_asked_for(tmp_path: Path) -> None:
    out = tmp_path / "run"
    settings = {"optimization__updates": "4", "rollout__max_turns": "2"}
    assert train(out, "--async-rollouts", recipe="grpo", **settings) == 0
    ages = [line["staleness/max"] for line in updates(out)]
    assert ages[0] == 0 and max(ages) <= 1
    assert lines(out)[0]["configuration"]["rollout"]["max_staleness"] == 1


def test_a_batch_that_teaches_nothing_is_an_update_without_steps(tmp_path: Path) -> None:
    out = tmp_path / "run"
    # With one turn nobody can win, and every turn costs the same.
    dynamic = "{tries: 1, fill: smaller}"
    settings = {"rollout__max_turns": "1", "format_penalty": "0", "optimization__updates": "1"}
    assert train(out, recipe="dapo_grpo", sampling__dynamic=dynamic, **settings) == 0
    (line,) = updates(out)
    assert (line["rollout/uniform_groups"], line["policy/optimizer_steps"]) == (1.0, 0)
    assert line["policy/loss"] is None and line["rollout/episodes"] == 8
    trained, init = (from_folder(path).path for path in (out / "last", _init()))
    assert trained is not None and init is not None
    from safetensors.torch import load_file

    before, after = (load_file(path / "model.safetensors") for path in (init, trained))
    assert all(torch.equal(after[name], before[name]) for name in after)


def _init() -> Path:
    return Path(__file__).parents[3] / "baselines" / "inits" / "tiny-sokoban"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--recipe", "samp"], "there is no recipe 'samp'; did you mean sampo"),
        (["--init", "tiny-socoban"], "no init or folder 'tiny-socoban'; did you mean tiny-sok"),
        (["--set", "rollout.grups=2"], "there is no rollout.grups; did you mean groups"),
        (["--set", "webshop.compat=x"], "there is no webshop; there are advantage, "),
        (["--set", "sokoban.walls=x"], "task sokoban has no setting 'walls'; there are view"),
        (["--set", "unit=trajectory"], "gigpo compares turns of episodes, but the rows of "),
        (
            ["--recipe", "grpo", "--set", "unit=trajectory"],
            "a prompt of sokoban does not continue the one before",
        ),
        (
            ["--task", "sokoban=4", "--task", "webshop"],
            "--task NAME=GROUPS: give the number of groups of every task or of none",
        ),
        (["--task", "sokoban", "--task", "sokoban"], "--task: give each task once"),
        (
            ["--set", "rollout.mixture.webshop=16"],
            "rollout.mixture is one of webshop, but the run trains on sokoban",
        ),
        (
            ["--set", "rollout.max_turns.webshop=3"],
            "rollout.max_turns names webshop, but the run trains on sokoban",
        ),
        (
            ["--task", "sokoban=4"],
            "rollout.mixture has 4 groups an update, but rollout.groups is 2",
        ),
        (["--tracker", "tensorbord"], "'tensorbord' is not installed; did you mean tensorboard?"),
        (["--engine", "openai"], "--engine openai needs at least one --endpoint URL"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in refused(capsys, train(tmp_path / "run", *arguments))


def test_a_folder_that_cannot_be_one_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert f"{file} cannot be written: File exists" in refused(capsys, train(file))
    below = file / "run"
    assert f"{below} cannot be written: Not a directory" in refused(capsys, train(below))
    assert file.read_text() == ""


def test_a_folder_of_a_model_without_a_task_needs_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["train", "--recipe", "grpo", "--init", str(_init()), "--out", str(tmp_path)])
    said = refused(capsys, code)
    assert "--task is missing, such as --task sokoban: the init belongs to no" in said
