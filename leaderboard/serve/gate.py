"""What Gradio and its settings leave open, closed: paths, bodies, slow senders.

Each rule is here because Gradio without it lets something through that the page does not need
(`tests/leaderboard/serve/test_gate.py` shows each of them on Gradio alone):

- A body of any size is read into memory, and one that never ends is waited for.
- An upload of an empty file writes a file, whatever `max_file_size` says.
- A value that names a file of this machine is copied into the cache, from where it can be read; one
  that names a file on another server is downloaded, whole.
- uvicorn waits forever for the rest of a request's head.

Everything else that this page must not do, Gradio's settings forbid (`leaderboard.serve.server`).
"""

import asyncio
from typing import Annotated, Any, Final

from fastapi import Response
from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_BODY: Final = 2**16
"""Bytes of a request's body: the controls of a tab, or the query of a link."""
BODY_S: Final = 10.0
"""Seconds for a body to arrive."""
HEAD_S: Final = 10.0
"""Seconds for a request's head to arrive."""
EVENTS: Final = "/gradio_api/run/predict"
OPEN: Final = (
    "/assets/", "/static/", "/gradio_api/heartbeat/", "/gradio_api/app_id", "/theme.css",
    "/favicon.ico", "/manifest.json", "/robots.txt", "/config", "/health", "/leaderboard.",
    "/gradio_api/startup-events",
)  # fmt: skip
"""What may be read beside the page itself; a path may go on after these."""
HEADERS: Final = (
    # Gradio's own page has scripts within it, and it and Vega make functions of texts. On the hub
    # Gradio asks the hub about the Space and loads its fonts.
    (
        b"content-security-policy",
        b"default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
        b"style-src 'self' 'unsafe-inline' https://fonts.googleapis.com; img-src 'self' data:; "
        b"font-src 'self' data: https://fonts.gstatic.com; "
        b"connect-src 'self' https://huggingface.co; "
        b"object-src 'none'; base-uri 'self'; form-action 'none'; "
        b"frame-ancestors 'self' https://huggingface.co",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)

_Text = Annotated[str, StringConstraints(max_length=MAX_BODY)]


class _Link(BaseModel):
    """What a link within the page sends."""

    model_config = ConfigDict(extra="forbid", strict=True)
    href: _Text


class _Opened(BaseModel):
    """What a tab sends when it is opened."""

    model_config = ConfigDict(extra="forbid", strict=True)
    value: _Text
    index: int


class Call(BaseModel):
    """An event as the page sends it: texts, and nothing that could name a file.

    Attributes:
        fn_index: Number of the event.
        data: Values of the controls that it reads.
        event_data: The link that was followed, or the tab that was opened.
        session_hash: Which open page asks.
        trigger_id: The component that was used.
    """

    model_config = ConfigDict(extra="forbid", strict=True)
    fn_index: int
    data: list[_Text | bool | list[_Text] | None]
    event_data: _Link | _Opened | None = None
    session_hash: Annotated[str, StringConstraints(max_length=64)]
    trigger_id: int | None = None


class Gate:
    """ASGI middleware: an allowlist of paths, and a schema for the one body that is read.

    Args:
        app: What is behind it.
        body_s: See `BODY_S`.
    """

    def __init__(self, app: ASGIApp, body_s: float = BODY_S) -> None:
        self.app = app
        self.body_s = body_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            # Gradio has no WebSocket; the router declines them.
            await self.app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *HEADERS]
            await send(message)

        path, method = scope["path"], scope["method"]
        if method in ("GET", "HEAD") and (path == "/" or path.startswith(OPEN)):
            await self.app(scope, receive, with_headers)
        elif method == "POST" and path == EVENTS:
            await self._event(scope, receive, with_headers)
        else:
            await Response("not found", 404)(scope, receive, with_headers)

    async def _event(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with asyncio.timeout(self.body_s):
                body = await _body(receive)
        except TimeoutError:
            await _refused(408, "the request took too long")(scope, receive, send)
            return
        if body is None:
            return
        if len(body) > MAX_BODY:
            await _refused(413, f"more than {MAX_BODY} bytes")(scope, receive, send)
            return
        try:
            Call.model_validate_json(body)
        except ValidationError as error:
            where = ".".join(map(str, error.errors()[0]["loc"]))
            said = f"not an event of this page: {ascii(where)[:60]}"
            await Response(said, 400)(scope, receive, send)
            return
        content: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def given() -> Message:
            return content.pop() if content else await receive()

        await self.app(scope, given, send)


async def _body(receive: Receive) -> bytes | None:
    """A request's body, or a little more than `MAX_BODY` of it; None if the sender has left."""
    body, more = b"", True
    while more and len(body) <= MAX_BODY:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        # What the headers say about its length need not be true.
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


def _refused(status: int, why: str) -> Response:
    # The rest of what is being sent is not read.
    return Response(why, status, headers={"connection": "close"})


class HeadTimeoutProtocol(H11Protocol):
    """uvicorn's HTTP, for which a connection has a time in which to send a whole head."""

    head_s = HEAD_S

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A visitor has connected."""
        super().connection_made(transport)
        self.loop.call_later(self.head_s, self._look, None)

    def _look(self, before: Any) -> None:
        """Close the connection if no request has come whole since the last look."""
        if self.transport.is_closing():
            return
        # Without a request yet it is None, which uvicorn's types do not say.
        cycle: Any = self.cycle
        if cycle is before and (cycle is None or cycle.response_complete):
            self.transport.close()
            return
        self.loop.call_later(self.head_s, self._look, cycle)
