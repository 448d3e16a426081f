"""Sokoban in worker processes, with faults: tasks that a worker can import, and nothing more.

A worker imports this module; what the tests themselves need must not come with it.
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
"""Environment variable: folder in which `Once` leaves its marks."""


class WorkerSokoban(SokobanTask):
    """Sokoban in worker processes."""

    info = replace(SokobanTask.info, worker_processes=True)


class Act(TextEpisode[Level]):
    """Sokoban whose responses may be orders to misbehave."""

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
    """Episodes that do what they are told, and an expert that counts how often it was asked."""

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
    """A world that raises wherever it can."""

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
    """The same in this process."""

    info = SokobanTask.info


def modules(task: SokobanTask) -> list[str]:
    """What the process has imported."""
    del task
    return sorted(sys.modules)


def process_of(task: SokobanTask, seconds: float = 0.0) -> int:
    """Which process this is, after a while."""
    del task
    time.sleep(seconds)
    return os.getpid()


def variable(task: SokobanTask, name: str) -> str | None:
    """What an environment variable says there."""
    del task
    return os.environ.get(name)


def square(task: SokobanTask, number: int) -> int:
    """Squares, after a time that has nothing to do with the order."""
    time.sleep(random.Random(number).random() * 0.01)
    if number == 13:
        os._exit(1)
    return number**2


class OfTwo(Exception):
    """Cannot be read back from what pickle writes: it is made of two arguments."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def unreadable(task: SokobanTask) -> Exception:
    """Give what the other side cannot read."""
    del task
    return OfTwo(1, 2)


def refuse(task: SokobanTask, number: int) -> int:
    """Refuse some numbers."""
    if number == 5:
        raise ValueError("five")
    return number
