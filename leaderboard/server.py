"""Serves the page: reading only, with nothing of gradio open but what the page itself uses.

GET /                   the page; its query is the view
GET /leaderboard.csv    the table of a view, with the same query
GET /health             what is served, for those who watch whether it is
"""

import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import gradio as gr
import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from leaderboard.app import build
from leaderboard.data import Board
from leaderboard.links import open_query, parsed
from leaderboard.tabs.board import csv
from tasks.errors import UserError

Key = tuple[tuple[bytes, bytes], ...]

ASSETS: Final = Path(__file__).parent / "assets"
MAX_BODY: Final = 2**16
"""Bytes of a request: a query, or the controls of a tab."""
MAX_PAGES: Final = 8
"""Addresses for which the page is kept; whoever invents more makes it anew each time."""
_GET: Final = (
    "/assets/", "/static/", "/gradio_api/heartbeat/", "/gradio_api/app_id", "/theme.css",
    "/favicon.ico", "/manifest.json", "/robots.txt", "/config", "/health", "/leaderboard.csv",
)  # fmt: skip
_ASKED: Final = (b"host", b"x-forwarded-host", b"x-forwarded-proto", b"accept-encoding")
"""Headers that the page may depend on: by which address it was asked for, and how it is packed."""
_POST: Final = ("/gradio_api/run/predict",)
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


def application(board: Board, submissions: Path) -> FastAPI:
    """The page and what is beside it, as an application for a server.

    Args:
        board: What is shown.
        submissions: Where the folders of its entries are.
    """
    served = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

    @served.get("/health")
    def health() -> JSONResponse:
        entries = {each.name: len(board.rows(each.name)) for each in board.protocols}
        return JSONResponse({"status": "ok", "entries": entries})

    @served.get("/leaderboard.csv")
    def table(request: Request) -> Response:
        state = open_query(board, parsed(str(request.query_params))).state
        name = {"content-disposition": 'attachment; filename="leaderboard.csv"'}
        return Response(csv(board, state), media_type="text/csv", headers=name)

    demo = build(board, submissions)
    # A session holds nothing but which tab was opened; few of them are kept.
    demo.state_session_capacity = 1_000
    gr.mount_gradio_app(
        served,
        demo,
        path="/",
        theme=gr.themes.Base(
            primary_hue="blue",
            neutral_hue="slate",
            font=["system-ui", "Segoe UI", "Roboto", "Liberation Sans", "sans-serif"],
            font_mono=["ui-monospace", "Liberation Mono", "monospace"],
            text_size="md",
            radius_size="sm",
        ),
        css_paths=[ASSETS / "style.css"],
        head=f"<script>{(ASSETS / 'page.js').read_text('utf-8')}</script>",
        footer_links=[],
        run_history=False,
        show_error=False,
        ssr_mode=False,
        mcp_server=False,
        pwa=False,
        enable_monitoring=False,
        max_file_size=0,
    )
    served.add_middleware(Closed)
    return served


class Closed:
    """Lets pass what the page needs, and nothing else: no upload, no files, no other programs.

    The page itself is the same for everybody who comes by the same address, whatever the query: its
    own event reads that. So it is made once for an address, and kept.

    Args:
        app: What is behind it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._pages: dict[Key, list[Message]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        if not _open(scope):
            await Response("not found", 404)(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        if scope["path"] == "/" and scope["method"] == "GET":
            await self._page(scope, receive, with_headers)
        else:
            await self.app(scope, receive, with_headers)

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


def _open(scope: Scope) -> bool:
    path: str = scope["path"]
    if scope["method"] in ("GET", "HEAD"):
        return path == "/" or path.startswith(_GET)
    if scope["method"] == "POST" and path.rstrip("/") in _POST:
        length = dict(scope["headers"]).get(b"content-length", b"")
        return length.isdigit() and int(length) <= MAX_BODY
    return False


def serve(
    served: FastAPI, host: str, port: int, ready: Callable[[str], None] | None = None
) -> None:
    """Serve an application until somebody ends it.

    Args:
        served: Of `application`.
        host: Address to listen at.
        port: Port to listen at; 0 for any that is free.
        ready: Told the page's address once it can be opened.

    Raises:
        UserError: The port is taken.
    """
    try:
        listening = socket.create_server((host, port))
    except (OSError, OverflowError) as error:
        raise UserError(
            f"cannot listen at {host}, port {port}: {error}; choose another with --port"
        ) from error
    with listening:
        if ready is not None:
            ready(f"http://{host}:{listening.getsockname()[1]}/")
        # Pages that are open hold a stream each: they are not waited for at the end.
        settings = uvicorn.Config(served, log_level="warning", timeout_graceful_shutdown=2)
        uvicorn.Server(settings).run([listening])
