"""Stands before the page's server and lets pass what the page needs, and nothing else."""

import logging
from asyncio import Semaphore
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from traceback import extract_tb
from typing import Final

from fastapi import Response
from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from leaderboard.serve.calls import BadRequest, EventSchemas

Key = tuple[tuple[bytes, bytes], ...]

LOG: Final = logging.getLogger(__name__)
MAX_BODY: Final = 2**16
"""Bytes of a request's body: the controls of a tab, or the query of a link."""
MAX_PAGES: Final = 8
"""Addresses for which the page is kept; whoever invents more rebuilds it each time."""
SLOW_AT_ONCE: Final = 2
MAX_ASKING: Final = 32
"""Slow events that are being answered or wait for it."""
_BUSY: Final = {"error": "too many episodes are being read just now: ask again in a few seconds"}
_GET: Final = (
    "/assets/", "/static/", "/gradio_api/heartbeat/", "/gradio_api/app_id", "/theme.css",
    "/favicon.ico", "/manifest.json", "/robots.txt", "/config", "/health", "/leaderboard.csv",
)  # fmt: skip
_POST: Final = ("/gradio_api/run/predict",)
_ASKED: Final = (b"host", b"x-forwarded-host", b"x-forwarded-proto", b"accept-encoding")
"""Headers that the page may depend on: by which address it was asked for, and how it is packed."""
_OF_BODY: Final = (b"content-length", b"content-type", b"transfer-encoding", b"content-encoding")
_HEADERS: Final = (
    # Gradio's own page has scripts within it, and makes functions of texts.
    (
        b"content-security-policy",
        b"default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
        b"style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; "
        b"object-src 'none'; base-uri 'self'; form-action 'none'; "
        b"frame-ancestors 'self' https://huggingface.co",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)


class RequestAllowlist:
    """Lets pass what the page needs, and nothing else: no upload, no files, no other programs.

    The page itself is the same for everybody who comes by the same address, whatever the query: its
    own event reads that. So it is made once for an address, and kept.

    Args:
        app: What is behind it.
        calls: What its events send.
    """

    def __init__(self, app: ASGIApp, calls: EventSchemas) -> None:
        self.app = app
        self.calls = calls
        self._pages: dict[Key, list[Message]] = {}
        self._asking = 0
        self._turn = Semaphore(SLOW_AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008, "reason": "not open"})
            return
        started = False

        async def with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        try:
            await self._answer(scope, receive, with_headers)
        except Exception as error:
            # Without this the server writes some eighty lines for each.
            LOG.error("%s %s: %s", scope["method"], ascii(scope["path"])[:80], in_a_line(error))
            if not started:
                await Response("the page has failed", 500)(scope, receive, with_headers)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, reading = scope["path"], scope["method"] in ("GET", "HEAD")
        if path == "/" and scope["method"] == "GET":
            await self._page(scope, receive, send)
        elif reading and (path == "/" or path.startswith(_GET)):
            await self.app(scope, receive, send)
        elif scope["method"] == "POST" and path.rstrip("/") in _POST:
            await self._call(scope, receive, send)
        else:
            await Response("not found", 404)(scope, receive, send)

    async def _call(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An event of the page: only what is known of it goes on."""
        body = b""
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            # What the headers say of its length is not to be relied on, nor need they say any.
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > MAX_BODY:
                # What else is being sent is not read.
                close = {"connection": "close"}
                answer = Response(f"more than {MAX_BODY} bytes", 413, headers=close)
                await answer(scope, receive, send)
                return
        try:
            call = self.calls.checked(body)
        except BadRequest as error:
            await Response(str(error), 400)(scope, receive, send)
            return
        headers = [each for each in scope["headers"] if each[0] not in _OF_BODY]
        headers.append((b"content-type", b"application/json"))
        headers.append((b"content-length", str(len(call.body)).encode()))
        content: list[Message] = [{"type": "http.request", "body": call.body, "more_body": False}]

        async def given() -> Message:
            return content.pop() if content else await receive()

        asked = {**scope, "headers": headers}
        await (self._in_turn if call.slow else self.app)(asked, given, send)

    async def _in_turn(self, scope: Scope, receive: Receive, send: Send) -> None:
        """What is slow waits here, where it holds no thread that the others need."""
        if self._asking == MAX_ASKING:
            await JSONResponse(_BUSY, 503, {"retry-after": "5"})(scope, receive, send)
            return
        async with AsyncExitStack() as place:
            self._asking += 1
            place.callback(self._leave)
            await place.enter_async_context(self._turn)

            async def done(message: Message) -> None:
                # How long somebody takes to receive it is nobody else's matter.
                await place.aclose()
                await send(message)

            await self.app(scope, receive, done)

    def _leave(self) -> None:
        self._asking -= 1

    async def _page(self, scope: Scope, receive: Receive, send: Send) -> None:
        key = _key(scope)
        if key not in self._pages:
            messages: list[Message] = []

            async def keep(message: Message) -> None:
                messages.append(message)

            asked = {**scope, "query_string": b"", "headers": list(key), "extensions": {}}
            await self.app(asked, receive, keep)
            if messages[0]["status"] != 200:
                await _sent(messages, send)
                return
            if len(self._pages) >= MAX_PAGES:
                self._pages.pop(next(iter(self._pages)))
            self._pages[key] = messages
        await _sent(self._pages[key], send)


async def _sent(messages: Sequence[Message], send: Send) -> None:
    for message in messages:
        await send(dict(message))


def _key(scope: Scope) -> Key:
    """All that the page can depend on, as headers."""
    found = {name: value for name, value in scope["headers"] if name in _ASKED}
    if b"accept-encoding" in found:
        found[b"accept-encoding"] = b"br" if b"br" in found[b"accept-encoding"] else b"identity"
    return tuple(found.items())


def in_a_line(error: BaseException) -> str:
    """An error for a log: its kind, its message without line breaks, and where it was raised."""
    said = f"{type(error).__name__}: {error}".encode("unicode_escape").decode("ascii")[:300]
    places = extract_tb(error.__traceback__)
    return f"{said} ({Path(places[-1].filename).name}:{places[-1].lineno})" if places else said
