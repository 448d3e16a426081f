"""The worker process's side: it holds episodes and serves one call at a time.

Imports the tasks and the standard library only: a worker must start in a moment and stay small,
whatever the process that started it has loaded.

Both sides speak over a pair of sockets, in frames: eight bytes that give the length, then a pickle.
Only the process that started the worker holds the other end. The worker says `None` once it is
ready; then every call gets one answer, in order.
"""

import ctypes
import logging
import os
import pickle
import random
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeAlias

from tasks.base import Task
from tasks.episode import Episode, ReplayStep, Step, View
from tasks.errors import TransientError, UserError
from tasks.panels import PanelEntry

HEADER = struct.Struct(">Q")
_PR_SET_PDEATHSIG = 1

log = logging.getLogger(__name__)

Action: TypeAlias = tuple[str, tuple[Any, ...]]
"""A method of `LiveEpisode` and its arguments."""


@dataclass(frozen=True, slots=True)
class Open:
    """Open an episode and bring it to where it was.

    Attributes:
        number: What later calls name it by.
        task: The task; the worker has one instance of its own.
        entry: What is played.
        max_turns: Turn limit.
        past: What the episode did before it came here.
    """

    number: int
    task: Task
    entry: PanelEntry
    max_turns: int
    past: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class Act:
    """Do something with an open episode."""

    number: int
    action: Action


@dataclass(frozen=True, slots=True)
class Close:
    """Close an episode."""

    number: int


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """Call a function of a module with the task and further arguments."""

    function: Callable[..., Any]
    task: Task
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Failure:
    """What a call raised.

    Attributes:
        text: Type and message.
        user_error: The message alone, if it is the user's mistake; None otherwise.
        traceback: For debugging.
    """

    text: str
    user_error: str | None
    traceback: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call returned."""

    value: Any


def scripted_response(task: Task, episode: Episode, policy: str, seed: int) -> str:
    """The response of a scripted policy; the random one draws from the seed alone."""
    if policy == "expert":
        return task.expert_response(episode)
    return task.random_response(episode, random.Random(seed))


@dataclass(frozen=True, slots=True)
class EpisodeExecution:
    """What given responses did.

    Attributes:
        start: The first view; None if the world was not set up.
        steps: What each response did, up to the last one, the episode's end or an error.
        doubts: For each step why the world could not tell (`ReplayStep.doubt`), or None.
        error: Type and message of what the world raised; None otherwise.
    """

    start: View | None
    steps: tuple[Step, ...]
    doubts: tuple[str | None, ...]
    error: str | None


def execute(
    task: Task,
    entry: PanelEntry,
    max_turns: int,
    recorded: Sequence[tuple[str, Mapping[str, Any]]] | None,
    trust: bool = False,
) -> EpisodeExecution:
    """Feed recorded responses to an episode.

    Args:
        task: The task.
        entry: What is played.
        max_turns: Turn limit.
        recorded: Any responses, each with the `Step.info` that was recorded of it; None not to set
            the world up.
        trust: See `tasks.episode.Episode.replay_step`.
    """
    start: View | None = None
    steps: list[Step] = []
    doubts: list[str | None] = []
    error: str | None = None
    episode: Episode | None = None
    try:
        if recorded is not None:
            episode = task.episode(entry, max_turns)
            start = episode.reset()
        for response, info in recorded or ():
            assert episode is not None
            step, doubt = _redo(episode, response, info, trust)
            steps.append(step)
            doubts.append(doubt)
            if step.outcome is not None:
                break
    except (Exception, SystemExit) as raised:
        # As in play: whatever a response makes a world do is a result.
        error = f"{type(raised).__name__}: {raised}"
    finally:
        if episode is not None:
            _close(episode)
    return EpisodeExecution(start, tuple(steps), tuple(doubts), error)


def _redo(episode: Episode, response: str, info: Mapping[str, Any], trust: bool) -> ReplayStep:
    """As in play, a transient error is retried."""
    try:
        return episode.replay_step(response, info, trust)
    except TransientError as error:
        log.info("another attempt: %s", error)
        return episode.replay_step(response, info, trust)


def _close(episode: Episode) -> None:
    """Close an episode; that it cannot be closed does not undo what was played."""
    try:
        episode.close()
    except (Exception, SystemExit):
        log.exception("an episode could not be closed")


class Worker:
    """Holds tasks and episodes and carries out calls."""

    def __init__(self) -> None:
        self._episodes: dict[int, tuple[Task, Episode]] = {}

    def answer(self, frame: bytes) -> bytes:
        """Carry out a call; whatever goes wrong is an answer, too."""
        try:
            return pickle.dumps(Answer(self._carry_out(pickle.loads(frame))))  # noqa: S301
        except (Exception, SystemExit) as error:
            text = f"{type(error).__name__}: {error}"
            mistake = str(error) if isinstance(error, UserError) else None
            return pickle.dumps(Failure(text, mistake, traceback.format_exc()))

    def close(self) -> None:
        """Close all episodes."""
        for _, episode in self._episodes.values():
            _close(episode)

    def _carry_out(self, call: Open | Act | Close | FunctionCall) -> Any:
        match call:
            case Act(number, action):
                return self._act(number, action)
            case Open(number, task, entry, max_turns, past):
                self._episodes[number] = task, task.episode(entry, max_turns)
                for action in past:
                    self._act(number, action)
            case Close(number):
                # An episode that could not be opened is closed, too.
                if number in self._episodes:
                    self._episodes.pop(number)[1].close()
            case FunctionCall(function, task, arguments):
                return function(task, *arguments)
        return None

    def _act(self, number: int, action: Action) -> Any:
        task, episode = self._episodes[number]
        verb, arguments = action
        if verb == "scripted":
            return scripted_response(task, episode, *arguments)
        return episode.step(*arguments) if verb == "step" else episode.reset()


def main(descriptor: int, parent: int) -> None:
    """Serve calls until the other side is gone.

    Args:
        descriptor: The worker's end of the pair of sockets.
        parent: Process that holds the other end.
    """
    # The other side decides when the work ends. Ctrl-C and a scheduler's SIGTERM may reach all
    # processes of a run; a worker that ended by itself would look like a failure.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    end_with(parent)
    worker = Worker()
    with socket.socket(fileno=descriptor) as connection, connection.makefile("rb") as stream:
        try:
            _send(connection, pickle.dumps(None))
            while (frame := _receive(stream)) is not None:
                _send(connection, worker.answer(frame))
        except (BrokenPipeError, ConnectionResetError):
            pass  # the other side is gone
        finally:
            worker.close()


def end_with(parent: int) -> None:
    """Be killed with the parent, even in the middle of a call that takes for ever."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before this was arranged
        os._exit(0)


def _send(connection: socket.socket, frame: bytes) -> None:
    connection.sendall(HEADER.pack(len(frame)) + frame)


def _receive(stream: BinaryIO) -> bytes | None:
    """The next frame; None at the end."""
    header = stream.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    (length,) = HEADER.unpack(header)
    frame = stream.read(length)
    return frame if len(frame) == length else None
