"""Runs on separate GPUs, and how they stop; the commands are stand-ins for `train`."""

import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from baselines.launch.child import process_start
from baselines.launch.slots import NO_GPUS, GpuSlots, deal_gpus
from baselines.study import running
from baselines.study.running import OUTPUT
from baselines.study.schema import Cell
from baselines.study.workspace import RunState, StudySetting, read_state, write_state
from benchmark.cli.main import main
from tests.support.training.failing_cells import failing_setting, failures
from tests.support.training.tiny_study import make_tracks

RECIPES = ("grpo", "gspo", "cispo", "sapo", "gigpo", "grpo_st")
WRITES = "import os, sys, time; print(os.environ['CUDA_VISIBLE_DEVICES'], sys.argv[1:], flush=True)"
FAILS_LATER = """
from pathlib import Path

def failures():
    return sum('"failure": "' in one.read_text() for one in Path({folder!r}).rglob("study.json"))

while os.environ["CUDA_VISIBLE_DEVICES"] != "0" and failures() < 2:
    time.sleep(0.05)
sys.exit(3)
"""
"""Fails on the first GPU at once, on others when two runs have failed."""
EIGHT = tuple("01234567")


def made(
    folder: Path, cells: Sequence[Cell], command: str, gpus: GpuSlots, jobs: int
) -> tuple[StudySetting, dict[str, str]]:
    """Run cells with a command that always fails; returns the setting, and why each failed."""
    setting = failing_setting(folder, cells, command, gpus, jobs)
    return setting, failures(cells, setting)


def gpus_of(setting: StudySetting, cells: Sequence[Cell]) -> list[str]:
    """The GPUs visible to each run."""
    said = [(setting.folder(cell) / OUTPUT).read_text("utf-8") for cell in cells]
    return [text.split()[0] for text in said]


def test_runs_at_the_same_time_have_their_own_gpus(tmp_path: Path, tiny_tracks: Path) -> None:
    cells = [Cell("fixed", recipe, 0) for recipe in RECIPES[:2]]
    gpus = deal_gpus(None, 2, 0, EIGHT[:4])
    setting, why = made(tmp_path, cells, f"{WRITES}; time.sleep(1); sys.exit(3)", gpus, 2)
    assert sorted(gpus_of(setting, cells)) == ["0,1", "2,3"]
    said = (setting.folder(cells[0]) / OUTPUT).read_text("utf-8")
    assert "'--gpus', '2', '--serve-gpus', '0'" in said
    assert len(why) == 2


