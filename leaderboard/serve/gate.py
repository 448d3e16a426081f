"""Closes what Gradio and its settings leave open: paths, bodies, slow senders.

Each rule is here because Gradio alone accepts something that the page does not need
(`tests/leaderboard/serve/test_gate.py` demonstrates each of them on Gradio alone):

- A body of any size is read into memory, and one that never ends is waited for.
- An upload of an empty file writes a file, whatever `max_file_size` says.
- A value that names a file of this machine is copied into the cache, from where it can be read; one
  that names a file on another server is downloaded, whole.
- uvicorn waits forever for the rest of a request's head.

Gradio's settings forbid everything else that the page must not do (`leaderboard.serve.server`).
"""

import asyncio
from typing import Annotated, Any, Final

from fastapi import Response
from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_BODY: Final = 2**16
"""Maximum size of a request's body in bytes: the controls of a tab, or the query of a link."""
BODY_S: Final = 10.0
"""Seconds for a body to arrive."""
HEAD_S: Final = 10.0
"""Seconds for a request's headers to arrive."""
EVENTS: Final = "/gradio_api/run/predict"
OPEN: Final = (
    "/assets/", "/static/", "/gradio_api/heartbeat/", "/gradio_api/app_id", "/theme.css",
    "/favicon.ico", "/manifest.json", "/robots.txt", "/config", "/health", "/leaderboard.",
    "/gradio_api/startup-events",
)  # fmt: skip
"""Paths and path prefixes that may be read, besides the page itself."""
HEADERS: Final = (
    # Gradio's page contains inline scripts, and Gradio and Vega compile functions from strings. On
    # the hub, Gradio also requests information about the Space and loads its fonts from there.
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
    """The data of a link within the page."""

    model_config = ConfigDict(extra="forbid", strict=True)
    href: _Text


class _Opened(BaseModel):
    """The data of a tab that was opened."""

    model_config = ConfigDict(extra="forbid", strict=True)
    value: _Text
    index: int


class Call(BaseModel):
    """An event as the page sends it: only texts, nothing that could name a file.

    Attributes:
        fn_index: Number of the event.
        data: Values of the controls that it reads.
        event_data: The link that was followed, or the tab that was opened.
        session_hash: Id of the open page.
        trigger_id: The component that was used.
    """

    model_config = ConfigDict(extra="forbid", strict=True)
    fn_index: int
    data: list[_Text | bool | list[_Text] | None]
    event_data: _Link | _Opened | None = None
    session_hash: Annotated[str, StringConstraints(max_length=64)]
    trigger_id: int | None = None


class Gate:
    """ASGI middleware: an allowlist of paths, and a schema for the only accepted body.

    Args:
        app: The application behind it.
        body_s: See `BODY_S`.
    """

    def __init__(self, app: ASGIApp, body_s: float = BODY_S) -> None:
        self.app = app
        self.body_s = body_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            # Gradio has no WebSocket; the router rejects them.
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
    """Read a request's body, to slightly more than `MAX_BODY`; None if the sender disconnected."""
    body, more = b"", True
    while more and len(body) <= MAX_BODY:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        # The length in the headers may be wrong.
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


def _refused(status: int, why: str) -> Response:
    # The rest of the request is not read.
    return Response(why, status, headers={"connection": "close"})


class HeadTimeoutProtocol(H11Protocol):
    """uvicorn's HTTP protocol, with a time limit for a request's headers."""

    head_s = HEAD_S

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer of a new connection."""
        super().connection_made(transport)
        self.loop.call_later(self.head_s, self._look, None)

    def _look(self, before: Any) -> None:
        """Close the connection if no complete request has arrived since the last check."""
        if self.transport.is_closing():
            return
        # None before the first request, although uvicorn's types do not say so.
        cycle: Any = self.cycle
        if cycle is before and (cycle is None or cycle.response_complete):
            self.transport.close()
            return
        self.loop.call_later(self.head_s, self._look, cycle)
