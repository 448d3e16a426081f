"""Serves the page read-only, with nothing of Gradio open except what the page uses.

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
"""Maximum number of characters of an unknown field to repeat."""
MAX_NAMES: Final = 10
"""Maximum number of unknown fields to name."""
SESSIONS: Final = 64
"""Number of visitors for whom Gradio keeps its state, 0.4 MB each. The page does not need it."""


def application(board: Board, submissions: Path) -> FastAPI:
    """Build the application with the page and the other routes.

    Args:
        board: The board to show.
        submissions: Folder of the board's submissions.
    """
    served = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=_few_threads)
    entries = {each.name: len(board.rows(each.name)) for each in board.protocols}

    @served.get("/health")
    async def health() -> JSONResponse:
        # Needs no thread, so it answers even if all are busy.
        return JSONResponse({"status": "ok", "entries": entries})

    @served.get("/leaderboard.csv")
    def table(request: Request) -> Response:
        asked = parsed(str(request.query_params))
        opened = open_query(board, asked)
        unknown = [on_one_line(name, MAX_NAME) for name in asked if name not in (*NAMES, TOO_LONG)]
        said = f"There is no field {', '.join(unknown[:MAX_NAMES])}. " if unknown else ""
        if said := f"{said}{opened.ignored.text}".strip():
            # A program that requests something else must not take this for its answer.
            return Response(f"{said}\n", 400, media_type="text/plain")
        name = {"content-disposition": 'attachment; filename="leaderboard.csv"'}
        return Response(csv(board, opened.state), media_type="text/csv", headers=name)

    @served.get(f"/{JSON}")
    def whole() -> Response:
        # A few megabytes and rarely requested, so it is built every time and not cached.
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
    # The content of a tab is 20 to 200 kB of text.
    served.add_middleware(GZipMiddleware, minimum_size=2000, compresslevel=5)
    return served


def _mount_page(served: FastAPI, board: Board, submissions: Path) -> None:
    """Mount the page, which Gradio draws, at the root, and close the rest of Gradio."""
    demo = build(board, submissions)
    demo.state_session_capacity = SESSIONS
    for event in demo.fns.values():
        # The page's own functions check values against the board. Gradio would check them against
        # the choices of another protocol, in a separate thread each time.
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
    """Limit threads: drawing is pure Python, so more are not faster, and each takes memory."""
    current_default_thread_limiter().total_tokens = THREADS
    yield


def start(
    board: Board,
    submissions: Path,
    host: str = "127.0.0.1",
    port: int = 7860,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve a board until stopped.

    Args:
        board: The board to show.
        submissions: Folder of the board's submissions.
        host: Address to listen on.
        port: Port to listen on; 0 for any free one.
        ready: Called with the page's address once it is available.

    Raises:
        UserError: The port is taken.
    """
    served = application(board, submissions)
    # Everything built so far is permanent, so the garbage collector need not scan it again.
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
    """Configure the server."""
    # Open pages hold a stream each, so a shutdown must not wait for them.
    return uvicorn.Config(
        served, http=HeadTimeoutProtocol, log_level="warning", timeout_graceful_shutdown=2
    )