def test_gpus_on_which_runs_fail_do_not_get_all_of_them(
    tmp_path: Path, tiny_tracks: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cells = [Cell("fixed", recipe, 0) for recipe in RECIPES]
    broken = FAILS_LATER.format(folder=str(tmp_path))
    setting, why = made(tmp_path, cells, f"{WRITES}\n{broken}", deal_gpus(2, 1, None, EIGHT), 2)
    assert len(why) == len(cells)
    used = gpus_of(setting, cells)
    # After two failures the first GPU is not used, until the other one fails as often.
    assert used[0] == used[2] == "0"
    assert used[1] == used[3] == "1"
    assert "2 runs in a row failed on GPU 0: it is not used while runs on others" in caplog.text


STARTS_AFTER = """
from pathlib import Path
try:
    ended = Path("/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
except (FileNotFoundError, ProcessLookupError):
    ended = True
raise SystemExit(3 if ended else 4)
"""


def test_a_process_of_a_study_that_was_killed_is_waited_for(
    tmp_path: Path, tiny_tracks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell, end = Cell("fixed", "grpo", 0), tmp_path / "end"
    folder = tmp_path / "runs" / "fixed" / "grpo-s0"
    folder.mkdir(parents=True)
    # Its parent, which reaps it, is not the study.
    runs = f"while [ ! -e {shlex.quote(str(end))} ]; do sleep 0.1; done >/dev/null & echo $!"
    shell = subprocess.run(["/bin/sh", "-c", runs], stdout=subprocess.PIPE, check=True)
    pid = int(shell.stdout)
    state = RunState(cpu_seconds={}, pid=pid, began=process_start(pid), failure=None)
    write_state(folder, state)

    def let_it_end(text: str, *arguments: object) -> None:
        said.append(text % arguments)
        end.touch()

    said: list[str] = []
    monkeypatch.setattr(running.log, "warning", let_it_end)
    _, why = made(tmp_path, [cell], STARTS_AFTER.format(pid=pid), NO_GPUS, 1)
    assert said == ["waiting for 1 run of a study that was killed"]
    assert "exit code 3" in why["grpo"]


STUDY = """
import signal, sys
from pathlib import Path
import pytest
from baselines.launch.slots import NO_GPUS, deal_gpus
from baselines.study.current_tracks import current_tracks_of
from baselines.study.running import run_cells
from baselines.study.schema import Cell
from baselines.study.workspace import StudySetting
from tests.support.training.tiny_study import use_tracks

folder = Path(sys.argv[1])
use_tracks(folder, pytest.MonkeyPatch())
TRAINER = '''
import signal, sys, time
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
print("begun", flush=True)
while not asked:
    time.sleep(0.1)
print("asked", flush=True)
time.sleep(int(sys.argv[1]))
print("checkpoint", flush=True)
sys.exit(143)
'''
cell = Cell("fixed", "grpo", 0)
tracks = current_tracks_of([cell], "study.yaml")
command = (sys.executable, "-c", TRAINER, sys.argv[2])
gpus = NO_GPUS if sys.argv[3] == "0" else deal_gpus(1, 2, 0, ("0", "1"))
setting = StudySetting(tracks, folder / "runs", folder / "results", 1, command, gpus=gpus)
print("ready", flush=True)
run_cells([cell], setting, lambda *_: None, lambda *_: None, lambda *_: None)
"""


STOPPED_WHILE_IT_STARTS = """
import signal, sys, time
from pathlib import Path
from baselines.launch import child

def hear(_pid):
    output = Path(sys.argv[1], "runs/fixed/grpo-s0/output.txt")
    while "begun" not in output.read_text():
        time.sleep(0.1)
    signal.raise_signal(signal.SIGHUP)

child._pass_nice_on = hear
"""


@pytest.fixture
def begin(tmp_path: Path, request: pytest.FixtureRequest) -> "Iterator[subprocess.Popen[bytes]]":
    """A study whose run needs some seconds for its checkpoint, as soon as that run has begun."""
    seconds, gpus, *prefix = request.param
    make_tracks(tmp_path)
    # The tests may themselves run under nohup.
    start = ["env", "--default-signal=HUP", *prefix, sys.executable, "-c", STUDY]
    words = [*start, str(tmp_path), str(seconds), str(gpus)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        wait_for("begun", tmp_path)
        yield process
    finally:
        process.kill()
        process.wait()


def said_by(folder: Path) -> str:
    path = folder / "runs" / "fixed" / "grpo-s0" / OUTPUT
    return path.read_text("utf-8") if path.exists() else ""


def wait_for(word: str, folder: Path) -> None:
    deadline = time.monotonic() + 120
    while word not in said_by(folder):
        assert time.monotonic() < deadline, f"{word} was not said"
        time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("begin", "number"),
    [((3, 0), signal.SIGTERM), ((3, 2), signal.SIGHUP)],
    indirect=["begin"],
)
def test_a_signal_that_comes_twice_leaves_checkpoints(
    begin: "subprocess.Popen[bytes]", number: signal.Signals, tmp_path: Path
) -> None:
    begin.send_signal(number)
    wait_for("asked", tmp_path)
    begin.send_signal(number)
    assert begin.wait(120) != 0
    assert "checkpoint" in said_by(tmp_path)
    assert read_state(tmp_path / "runs" / "fixed" / "grpo-s0").pid is None


@pytest.mark.slow
def test_a_run_whose_start_a_signal_falls_into_leaves_a_checkpoint(tmp_path: Path) -> None:
    make_tracks(tmp_path)
    study = STOPPED_WHILE_IT_STARTS + STUDY
    start = ["env", "--default-signal=HUP", sys.executable, "-c", study]
    assert subprocess.run([*start, str(tmp_path), "1", "2"], check=False).returncode != 0
    assert "checkpoint" in said_by(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("begin", [(300, 2)], indirect=True)
def test_a_second_ctrl_c_ends_all_at_once(begin: "subprocess.Popen[bytes]", tmp_path: Path) -> None:
    pid = read_state(tmp_path / "runs" / "fixed" / "grpo-s0").pid
    begin.send_signal(signal.SIGINT)
    # Before that, both signals may become one.
    wait_for("asked", tmp_path)
    begin.send_signal(signal.SIGINT)
    assert begin.wait(120) != 0
    assert not Path(f"/proc/{pid}").exists()
    assert "checkpoint" not in said_by(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("begin", [(0, 0, "nohup")], indirect=True)
def test_a_study_under_nohup_outlives_its_terminal(
    begin: "subprocess.Popen[bytes]", tmp_path: Path
) -> None:
    begin.send_signal(signal.SIGHUP)
    time.sleep(2)
    assert begin.poll() is None
    begin.send_signal(signal.SIGTERM)
    begin.wait(120)
    assert "checkpoint" in said_by(tmp_path)


def test_what_train_refuses_on_gpus_is_said_before_anything_is_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("baselines.launch.plan.visible_gpus", lambda: EIGHT)
    file = tmp_path / "study.yaml"
    file.write_text(
        "name: two\nblocks: [{tracks: [sokoban-stress], recipes: [grpo, agentrl_cross]}]\n"
    )
    places = ["--out", str(tmp_path / "runs"), "--results", str(tmp_path / "results")]
    assert main(["study", "run", str(file), *places, "--gpus", "2"]) == 2
    out, error = capsys.readouterr()
    assert "0 of 7 runs are finished; 7 left" in out
    assert "sokoban-stress agentrl_cross: cross-policy sampling needs a second engine" in error
    assert "1 method cannot run this way (see above); nothing was started" in error
    assert "grpo:" not in error
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (["--serve-gpus", "1"], "--serve-gpus"),
        (["--sleep"], "--sleep"),
        (["--gpu-memory-utilization", "0.3"], "--gpu-memory-utilization"),
    ],
)
def test_options_of_gpus_need_gpus(
    options: list[str], name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "study.yaml"
    file.write_text("name: one\nblocks: [{tracks: [sokoban-stress], recipes: [grpo]}]\n")
    assert main(["study", "run", str(file), *options]) == 2
    assert f"{name} has no effect without --gpus" in capsys.readouterr().err
