"""If any part of a run on several GPUs ends, all of it ends."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.util import find_spec
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from baselines.launch.fleet import reserved_ports
from benchmark.logs.training_log import LOG
from tests.support.training.ranks import ROOT

SCRIPT = Path(__file__).parent / "fleet_once.py"
LONGEST = 600.0

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Start a fleet, and stop all of its processes afterward."""
    begun: list[subprocess.Popen[str]] = []

    def begin(how: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, str(SCRIPT), str(tmp_path), how],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        begun.append(process)
        return process

    yield begin
    for process in begun:
        process.kill()
        process.communicate()


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONGEST
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def parts(process: subprocess.Popen[str], *marks: str) -> list[psutil.Process]:
    """All processes of the fleet, once each of these words occurs in a command."""
    found: list[psutil.Process] = []

    def there() -> bool:
        assert process.poll() is None, process.communicate()
        found[:] = psutil.Process(process.pid).children(recursive=True)
        lines = [words(part) for part in found]
        return all(any(mark in line for line in lines) for mark in marks)

    until(there)
    return found


def words(part: psutil.Process) -> str:
    """Its command line; empty for one that ends meanwhile, as helpers of libraries do."""
    try:
        return " ".join(part.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return ""


def gone(found: list[psutil.Process]) -> None:
    alive = psutil.wait_procs(found, timeout=60)[1]
    assert [words(part) for part in alive] == []


def test_a_reserved_port_is_for_its_server_alone() -> None:
    with reserved_ports(2) as (one, other):
        with HTTPServer(("127.0.0.1", one), BaseHTTPRequestHandler) as server:
            assert server.server_port == one
        with socket.socket() as taker, pytest.raises(OSError, match="in use"):
            taker.bind(("127.0.0.1", other))


@pytest.mark.slow
def test_a_trainer_that_is_killed_is_said_to_be(
    start: Callable[[str], subprocess.Popen[str]],
) -> None:
    fleet = start("killed")
    _, said = fleet.communicate(timeout=LONGEST)
    assert fleet.returncode == 1
    assert "the trainer was ended by SIGKILL (out of host memory? see the system's log)" in said


@pytest.mark.slow
def test_a_server_that_ends_ends_all(
    start: Callable[[str], subprocess.Popen[str]], tmp_path: Path
) -> None:
    fleet = start("idle")
    found = parts(fleet, "http.server", "time.sleep")
    (server,) = [part for part in found if "http.server" in words(part)]
    server.send_signal(signal.SIGKILL)
    _, said = fleet.communicate(timeout=LONGEST)
    assert fleet.returncode == 1
    assert "EngineDown: " in said and "ended with status -9" in said
    assert str(tmp_path / "logs/server-0.log") in said
    gone(found)


@pytest.mark.slow
def test_a_stop_that_ends_the_servers_first_is_a_stop(
    start: Callable[[str], subprocess.Popen[str]], tmp_path: Path
) -> None:
    """Schedulers send SIGTERM to all processes of a job; a second one would end the trainer."""
    fleet = start("stops")
    until((tmp_path / "asked-0").exists)
    found = parts(fleet, "http.server")
    fleet.terminate()
    until((tmp_path / "asked-1").exists)
    (server,) = [part for part in found if "http.server" in words(part)]
    server.terminate()
    until(lambda: not server.is_running())  # the fleet has noticed: it reaps its children
    time.sleep(1)
    assert not (tmp_path / "asked-2").exists()
    (tmp_path / "end").touch()
    _, said = fleet.communicate(timeout=LONGEST)
    assert fleet.returncode == 130 and "EngineDown" not in said
    gone(found)


@pytest.mark.slow
def test_a_trainer_is_asked_once_when_a_server_ends_and_again_by_the_user(
    start: Callable[[str], subprocess.Popen[str]], tmp_path: Path
) -> None:
    fleet = start("stops")
    until((tmp_path / "asked-0").exists)
    found = parts(fleet, "http.server")
    (server,) = [part for part in found if "http.server" in words(part)]
    server.send_signal(signal.SIGKILL)
    until((tmp_path / "asked-1").exists)
    fleet.terminate()
    until((tmp_path / "asked-2").exists)
    (tmp_path / "end").touch()
    _, said = fleet.communicate(timeout=LONGEST)
    assert fleet.returncode == 1 and "EngineDown: " in said
    gone(found)


@pytest.mark.slow
def test_a_server_that_ends_when_the_trainer_has_finished_is_no_failure(
    start: Callable[[str], subprocess.Popen[str]], tmp_path: Path
) -> None:
    fleet = start("finishes")
    until((tmp_path / "asked-0").exists)
    found = parts(fleet, "http.server")
    (server,) = [part for part in found if "http.server" in words(part)]
    server.send_signal(signal.SIGKILL)
    _, said = fleet.communicate(timeout=LONGEST)
    assert fleet.returncode == 0 and "EngineDown" not in said
    gone(found)


@pytest.mark.slow
def test_a_server_that_never_answered_is_not_told_to_resume(
    start: Callable[[str], subprocess.Popen[str]],
) -> None:
    _, said = start("unserved").communicate(timeout=LONGEST)
    assert "EngineNotStarted: " in said and "ended with status 3" in said


@pytest.mark.slow
def test_the_trainers_code_is_the_runs_whatever_proxy_is_named(
    start: Callable[[str], subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert start("fails").wait(timeout=LONGEST) == 3


@pytest.mark.slow
def test_nothing_outlives_a_fleet_that_is_killed(
    start: Callable[[str], subprocess.Popen[str]], tmp_path: Path
) -> None:
    fleet = start("train")
    until((tmp_path / "run" / LOG).exists)
    found = parts(fleet, "http.server", "torch.distributed.run", "benchmark.cli train")
    assert len(found) >= 4  # a server, a launcher, two processes
    fleet.kill()
    gone(found)


@pytest.mark.slow
def test_sigterm_reaches_the_trainer_and_leaves_a_checkpoint(
    start: Callable[[str], subprocess.Popen[str]], tmp_path: Path
) -> None:
    fleet = start("train")
    log = tmp_path / "run" / LOG
    until(lambda: log.exists() and log.read_text().count("\n") >= 2)
    found = parts(fleet, "http.server")
    fleet.terminate()
    fleet.communicate(timeout=LONGEST)
    assert fleet.returncode == 130
    gone(found)
    state = json.loads((tmp_path / "run/last/state/training_state.json").read_text())
    assert state["update"] == log.read_text().count("\n") - 1 >= 1


@pytest.mark.slow
@pytest.mark.parametrize(("how", "code"), [("finishes", 0), ("full", 2)])
def test_a_trainer_that_was_asked_to_stop_and_finishes_or_fails_has_the_last_word(
    how: str, code: int, start: Callable[[str], subprocess.Popen[str]], tmp_path: Path
) -> None:
    fleet = start(how)
    until((tmp_path / "asked-0").exists)
    fleet.terminate()
    fleet.communicate(timeout=LONGEST)
    assert fleet.returncode == code


@pytest.mark.slow
def test_a_process_of_the_trainer_that_is_killed_ends_all(
    start: Callable[[str], subprocess.Popen[str]], tmp_path: Path
) -> None:
    fleet = start("train")
    until((tmp_path / "run" / LOG).exists)
    found = parts(fleet, "http.server", "benchmark.cli train")
    ranks = [part for part in found if " -u -m benchmark.cli " in words(part)]
    assert len(ranks) == 2, [words(part) for part in found]
    ranks[1].send_signal(signal.SIGKILL)
    _, said = fleet.communicate(timeout=LONGEST)
    assert fleet.returncode != 0
    assert "another process of this run ended without a message" in said or "SIGKILL" in said
    gone(found)


@pytest.mark.slow
@pytest.mark.vllm
@pytest.mark.timeout(1500)
@pytest.mark.skipif(find_spec("vllm") is None, reason="vllm is not installed")
def test_whatever_is_killed_beside_vllm_nothing_stays_and_the_run_goes_on(
    start: Callable[[str], subprocess.Popen[str]], tmp_path: Path
) -> None:
    log, state = tmp_path / "run" / LOG, tmp_path / "run/last/state/training_state.json"

    def updates() -> int:
        return log.read_text().count('"kind":"update"') if log.exists() else 0

    fleet = start("vllm")
    until(lambda: updates() >= 2)
    found = parts(fleet, "EngineCore", "fsdp_train.py train")
    (core,) = [part for part in found if "EngineCore" in words(part)]
    core.send_signal(signal.SIGKILL)
    _, said = fleet.communicate(timeout=LONGEST)
    assert fleet.returncode == 1, said
    gone(found)
    before = updates()
    assert json.loads(state.read_text())["update"] == before >= 2

    again = start("vllm")
    until(lambda: updates() > before)
    found = parts(again, "EngineCore", "fsdp_train.py train")
    again.kill()
    gone(found)
