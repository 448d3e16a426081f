"""Sokoban in worker processes, with faults: only tasks that a worker can import.

Workers import this module, so it must not import what only the tests need.
"""

import ctypes
import os
import random
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

from tasks.episode import Episode, Step, View
from tasks.errors import UserError
from tasks.panels import PanelEntry
from tasks.sokoban.play import Level
from tasks.sokoban.task import SokobanTask
from tasks.text_task import TextEpisode

MARKS = "WORKER_TASKS_MARKS"
"""Environment variable: folder for the marker files of `Once`."""


class WorkerSokoban(SokobanTask):
    """Sokoban in worker processes."""

    info = replace(SokobanTask.info, worker_processes=True)


class Act(TextEpisode[Level]):
    """Sokoban whose responses may be commands to misbehave."""

    orders = 0

    def step(self, response: str) -> Step:
        match response.partition(" "):
            case "exit", _, code:
                os._exit(int(code))
            case "sys.exit", _, _:
                sys.exit("bye")
            case "abort", _, _:
                ctypes.CDLL(None).abort()
            case "raise", _, text:
                raise ZeroDivisionError(text)
            case "mistake", _, text:
                raise UserError(text)
            case "wait", _, file:
                while not Path(file).exists():
                    time.sleep(0.01)
            case "spin", _, _:
                while True:
                    pass
            case "print", _, text:
                os.write(1, text.encode())
            case "unpicklable", _, _:
                return replace(super().step("x"), info={"x": lambda: None})
            case "nan", _, _:
                return replace(super().step("x"), info={"x": float("nan")})
        return super().step(response)


class Misbehaving(WorkerSokoban):
    """Episodes that follow such commands, and an expert that counts its calls."""

    def episode(self, entry: PanelEntry, max_turns: int) -> TextEpisode[Level]:
        return Act(self, entry, max_turns)

    def expert_response(self, episode: Episode) -> str:
        assert isinstance(episode, Act)
        episode.orders += 1
        return f"{super().expert_response(episode)}<!-- {episode.orders} -->"


class Deadly(WorkerSokoban):
    """The second entry of the panel kills its process at its third turn."""

    def episode(self, entry: PanelEntry, max_turns: int) -> TextEpisode[Level]:
        class Dying(TextEpisode[Level]):
            def step(self, response: str) -> Step:
                if entry.id == "one-box-001" and self._turn == 3:
                    os.kill(os.getpid(), signal.SIGKILL)
                return super().step(response)

        return Dying(self, entry, max_turns)


class Once(WorkerSokoban):
    """Every tenth entry kills its process at its second turn, but only the first time."""

    def episode(self, entry: PanelEntry, max_turns: int) -> TextEpisode[Level]:
        mark = Path(os.environ[MARKS]) / entry.id

        class Dying(TextEpisode[Level]):
            def step(self, response: str) -> Step:
                if entry.id.endswith("0") and self._turn == 2 and not mark.exists():
                    mark.touch()
                    os._exit(7)
                return super().step(response)

        return Dying(self, entry, max_turns)


class Broken(WorkerSokoban):
    """A task that raises wherever it can."""

    def episode(self, entry: PanelEntry, max_turns: int) -> TextEpisode[Level]:
        if entry.id == "one-box-000":
            raise OSError("corrupt game file")

        class Raising(TextEpisode[Level]):
            def reset(self) -> View:
                if entry.id == "one-box-001":
                    raise KeyError("room")
                return super().reset()

            def step(self, response: str) -> Step:
                if entry.id == "one-box-002" and self._turn == 2:
                    raise ZeroDivisionError("world")
                return super().step(response)

            def close(self) -> None:
                if entry.id == "one-box-003":
                    raise BrokenPipeError("no end")

        return Raising(self, entry, max_turns)


class InlineBroken(Broken):
    """The same task, run in this process."""

    info = SokobanTask.info


def modules(task: SokobanTask) -> list[str]:
    """The modules that the process has imported."""
    del task
    return sorted(sys.modules)


def process_of(task: SokobanTask, seconds: float = 0.0) -> int:
    """The process id, after a delay."""
    del task
    time.sleep(seconds)
    return os.getpid()


def variable(task: SokobanTask, name: str) -> str | None:
    """The value of an environment variable in the worker."""
    del task
    return os.environ.get(name)


def square(task: SokobanTask, number: int) -> int:
    """The square of a number, after a delay unrelated to the order."""
    time.sleep(random.Random(number).random() * 0.01)
    if number == 13:
        os._exit(1)
    return number**2


class OfTwo(Exception):
    """Pickles, but cannot be unpickled, because its constructor takes two arguments."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def unreadable(task: SokobanTask) -> Exception:
    """Return something that the other side cannot unpickle."""
    del task
    return OfTwo(1, 2)


def refuse(task: SokobanTask, number: int) -> int:
    """Raise for some numbers."""
    if number == 5:
        raise ValueError("five")
    return number
