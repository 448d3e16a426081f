"""Processes start as the user intends, end together, and stop where a run can resume."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from baselines.launch.plan import FAILED_ELSEWHERE
from benchmark.cli.main import main
from benchmark.engines.core import devices
from benchmark.engines.core.devices import cpu_name
from benchmark.logs.training_log import LOG, read_training_log
from tests.support.training.ranks import ROOT, Ended, end_together, run_together
from tests.support.training.runs import train

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

FOLDER = Path(__file__).parent
LAUNCHER = [
    *(sys.executable, "-m", "baselines.launch.together", "--num_processes", "2"),
    *("--config_file", str(ROOT / "baselines/launch/accelerate.yaml")),
]
SMALL = "rollout.groups=2 rollout.group_size=4 rollout.max_turns=4 validation.every=null"


def one_fails(how: str, count: int = 2) -> list[Ended]:
    """Run `one_fails.py`; ranks that wait for each other for minutes are killed."""
    return end_together(FOLDER / "one_fails.py", how, count=count, within=250)


@pytest.mark.parametrize(
    ("how", "codes", "said"),
    [
        ("error", {FAILED_ELSEWHERE, 2}, "error: the disk is full"),
        ("vanish", {2, -signal.SIGKILL}, "error: another process of this run ended without a"),
    ],
)
def test_an_error_of_one_process_ends_all_with_one_message(
    how: str, codes: set[int], said: str
) -> None:
    ranks = one_fails(how)
    assert {rank.code for rank in ranks} == codes
    errors = [rank.said for rank in ranks]
    lines = [line for text in errors for line in text.splitlines() if "Warning" not in line]
    assert sum(line.startswith(said) for line in lines) == 1, errors
    assert not any("Traceback" in line for line in lines), errors


def test_processes_that_wait_for_each_other_end_when_another_one_is_killed() -> None:
    ranks = one_fails("unseen", count=3)
    first, killed, last = (rank.code for rank in ranks)
    # One of the others may end first; the last one then notices by the lost connection.
    assert killed == -signal.SIGKILL, ranks
    assert {first, last} <= {FAILED_ELSEWHERE, 2}, ranks


@pytest.mark.parametrize("slow", ["stop0", "stop1"])
def test_a_process_that_takes_long_to_stop_is_not_ended_after_the_others(slow: str) -> None:
    """Nor does it lose the first process, through which they know of each other."""
    ranks = one_fails(slow)
    assert [(rank.code, "has ended" in rank.said) for rank in ranks] == [(0, False)] * 2, ranks


def test_a_process_that_is_killed_while_it_stops_is_not_waited_for() -> None:
    ranks = one_fails("leaves")
    assert [rank.code for rank in ranks] == [0, -signal.SIGKILL], ranks


def test_a_process_that_is_stopped_while_another_one_waits_for_it_ends_both() -> None:
    ranks = one_fails("cancelled")
    assert ranks[0].code == 0 and ranks[1].code in (FAILED_ELSEWHERE, 2), ranks


@pytest.mark.parametrize(
    ("how", "code", "said"),
    [
        ("error", 2, "error: the disk is full"),
        ("all", 2, "error: the disk is full"),
        ("vanish", 1, "error: process 1 of the trainer was ended by SIGKILL (out of host memory?"),
    ],
)
def test_under_the_launcher_there_is_one_message_too_and_the_code_of_one_process(
    how: str, code: int, said: str
) -> None:
    made = subprocess.run(
        [*LAUNCHER, str(FOLDER / "one_fails.py"), how],
        env=os.environ | {"PYTHONPATH": str(ROOT), "ACCELERATE_USE_CPU": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    lines = [line for line in made.stderr.splitlines() if "arning" not in line]
    assert made.returncode == code
    assert len(lines) == 1 and lines[0].startswith(said), made.stderr


def test_a_launcher_that_is_asked_to_end_shows_no_traceback() -> None:
    launcher = subprocess.Popen(
        [*LAUNCHER, str(FOLDER / "one_fails.py"), "wait"],
        env=os.environ | {"PYTHONPATH": str(ROOT), "ACCELERATE_USE_CPU": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert launcher.stdout is not None
    assert launcher.stdout.readline() == "waiting\n"
    launcher.terminate()
    _, said = launcher.communicate(timeout=120)
    assert launcher.returncode == 128 + signal.SIGTERM
    # A single notice from torch.
    lines = [line for line in said.splitlines() if "arning" not in line]
    assert len(lines) <= 1 and all("shutting down workers" in line for line in lines), said


def test_accelerates_launcher_for_one_process_is_noticed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "accelerate.commands.launch", "--cpu", "--num_processes", "2"]
    command += ["-m", "benchmark.cli", "train", "--recipe", "grpo", "--init", "tiny-sokoban"]
    environment = {k: v for k, v in os.environ.items() if k not in ("WORLD_SIZE", "MASTER_PORT")}
    made = subprocess.run(
        [*command, "--out", str(tmp_path / "run")],
        env=environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode != 0
    assert "accelerate launch --cpu starts one process" in made.stderr
    assert "torchrun --nproc_per_node N" in made.stderr


@pytest.mark.parametrize("asked", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "Ctrl-C"])
def test_a_run_that_is_asked_to_end_leaves_a_checkpoint_that_it_goes_on_from(
    asked: signal.Signals, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "run"
    settings = [*SMALL.split(), "checkpoint_every=100", "optimization.updates=100"]
    words = ["train", "--recipe", "grpo", "--init", "tiny-sokoban", "--out", str(folder)]
    words += [word for setting in settings for word in ("--set", setting)]
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmark.cli", *words],
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    log = folder / LOG
    deadline = time.monotonic() + 300
    while not log.exists() or log.read_text().count("\n") < 3:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(asked)
    if asked == signal.SIGTERM:
        time.sleep(0.01)
        process.terminate()  # the same signal, as launchers and schedulers pass it on
    _, said = process.communicate(timeout=300)
    assert process.returncode == 130
    assert f"resumes from the last checkpoint in {folder}" in said
    made = len(read_training_log(log).updates)
    state = json.loads((folder / "last/state/training_state.json").read_text())
    assert state["update"] == made >= 2
    assert "stopping, with a checkpoint; to stop at once, ask again" in said
    if asked == signal.SIGINT:
        return
    # The run continues identically, with a warning if it started with other CPU instructions.
    start, _, rest = log.read_text().partition("\n")
    other = "AVX512" if cpu_name().endswith("AVX2") else "AVX2"
    log.write_text(start.replace(cpu_name(), f"a CPU, {other}") + "\n" + rest)
    more = [word.replace("updates=100", f"updates={made + 1}") for word in words]
    assert main(more) == 0
    assert (
        f"the run began on a CPU, {other} and continues on {cpu_name()}: it cannot" in caplog.text
    )
    advised = "unless you stop it and set ATEN_CPU_CAPABILITY=avx2" in caplog.text
    assert advised == (other == "AVX2" and devices.lacking("a CPU, AVX2") is None)
    caplog.clear()
    # Nothing is left to do, so nothing is written.
    finished = log.read_bytes()
    assert main(more) == 0
    assert log.read_bytes() == finished
    caplog.clear()
    whole = [word.replace(str(folder), str(tmp_path / "whole")) for word in more]
    assert main(whole) == 0
    assert "the run began on" not in caplog.text
    resumed, straight = (read_training_log(tmp_path / n / LOG) for n in ("run", "whole"))
    assert straight.resumes == ()
    (moved,) = resumed.resumes
    assert (moved.update, moved.engine[devices.DEVICE_NAME]) == (made, cpu_name())
    assert moved.versions == resumed.start.versions
    for name in ("policy/loss", "policy/grad_norm", "rollout/return"):
        assert resumed.series(name) == straight.series(name)
    weights = [(tmp_path / n / "last/model.safetensors").read_bytes() for n in ("run", "whole")]
    assert weights[0] == weights[1]


def test_a_run_on_two_threads_says_so_and_is_repeated_on_two(tmp_path: Path) -> None:
    words = ["train", "--recipe", "grpo", "--init", "tiny-sokoban"]
    words += [word for setting in SMALL.split() for word in ("--set", setting)]

    def weights(name: str, updates: int, environment: Mapping[str, str], *own: str) -> bytes:
        whole = [*words, "--set", f"optimization.updates={updates}", "--out", str(tmp_path / name)]
        made = subprocess.run(
            [sys.executable, "-m", "benchmark.cli", *whole, *own],
            env={**environment, "PYTHONPATH": str(ROOT)},
            stderr=subprocess.PIPE,
            check=True,
        )
        said[name] = made.stderr.decode()
        return (tmp_path / name / "last/model.safetensors").read_bytes()

    said: dict[str, str] = {}
    # A limit for MKL does not count. (vLLM in this process leaves a preloaded OpenMP in the
    # environment, which reads its thread count before this program does.)
    inherited = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    one = {**inherited, devices.THREADS: "1", "MKL_NUM_THREADS": "1"}
    first = weights("two", 1, one, "--threads", "2")
    there = read_training_log(tmp_path / "two" / LOG).start.engine[devices.DEVICE_NAME]
    assert devices.threads(there) == 2
    same = {name: value for name, value in devices.repeating(there).items() if name != "LD_PRELOAD"}
    assert weights("again", 1, same) == first
    weights("again", 2, one)
    assert f"the run began on {there} and continues on" in said["again"]
    assert "unless you stop it and set OMP_NUM_THREADS=2" in said["again"]


def test_a_run_goes_on_with_another_number_of_processes(tmp_path: Path) -> None:
    own = ("optimization.updates=2", "checkpoint_every=1")
    train(tmp_path, "sampo", own)
    script = FOLDER / "train_together.py"
    three = [*SMALL.split(), "checkpoint_every=2", "optimization.warmup_updates=0"]
    run_together(script, str(tmp_path), "each", "sampo", *three, "optimization.updates=3")
    lines = train(tmp_path, "sampo", ("optimization.updates=4",))
    assert [line["update"] for line in lines] == [4]
    assert len(read_training_log(tmp_path / LOG).updates) == 4


@pytest.mark.parametrize(
    ("how", "error"),
    [("down", "EngineLost: gone"), ("refused", "NothingPlayed: no episode of update 3 could be")],
)
def test_engines_that_fail_end_all_processes_with_a_checkpoint(
    how: str, error: str, tmp_path: Path
) -> None:
    script = FOLDER / "train_together.py"
    own = ["checkpoint_every=100", "optimization.updates=3", "optimization.warmup_updates=0"]
    for rank in end_together(script, str(tmp_path), how, "sampo", *SMALL.split(), *own):
        assert rank.code == 1 and error in rank.said
    lines = train(tmp_path, "sampo", ("optimization.updates=3", "checkpoint_every=100"))
    assert [line["update"] for line in lines] == [3]
