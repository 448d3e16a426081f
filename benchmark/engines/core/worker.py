"""In-process engines: a worker thread between the event loop and the model.

The event loop renders prompts and waits for futures; the thread loads the model and advances all
running requests together. They communicate through one queue in and `call_soon_threadsafe` out, so
the event loop is never blocked and a dead thread leaves no request waiting. New weights come
through the same queue and are loaded between two steps.
"""

import asyncio
import logging
import math
import queue
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from benchmark.engines.core.base import (
    PLAIN_CHAT,
    ChatOptions,
    Engine,
    EngineDown,
    EngineError,
    EngineNotStarted,
    Generation,
    PromptTooLong,
    Request,
    checked_version,
)
from benchmark.engines.core.chat import Chat
from benchmark.engines.core.lock_step import LockStep, Turn
from benchmark.engines.core.tickets import (
    Completion,
    EngineJob,
    Result,
    Ticket,
    deliver,
    fail_future,
    finish_future,
)
from benchmark.engines.core.vision import PromptImages
from tasks.chat.messages import Message
from tasks.errors import UserError
from tasks.texts import first_line

if TYPE_CHECKING:
    import torch

BATCH_WAIT_S = 0.002
"""Seconds that an idle worker waits for one more request before it starts."""

SETTLE_ROUNDS = 3
"""Event loop rounds for answers to reach their clients, with a margin: one is enough."""
HELLO = Message(role="user", content="Hi")
"""Rendered at startup to find out how the chat template ends a prompt."""
SETTLE_SECONDS = 1.0
"""Interval at which a worker that waits for the loop checks whether to stop."""

log = logging.getLogger(__name__)


T = TypeVar("T")


