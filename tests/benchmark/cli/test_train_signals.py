"""Signals to a training run while its event loop is blocked for long."""

import asyncio
import inspect
import json
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from baselines.training.checkpoints import STATE_OF_LAST
from baselines.training.terminal_view import LiveView
from benchmark.cli.training import signals
from benchmark.cli.training import train as command
from benchmark.cli.training.signals import StopSignals, handlers_kept
from benchmark.engines.core.base import EngineDown
from benchmark.engines.transformers.engine import TransformersEngine
from benchmark.exit_codes import EXIT_INTERRUPTED
from benchmark.models import folder_sha256
from tests.support.training.train_command import one_thread, train

__all__ = ["one_thread"]


class Stoppable:
    """Counts requests to stop."""

    asked = 0
    finished = False

    def stop(self) -> None:
        self.asked += 1


def press(number: int = signal.SIGINT) -> None:
    """Send a signal; in the main thread its handler has run when this returns."""
    signal.raise_signal(number)


def test_the_first_is_heard_at_once_and_the_second_ends_what_hangs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = 100.0
    monkeypatch.setattr(signals, "time", SimpleNamespace(monotonic=lambda: now))
    trainer: Any = Stoppable()
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)

    async def learn() -> None:
        nonlocal now
        with StopSignals() as stopping:
            stopping.trainer = trainer
            press()
            assert "stopping, with a checkpoint; to stop at once, ask again" in caplog.text
            now += 0.4
            press()  # a double press is one
            now += 9
            press(signal.SIGTERM)  # passed on by somebody
            assert trainer.asked == 0
            await asyncio.sleep(0)
            assert trainer.asked == 1
            with pytest.raises(KeyboardInterrupt):
                press()
            now += 1
            press(signal.SIGTERM)
            pytest.fail("it goes on")

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(learn())
    assert now == 110.4
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    assert caplog.text.count("stopping") == 1


def test_before_there_is_a_trainer_the_task_is_cancelled() -> None:
    async def load() -> None:
        with StopSignals():
            press(signal.SIGTERM)
            await asyncio.Event().wait()

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(load())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_after_the_end_of_a_run_nothing_is_left_to_stop(number: int) -> None:
    before = signal.getsignal(number)
    trainer: Any = Stoppable()

    async def learn(error: Exception | None) -> None:
        with StopSignals(ends=True) as stopping:
            stopping.trainer = trainer
            if error is not None:
                raise error

    with handlers_kept():
        asyncio.run(learn(None))
        press(number)
    assert signal.getsignal(number) == before
    with handlers_kept(), pytest.raises(ValueError, match="failed"):
        asyncio.run(learn(ValueError("failed")))
    assert signal.getsignal(number) == before


STAGES: dict[str, tuple[Any, str]] = {
    "engine": (TransformersEngine, "__aexit__"),
    "view": (LiveView, "__exit__"),
    "hash": (command, "folder_sha256"),
}


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("stage", STAGES)
def test_a_run_that_has_made_its_updates_ends_as_a_finished_one(
    stage: str,
    number: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A signal while the engine closes, the event loop ends, or the weights are hashed."""
    owner, name = STAGES[stage]
    own = getattr(owner, name)

    async def late(*given: Any) -> Any:
        press(number)
        return await own(*given)

    def later(*given: Any) -> Any:
        press(number)
        return own(*given)

    monkeypatch.setattr(owner, name, late if inspect.iscoroutinefunction(own) else later)
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    assert train(tmp_path / "run", recipe="grpo", optimization__updates="1") == 0
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    said, error = capsys.readouterr()
    digest = folder_sha256(tmp_path / "run" / "last")
    assert said.splitlines()[-2:] == [
        f"weights of last: SHA-256 {digest}",
        f"log and checkpoints: {tmp_path / 'run'}",
    ]
    assert "stop" not in error
    ending = "ending: all updates are made; to stop at once, ask again"
    assert caplog.messages.count(ending) == (stage == "engine")
    assert "stopping, with" not in caplog.text


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_a_signal_that_also_ends_a_server_during_a_hand_over_has_stopped_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = TransformersEngine.load_weights

    async def end(engine: TransformersEngine, weights: Any, version: int) -> None:
        if version == 1:
            press(signal.SIGTERM)
            await asyncio.sleep(0)  # a request to the server that is ending
            raise EngineDown("the connection was closed")
        await taken(engine, weights, version)

    monkeypatch.setattr(TransformersEngine, "load_weights", end)
    own = {"optimization__updates": "2", "checkpoint_every": "100"}
    assert train(tmp_path / "run", recipe="grpo", **own) == EXIT_INTERRUPTED
    error = capsys.readouterr().err
    assert f"resumes from the last checkpoint in {tmp_path / 'run'}" in error
    assert "the engine failed" not in error
    state = json.loads((tmp_path / "run" / STATE_OF_LAST).read_text("utf-8"))
    assert state["update"] == 1


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_an_end_that_hangs_can_be_stopped_and_the_run_is_said_to_be_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(signals, "SAME_PRESS_S", 0.0)

    async def hang(*given: Any) -> None:
        del given
        for _ in range(2):
            press()
        pytest.fail("it goes on")

    monkeypatch.setattr(TransformersEngine, "__aexit__", hang)
    code = train(tmp_path / "run", recipe="grpo", optimization__updates="1")
    assert code == EXIT_INTERRUPTED
    said = f"stopped; all updates are made: the run in {tmp_path / 'run'} is finished"
    assert said in capsys.readouterr().err
