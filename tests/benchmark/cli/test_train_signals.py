"""Signals of a training run, while its event loop waits for something that takes long."""

import asyncio
import os
import signal
import time
from typing import Any

import pytest

from benchmark.cli.training import signals
from benchmark.cli.training.signals import StopSignals


class Stoppable:
    """What is asked to stop."""

    asked = 0

    def stop(self) -> None:
        self.asked += 1


def press(number: int = signal.SIGINT) -> None:
    os.kill(os.getpid(), number)
    time.sleep(0.02)


def test_the_first_is_heard_at_once_and_the_second_ends_what_hangs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(signals, "SAME_PRESS_S", 0.2)
    trainer: Any = Stoppable()
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)

    async def learn() -> None:
        with StopSignals() as stopping:
            stopping.trainer = trainer
            press()
            assert "stopping, with a checkpoint; to stop at once, ask again" in caplog.text
            press()  # a double press is one
            press(signal.SIGTERM)
            assert trainer.asked == 0
            await asyncio.sleep(0.25)
            assert trainer.asked == 1
            press(signal.SIGTERM)  # passed on by somebody
            press()
            pytest.fail("it goes on")

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(learn())
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    assert caplog.text.count("stopping") == 1


def test_before_there_is_a_trainer_the_task_is_cancelled() -> None:
    async def load() -> None:
        with StopSignals():
            press(signal.SIGTERM)
            await asyncio.sleep(5)

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(load())