class WorkerEngine(Engine):
    """An engine with a model in this process; subclasses implement loading and stepping.

    `_load`, `_advance`, `_replace_weights`, `_checksums` and `_unload` run only in the worker
    thread.

    Args:
        deterministic: Batches depend only on the requests: between two steps the worker waits
            until every client (`Engine.client`) has sent a request or left. A run then repeats bit
            for bit if the machine's arithmetic does, but model and environments no longer run
            concurrently.
        chat: Chat options of later requests.
    """

    def __init__(self, deterministic: bool = False, chat: ChatOptions = PLAIN_CHAT) -> None:
        self._deterministic = deterministic
        self._steps = LockStep()
        self._asked = self._taken = 0
        self._inbox: queue.SimpleQueue[Ticket | EngineJob | None] = queue.SimpleQueue()
        self._waiting: set[asyncio.Future[Any]] = set()
        self._cause: BaseException | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._chat: Chat | None = None
        self._context = 0
        self._vocabulary: int | None = None  # number of token ids of the model, if known
        self._chat_options = chat
        self._opened = ""

    @abstractmethod
    def _load(self) -> tuple[Chat, int]:
        """Load the model; return its chat and its context length in tokens.

        Raises:
            UserError: The model cannot be used as it is.
        """

    @abstractmethod
    def _advance(self, arrived: list[Ticket]) -> list[Result]:
        """Admit new requests and advance all running ones by a step.

        Returns:
            Results of the requests that ended in this step.
        """

    @abstractmethod
    def _busy(self) -> bool:
        """Whether a request is running or queued inside."""

    @abstractmethod
    def _replace_weights(self, weights: "Sequence[tuple[str, torch.Tensor]]", version: int) -> None:
        """Load new weights and drop everything computed from the old ones.

        Raises:
            UserError: They do not fit; nothing was changed. Any other exception stops the engine.
        """

    @abstractmethod
    def _checksums(self) -> Mapping[str, str]:
        """SHA-256 of every tensor of the model; see `Engine.weight_checksums`."""

    def _unload(self) -> None:
        """Free the model's resources."""

    async def __aenter__(self) -> Self:
        """Start the thread and wait until the model is loaded.

        Raises:
            UserError: The model cannot be used as it is.
            EngineNotStarted: Loading failed for another reason.
        """
        self._loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = self._loop.create_future()
        self._thread = threading.Thread(
            target=self._run, args=(ready,), name=f"engine {self.name}", daemon=True
        )
        self._thread.start()
        try:
            await ready
        except asyncio.CancelledError:
            self._stopping.set()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop the thread after its current step; waiting requests get `EngineDown`."""
        self._stopping.set()
        self._inbox.put(None)
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)
        self._fail(EngineDown("the engine was stopped"))

    async def generate(self, request: Request) -> Generation:
        """Answer one request; see `Engine.generate`."""
        loop, chat = self._ready()
        if request.chat.extra_body:
            raise UserError(f"--extra-body goes to servers; the {self.name} engine takes none")
        variables = request.chat.template_kwargs
        prompt_images: PromptImages | None = None
        if request.prompt_ids is not None:
            prompt_ids = list(request.prompt_ids)
            vocabulary = len(chat.tokenizer)
            if not prompt_ids or not all(0 <= token < vocabulary for token in prompt_ids):
                raise EngineError(
                    f"token prompts hold ids from 0 to {vocabulary - 1}, at least one"
                )
        elif (past := request.previous) is not None:
            assert past.prompt_ids is not None and past.response_ids is not None
            prompt_ids = chat.continue_conversation(
                past.prompt_ids, past.response_ids, request.messages, variables
            )
        else:
            prompt_ids, prompt_images = chat.read(request.messages, variables)
        if self._vocabulary is not None and (largest := max(prompt_ids)) >= self._vocabulary:
            raise UserError(
                f"the tokenizer gives a token the id {largest}, but the model has embeddings for "
                f"ids below {self._vocabulary}: add them (resize_token_embeddings), or use the "
                "tokenizer that the model was trained with"
            )
        room = self._context - len(prompt_ids)
        if room < 1:
            raise PromptTooLong(len(prompt_ids), self._context)
        future: asyncio.Future[Completion] = loop.create_future()
        max_tokens = min(request.sampling.max_tokens, room)
        self._asked += 1
        self._send(
            Ticket(prompt_ids, request.sampling, max_tokens, request.seed, future, prompt_images)
        )
        with self._steps.request(self):
            completion = await future
        log_prob = sum(completion.log_probs)
        if not math.isfinite(log_prob):
            # Not this request's fault: all episodes of such a model are meaningless.
            raise UserError(
                "the model's logits are not finite: its weights hold NaN or infinity, or numbers "
                "overflow in their type; check the weights, or choose a wider type (--dtype)"
            )
        return Generation(
            text=chat.response(prompt_ids, completion.response_ids),
            finish_reason="stop" if completion.stopped else "length",
            prompt_tokens=len(prompt_ids),
            response_tokens=len(completion.response_ids),
            log_prob=log_prob,
            prompt_ids=tuple(prompt_ids),
            response_ids=completion.response_ids,
            token_log_probs=completion.log_probs,
            weights_versions=completion.weights_versions,
        )

    async def prompt_text(self, request: Request, generation: Generation) -> str | None:
        """The prompt's text; see `Engine.prompt_text`."""
        _, chat = self._ready()
        assert generation.prompt_ids is not None
        return chat.prompt_text(generation.prompt_ids)

    def client(self) -> AbstractContextManager[None]:
        """A client that a deterministic worker waits for; see `Engine.client`."""
        return self._steps.client()

    def step_with(self, other: Engine) -> None:
        """Take steps together with another deterministic engine; see `Engine.step_with`."""
        if not self._deterministic:
            return
        if not isinstance(other, WorkerEngine) or not other._deterministic:
            raise TypeError("a deterministic engine can only step with another one")
        self._steps = other._steps

    async def load_weights(
        self, weights: "Iterable[tuple[str, torch.Tensor]]", version: int
    ) -> None:
        """Replace the model's weights between two steps; see `Engine.load_weights`."""
        given, number = tuple(weights), checked_version(version)
        await self._between_steps(partial(self._replace_weights, given, number))

    async def weight_checksums(self) -> Mapping[str, str]:
        """SHA-256 of every tensor as the engine holds it; see `Engine.weight_checksums`."""
        return await self._between_steps(self._checksums)

    async def _between_steps(self, work: Callable[[], T]) -> T:
        """Run work in the worker thread between two steps; its `UserError`s are raised here."""
        loop, _ = self._ready()
        future: asyncio.Future[T] = loop.create_future()
        self._send(EngineJob(work, future))
        return await future

    def _opening(self) -> dict[str, str]:
        """The fact that the chat template opens a reasoning block, if it does."""
        return {"opened": self._opened} if self._opened else {}

    def _ready(self) -> tuple[asyncio.AbstractEventLoop, Chat]:
        if self._cause is not None:
            raise self._down(self._cause)
        if self._loop is None or self._chat is None:
            raise RuntimeError("the engine was not started: use `async with`")
        return self._loop, self._chat

    def _send(self, item: Ticket | EngineJob) -> None:
        self._waiting.add(item.future)
        item.future.add_done_callback(self._waiting.discard)
        self._inbox.put(item)

    def _run(self, ready: "asyncio.Future[None]") -> None:
        try:
            self._chat, self._context = self._load()
            hello = self._chat.render([HELLO], self._chat_options.template_kwargs)
            self._opened = self._chat.opened(hello).strip()
        except BaseException as error:
            if not isinstance(error, UserError):
                log.debug("traceback of the engine's start", exc_info=True)
                down = EngineNotStarted(self._text("did not start", error))
                down.__cause__ = error
                error = down
            self._post(fail_future, ready, error)
            return
        self._post(finish_future, ready, None)
        try:
            while not self._stopping.is_set():
                arrived, job = self._collect()
                if job is not None:
                    self._do(job)
                results = self._advance(arrived) if arrived or self._busy() else []
                if results:
                    self._post(deliver, results)
        except BaseException as error:
            log.debug("traceback of the engine's thread", exc_info=True)
            self._post(self._fail, error)
        finally:
            self._unload()

    def _do(self, job: EngineJob) -> None:
        if job.future.done():  # nothing waits for it any more
            return
        try:
            result = job.work()
        except UserError as error:
            self._post(fail_future, job.future, error)
        else:
            self._post(finish_future, job.future, result)

    def _collect(self) -> tuple[list[Ticket], EngineJob | None]:
        """Collect new requests, up to the next job.

        An idle worker waits for the first request, and then briefly for more.
        """
        if self._deterministic:
            return self._collect_asked()
        arrived: list[Ticket] = []
        idle = not self._busy()
        timeout: float | None = None
        while not self._stopping.is_set():
            try:
                item = self._inbox.get(timeout=timeout) if idle else self._inbox.get_nowait()
            except queue.Empty:
                break
            timeout = BATCH_WAIT_S
            if isinstance(item, EngineJob):
                return arrived, item
            if item is not None:
                arrived.append(item)
        return arrived, None

    def _collect_asked(self) -> tuple[list[Ticket], EngineJob | None]:
        """Like `_collect`, but wait for all requests before this step, sorted by seed."""
        arrived: list[Ticket] = []
        job: EngineJob | None = None
        if not self._busy():
            first = self._inbox.get()
            if first is None or isinstance(first, EngineJob):
                return [], first
            arrived.append(first)
        asked = self._settle()
        while self._taken + len(arrived) < asked and job is None:
            item = self._inbox.get()
            if isinstance(item, EngineJob):
                job = item
            elif item is not None:
                arrived.append(item)
        self._taken += len(arrived)
        return sorted(arrived, key=lambda ticket: ticket.seed), job

    def _settle(self) -> int:
        """Wait until answers have reached their clients, and then for the next turn.

        Returns:
            Number of requests since the engine's start that belong to this or earlier steps.
        """
        turn = Turn(lambda: self._asked)

        def go_round(left: int) -> None:
            assert self._loop is not None
            if left:
                self._loop.call_soon(go_round, left - 1)
            else:
                self._steps.ready(self, turn)

        self._post(go_round, SETTLE_ROUNDS)
        while (asked := turn.wait(SETTLE_SECONDS)) is None:
            if self._stopping.is_set():
                return 0
        return asked

    def _post(self, function: Callable[..., object], *args: object) -> None:
        """Run a function in the event loop's thread."""
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            # The loop was closed without leaving the context, so nothing waits for this.
            log.debug("the event loop is closed")
            self._stopping.set()

    def _fail(self, error: BaseException) -> None:
        """Refuse all further requests and fail waiting ones. Runs in the event loop."""
        self._cause = self._cause or error
        for future in list(self._waiting):
            fail_future(future, self._down(self._cause))

    def _down(self, cause: BaseException) -> EngineDown:
        if isinstance(cause, EngineDown):
            return EngineDown(*cause.args)
        down = EngineDown(self._text("died", cause))
        down.__cause__ = cause
        return down

    def _text(self, what: str, cause: BaseException) -> str:
        return f"the {self.name} engine {what}: {type(cause).__name__}: {first_line(cause)}"
