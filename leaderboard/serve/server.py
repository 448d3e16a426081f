"""Serves the page: reading only, with nothing of Gradio open but what the page itself uses.

GET /                   the page; its query is the view
GET /leaderboard.csv    the table of a view, with the same query
GET /leaderboard.json   the whole board
GET /leaderboard.png    the picture that other sites show
GET /health             what is served, for those who watch whether it is
"""

import gc
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import gradio as gr
import uvicorn
from anyio.to_thread import current_default_thread_limiter
from fastapi import FastAPI, Request, Response
from fastapi.middleware.gzip import GZipMiddleware
from fastapi.responses import FileResponse, JSONResponse

from leaderboard.app import build
from leaderboard.board.board import Board
from leaderboard.board.file import JSON, json_bytes
from leaderboard.page.header import header
from leaderboard.page.query import TOO_LONG, open_query, parsed
from leaderboard.page.state import NAMES
from leaderboard.serve.gate import Gate, HeadTimeoutProtocol
from leaderboard.serve.shell import Shell
from leaderboard.tabs.answer import answer, summary
from leaderboard.tabs.board import csv
from tasks.errors import UserError
from tasks.texts import on_one_line

ASSETS: Final = Path(__file__).parents[1] / "assets"
THREADS: Final = 8
MAX_NAME: Final = 60
"""Characters of an unknown field that are repeated."""
MAX_NAMES: Final = 10
"""Unknown fields that are named."""
SESSIONS: Final = 64
"""Visitors of whom Gradio keeps its state, 0.4 MB each. The page needs none of it."""


def application(board: Board, submissions: Path) -> FastAPI:
    """The page and what is beside it, as an application for a server.

    Args:
        board: What is shown.
        submissions: Where the folders of its entries are.
    """
    served = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=_few_threads)
    entries = {each.name: len(board.rows(each.name)) for each in board.protocols}

    @served.get("/health")
    async def health() -> JSONResponse:
        # Needs no thread: it answers however many are busy.
        return JSONResponse({"status": "ok", "entries": entries})

    @served.get("/leaderboard.csv")
    def table(request: Request) -> Response:
        asked = parsed(str(request.query_params))
        opened = open_query(board, asked)
        unknown = [on_one_line(name, MAX_NAME) for name in asked if name not in (*NAMES, TOO_LONG)]
        said = f"There is no field {', '.join(unknown[:MAX_NAMES])}. " if unknown else ""
        if said := f"{said}{opened.ignored.text}".strip():
            # A program that asks for something else must not take this for an answer.
            return Response(f"{said}\n", 400, media_type="text/plain")
        name = {"content-disposition": 'attachment; filename="leaderboard.csv"'}
        return Response(csv(board, opened.state), media_type="text/csv", headers=name)

    @served.get(f"/{JSON}")
    def whole() -> Response:
        # A few megabytes and seldom asked for: made each time, and kept by nobody.
        return Response(json_bytes(board.content), media_type="application/json")

    @served.get("/leaderboard.png")
    def picture() -> FileResponse:
        return FileResponse(ASSETS / "share.png")

    _mount_page(served, board, submissions)
    first = open_query(board, {}).state
    served.add_middleware(
        Shell,
        header=header(board),
        answer=summary(board, first) + answer(board, first),
        style=(ASSETS / "style.css").read_text("utf-8"),
    )
    served.add_middleware(Gate)
    # What a tab shows is 20 to 200 kB of text.
    served.add_middleware(GZipMiddleware, minimum_size=2000, compresslevel=5)
    return served


def _mount_page(served: FastAPI, board: Board, submissions: Path) -> None:
    """Put the page, which Gradio draws, at the root, with nothing else of Gradio open."""
    demo = build(board, submissions)
    demo.state_session_capacity = SESSIONS
    for event in demo.fns.values():
        # Values are checked against the board by the page's own functions. Gradio would check them
        # against the choices of another protocol, in a thread each.
        event.preprocess = False
        event.postprocess = False
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
        favicon_path=str(ASSETS / "favicon.svg"),
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


@asynccontextmanager
async def _few_threads(_: FastAPI) -> AsyncIterator[None]:
    """Drawing is Python alone: more threads are not faster, and each has memory of its own."""
    current_default_thread_limiter().total_tokens = THREADS
    yield


def start(
    board: Board,
    submissions: Path,
    host: str = "127.0.0.1",
    port: int = 7860,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve a board until somebody ends it.

    Args:
        board: What is shown.
        submissions: Where the folders of its entries are.
        host: Address to listen at.
        port: Port to listen at; 0 for any that is free.
        ready: Told the page's address once it can be opened.

    Raises:
        UserError: The port is taken.
    """
    served = application(board, submissions)
    # What was built so far stays to the end: the collector need not look at it again.
    gc.freeze()
    try:
        listening = socket.create_server((host, port))
    except (OSError, OverflowError) as error:
        raise UserError(
            f"cannot listen at {host}, port {port}: {error}; choose another with --port"
        ) from error
    with listening:
        if ready is not None:
            ready(f"http://{host}:{listening.getsockname()[1]}/")
        uvicorn.Server(settings(served)).run([listening])


def settings(served: FastAPI) -> uvicorn.Config:
    """How the application is served."""
    # Pages that are open hold a stream each: they are not waited for at the end.
    return uvicorn.Config(
        served, http=HeadTimeoutProtocol, log_level="warning", timeout_graceful_shutdown=2
    )
