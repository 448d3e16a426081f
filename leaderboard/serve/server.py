"""Serves the page: reading only, with nothing of gradio open but what the page itself uses.

GET /                   the page; its query is the view
GET /leaderboard.csv    the table of a view, with the same query
GET /health             what is served, for those who watch whether it is
"""

import logging
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import gradio as gr
import uvicorn
from anyio.to_thread import current_default_thread_limiter
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from leaderboard.app import build
from leaderboard.board.board import Board
from leaderboard.page.links import open_query, parsed
from leaderboard.serve.calls import EventSchemas
from leaderboard.serve.closed import RequestAllowlist, in_a_line
from leaderboard.tabs.board import csv
from tasks.errors import UserError

LOG: Final = logging.getLogger(__name__)
ASSETS: Final = Path(__file__).parents[1] / "assets"
THREADS: Final = 8


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
        state = open_query(board, parsed(str(request.query_params))).state
        name = {"content-disposition": 'attachment; filename="leaderboard.csv"'}
        return Response(csv(board, state), media_type="text/csv", headers=name)

    demo = build(board, submissions)
    _plain(demo)
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
    served.add_middleware(RequestAllowlist, calls=EventSchemas.of(demo))
    return served


def _plain(demo: gr.Blocks) -> None:
    """Leave out what gradio does for pages of other kinds."""
    # A page that is part of a server does not count as launched, and then no file is closed.
    demo.has_launched = True
    for event in demo.fns.values():
        # Values are checked against the board by the page's own functions. Gradio would hold them
        # against choices that are those of another protocol, in threads of their own each.
        event.preprocess = False
        event.postprocess = False
    process = demo.process_api

    async def process_api(*arguments: Any, **named: Any) -> dict[str, Any]:
        try:
            return await process(*arguments, **named)
        except Exception as error:
            # Otherwise each writes its whole traceback.
            LOG.error("an event failed: %s", in_a_line(error))
            raise gr.Error("The page could not show this.", print_exception=False) from error

    vars(demo)["process_api"] = process_api


@asynccontextmanager
async def _few_threads(_: FastAPI) -> AsyncIterator[None]:
    """Drawing is Python alone: more threads are no faster, and each has memory of its own."""
    current_default_thread_limiter().total_tokens = THREADS
    yield


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
