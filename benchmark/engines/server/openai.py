"""OpenAI-compatible servers as an engine: one or many endpoints over HTTP.

The HTTP client is aiohttp, chosen by measurement: with 32 and 128 requests in flight it sent 5 and
24 times the requests per second of httpx, whose CPU time per request was 19 and 36 times as long
(3.3 and 6.2 ms against 0.17 ms; medians of 5 interleaved rounds on a shared 2-core machine,
`python -m tests.benchmarks.scripts.http_client`).

Proxies in the environment are ignored: servers are reached directly at the given address.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import aiohttp

from benchmark.engines.core.base import (
    GREEDY,
    PLAIN_CHAT,
    ChatOptions,
    Engine,
    EngineDown,
    EngineError,
    Generation,
    Request,
    Sampling,
)
from benchmark.engines.core.chat import OPENED, Chat
from benchmark.engines.server.attempt import Attempts, Refused, back_off_seconds, json_body
from benchmark.engines.server.dialect import ENOUGH_TO_ANSWER, Dialect, advice, is_limit_reached
from benchmark.engines.server.endpoint import Endpoint, Served, api_key
from benchmark.engines.server.exchange import BodyTooLong, RetryableError
from benchmark.engines.server.images import FirstImages
from benchmark.engines.server.open_files import allow_sockets
from benchmark.engines.server.pool import Pool
from benchmark.engines.server.vllm_control import VllmControl, all_done
from benchmark.engines.server.weights import ServerWeights
from tasks.chat.messages import images_of, user_message
from tasks.errors import UserError

if TYPE_CHECKING:
    import torch

    from benchmark.engines.server.weight_transfer import WeightTransfer

LARGEST_SEED = 2**63 - 1
"""Turn seeds have 63 bits; servers that accept fewer should fail before the run."""

LONGEST_RETRY_AFTER = 600.0
"""A server that asks to wait longer than this many seconds stops the run."""

HOPELESS = 3
"""Consecutive requests that may run out of attempts, none answered in between, before the run
stops."""

REFUSED = 16
"""Consecutive requests that may be refused, none answered in between, before the run stops. More
than `HOPELESS`: a content filter refuses single prompts, a server without credit refuses all."""

KEEP_ALIVE = 3.0
"""Seconds that an idle connection is kept: less than the 5 s after which vLLM's server closes it,
so that no request hits a closing connection."""

CONNECT_SECONDS = 10.0
"""Timeout for asking a server what it serves."""

CONTROL_SECONDS = 600.0
"""Timeout for server commands between requests, of which loading weights takes longest."""

log = logging.getLogger(__name__)


class OpenAIEngine(Engine):
    """Generates with servers that implement the OpenAI chat completions API.

    Requests to vLLM servers name every setting that the model folder could otherwise change, and
    return token ids and log-probabilities. Other servers get only the standard fields. A request
    with `prompt_ids` uses the completions API, which accepts token ids only on vLLM.

    Args:
        endpoints: Addresses, with or without `/v1`.
        model: The served model's name.
        in_flight: Maximum concurrent requests; further ones wait.
        timeout: Seconds for one attempt, from sending to the end of the answer.
        connect_timeout: Seconds to open a connection; also the timeout of a health check.
        retries: Attempts after the first.
        patience: Seconds to wait while no endpoint is in service before the run stops.
        transfer: How `load_weights` sends weights to the servers, which must be vLLM with
            `VLLM_SERVER_DEV_MODE=1`; None for servers with fixed weights. Servers keep their last
            weights after this engine is left.
        chat: Chat options of later requests, tested at startup.
        sampling: Likewise.
        text: Tokenizer and template of the served model. With it, and vLLM servers, a conversation
            continues from the token ids of its last response (`Request.previous`); without it the
            servers render all of it again.

    Raises:
        UserError: An address is not valid or given twice.
    """

    name = "openai"

    def __init__(
        self,
        endpoints: Sequence[str],
        model: str,
        in_flight: int = 256,
        timeout: float = 600.0,
        connect_timeout: float = CONNECT_SECONDS,
        retries: int = 5,
        patience: float = 30.0,
        transfer: "WeightTransfer | None" = None,
        chat: ChatOptions = PLAIN_CHAT,
        sampling: Sampling = GREEDY,
        text: Chat | None = None,
    ) -> None:
        if not endpoints:
            raise UserError("no server is given; pass its address with --endpoint")
        self._key = api_key()
        pool = [Endpoint(address, self._key) for address in endpoints]
        self._pool = Pool(pool, self._probe, patience)
        self._check_endpoints()
        self._slots = asyncio.Semaphore(in_flight)
        self._in_flight = in_flight
        self._timeout = timeout
        self._connect_timeout = connect_timeout
        self._retries = retries
        self._dialect = Dialect(model)
        self._versions: list[str] = []
        self._session: aiohttp.ClientSession | None = None
        self._ran_out = self._refused = 0
        self._weights = ServerWeights(transfer)
        self._attempts = Attempts(self._dialect, self._weights)
        self._chat = chat
        self._text = text
        self._sampling = replace(sampling, max_tokens=1)
        self._images = FirstImages(self._dialect, self._attempts, self._sampling)

    async def __aenter__(self) -> Self:
        """Check every endpoint, each with a completion of one token.

        Raises:
            UserError: The system allows too few open files; an endpoint cannot be reached, is not
                such an API, refuses the key or the request, lacks the model, differs from the
                others in server or context length, or cannot load weights despite a `transfer`.
        """
        allow_sockets(self._in_flight + len(self._pool.endpoints))
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=self._in_flight + len(self._pool.endpoints), keepalive_timeout=KEEP_ALIVE
            ),
            timeout=aiohttp.ClientTimeout(
                total=self._timeout, connect=None, sock_connect=self._connect_timeout
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        try:
            found = await asyncio.gather(*map(self._first_look, self._pool.endpoints))
            self._check_endpoints()
            self._agree(found)
            await asyncio.gather(*map(self._try_out, self._pool.endpoints))
            await self._weights.first_look(self._controls(), self._dialect.vllm)
        except BaseException:
            await self._session.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close all connections; vLLM ends a generation whose connection is closed."""
        await self._pool.close()
        await self._weights.close()
        await self._http.close()

    async def generate(self, request: Request) -> Generation:
        """Answer one request; attempts that fail temporarily are repeated.

        Raises:
            EngineError: The server refuses the request, the attempts ran out, or the prompt is
                token ids and the server is not vLLM.
            PromptTooLong: The context leaves no room for a response.
            EngineDown: No endpoint answers any more, or every request is refused.
            UserError: The server does not support the sampling settings, or has the weights of
                another training run.
        """
        self._weights.check_usable()
        if images_of(request.messages):
            await self._images.check(self._http, self._pool.endpoints, request)
        continued = self._continued(request)
        prompt_ids = request.prompt_ids if continued is None else continued
        fields = self._dialect.fields(
            request.messages, request.sampling, request.seed, prompt_ids, request.chat
        )
        async with self._slots:
            generation = await self._complete(
                fields, request.seed, request.affinity, request.chat.join_reasoning
            )
        if continued is not None:
            assert self._text is not None and generation.response_ids is not None
            text = self._text.response(continued, generation.response_ids)
            generation = replace(generation, text=text)
        return generation

    def _continued(self, request: Request) -> tuple[int, ...] | None:
        """The prompt that continues the last response, if its token ids are known."""
        past = request.previous
        if self._text is None or past is None or request.prompt_ids is not None:
            return None
        if past.prompt_ids is None or past.response_ids is None:
            return None
        return tuple(
            self._text.continue_conversation(
                past.prompt_ids, past.response_ids, request.messages, request.chat.template_kwargs
            )
        )

    async def prompt_text(self, request: Request, generation: Generation) -> str | None:
        """The prompt's text by vLLM's `/detokenize`; see `Engine.prompt_text`."""
        del request
        if generation.prompt_ids is None:
            return None
        try:
            return await self._detokenized(self._pool.endpoints[0], generation.prompt_ids)
        except (RetryableError, BodyTooLong) as error:
            # The prompt is only for display, and the model has already answered.
            log.debug("a prompt cannot be shown: %r", error)
            return None

    async def load_weights(
        self, weights: "Iterable[tuple[str, torch.Tensor]]", version: int
    ) -> None:
        """Replace the weights of all servers, in or out of service; see `Engine.load_weights`.

        The servers pause meanwhile: requests in flight are frozen, new ones wait. Other clients of
        the same servers are not notified: their `weights_versions` stay, and they may use keys and
        values of the old weights if requests ran during the update.

        Raises:
            UserError: The engine has no transfer, or the weights do not fit; nothing was changed.
            EngineDown: A server did not load them. Servers may now differ: `generate` refuses
                requests until another update has succeeded everywhere.
        """
        await self._weights.load(self._controls(), weights, version)

    async def weight_checksums(self) -> Mapping[str, str]:
        """SHA-256 of every tensor of every server, from vLLM; see `Engine.weight_checksums`."""
        found = await all_done([server.checksums() for server in self._controls()])
        return {f"{n} {name}": one for n, of in enumerate(found) for name, one in of.items()}

    def _controls(self) -> list[VllmControl]:
        return [VllmControl(one, self._http, CONTROL_SECONDS) for one in self._pool.endpoints]

    def describe(self) -> dict[str, Any]:
        """Kind, server, number of endpoints, context length; no (possibly private) addresses."""
        served = self._dialect.served
        opened = self._dialect.opened.strip()
        return {
            "kind": "openai",
            "server": served.server if served else None,
            "server_version": ", ".join(self._versions) or None,
            "endpoints": len(self._pool.endpoints),
            "context": served.context if served else None,
            **({"opened": opened} if opened else {}),
        }

    @property
    def _http(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("the engine must be entered (`async with`) first")
        return self._session

    def _check_endpoints(self) -> None:
        """Refuse duplicate servers, also with and without `/v1` once that is resolved.

        Raises:
            UserError: There is a duplicate.
        """
        labels = [endpoint.label for endpoint in self._pool.endpoints]
        for label in labels:
            if labels.count(label) > 1:
                raise UserError(f"--endpoint {label} is given more than once")

    async def _first_look(self, endpoint: Endpoint) -> Served:
        try:
            return await endpoint.inspect(self._http, self._dialect.model, self._connect_timeout)
        except RetryableError as error:
            raise _no_answer(endpoint, error) from error

    def _agree(self, found: Sequence[Served]) -> None:
        self._dialect.served = found[0]
        self._versions = sorted({one.version for one in found if one.version})
        first = self._pool.endpoints[0].label
        for endpoint, one in zip(self._pool.endpoints, found, strict=True):
            for what, here, there in (
                ("server", one.server, found[0].server),
                ("context length", one.context, found[0].context),
            ):
                if here != there:
                    raise UserError(
                        f"the endpoints differ: {what} {there} at {first}, {here} at "
                        f"{endpoint.label}; give only endpoints that agree"
                    )

    async def _try_out(self, endpoint: Endpoint) -> None:
        """Request one token, so that a server's refusal shows before the run starts."""
        hello = (user_message("Hi"),)
        fields = self._dialect.fields(hello, self._sampling, LARGEST_SEED, chat=self._chat)
        cause = ""
        for attempt in range(self._retries + 1):
            try:
                reply = await self._attempts.send(self._http, endpoint, fields, join_reasoning=True)
                self._dialect.opened = await self._opened(endpoint, reply)
                return
            except RetryableError as error:
                cause = str(error)
                if attempt < self._retries:
                    await self._back_off(error, 0, attempt)
            except (EngineError, EngineDown) as error:
                cause = str(error)
                if is_limit_reached(cause):
                    return
                if not self._dialect.learn_limit(cause):
                    break
                longer = replace(self._sampling, max_tokens=ENOUGH_TO_ANSWER)
                fields = self._dialect.fields(hello, longer, LARGEST_SEED, chat=self._chat)
        raise UserError(
            f"{endpoint.label} does not answer a chat completion request: {cause}{advice(cause)}"
        )

    async def _opened(self, endpoint: Endpoint, answer: Generation) -> str:
        """The `<think>` at the end of a rendered prompt, if the server reveals it."""
        if answer.prompt_ids is None:
            return ""
        text = await self._detokenized(endpoint, answer.prompt_ids)
        found = OPENED.search(text or "")
        return found[0] if found else ""

    async def _detokenized(self, endpoint: Endpoint, ids: Sequence[int]) -> str | None:
        body = json_body({"model": self._dialect.model, "tokens": list(ids)})
        return await endpoint.detokenize(self._http, body)

    async def _probe(self, endpoint: Endpoint) -> None:
        served = await endpoint.inspect(self._http, self._dialect.model, self._connect_timeout)
        known = self._dialect.served
        if known and (served.server, served.context) != (known.server, known.context):
            raise RetryableError("it came back with a different server or context length")
        control = VllmControl(endpoint, self._http, self._timeout)
        await self._weights.verify(control, self._connect_timeout)

    async def _complete(
        self, fields: dict[str, Any], seed: int, affinity: int, join_reasoning: bool
    ) -> Generation:
        failed: Endpoint | None = None
        for attempt in range(self._retries + 1):
            endpoint = await self._pool.choose(affinity, failed)
            try:
                generation = await self._attempts.send(self._http, endpoint, fields, join_reasoning)
            except RetryableError as error:
                log.debug("attempt %d at %s: %s", attempt + 1, endpoint.label, error)
                if not error.busy:
                    self._pool.report(endpoint)
                if attempt == self._retries:
                    raise self._gave_up(error) from error
                failed = endpoint
                await self._back_off(error, seed, attempt)
            except Refused as error:
                self._refused += 1
                if self._refused < REFUSED:
                    raise
                raise EngineDown(
                    f"{REFUSED} requests in a row were refused, the last with: {error}; the "
                    "episodes until now are recorded as errors"
                ) from error
            except EngineError:
                # After an answer or a too long prompt, the server evidently accepts requests.
                self._refused = 0
                raise
            else:
                self._ran_out = self._refused = 0
                return generation
        raise AssertionError("the last attempt returns or raises")

    async def _back_off(self, error: RetryableError, seed: int, attempt: int) -> None:
        wait = error.retry_after or 0.0
        if wait > LONGEST_RETRY_AFTER:
            raise EngineDown(f"the server asks to wait {wait:.0f} s ({error}); resume later")
        await asyncio.sleep(max(wait, back_off_seconds(seed, attempt)))

    def _gave_up(self, error: RetryableError) -> EngineError | EngineDown:
        self._ran_out += 1
        cause = f"gave up after {self._retries + 1} attempts: {error}"
        if self._ran_out < HOPELESS:
            return EngineError(cause)
        return EngineDown(
            f"{cause}; a server that has too much to do needs fewer requests at once "
            "(--concurrency N, or in training --set rollout.concurrency=N)"
        )


async def only_model(address: str) -> str:
    """The name of a server's only model.

    Raises:
        UserError: It serves several or none, cannot be reached, or is not such an API.
    """
    endpoint = Endpoint(address, api_key())
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
        try:
            return (await endpoint.inspect(session, None, CONNECT_SECONDS)).model
        except RetryableError as error:
            raise _no_answer(endpoint, error) from error


def _no_answer(endpoint: Endpoint, error: RetryableError) -> UserError:
    return UserError(
        f"no answer from {endpoint.label}: {error}; check that the address is right "
        "and the server is running"
    )
