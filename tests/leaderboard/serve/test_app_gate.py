"""How many slow calls are answered at once, and the gate before a real server."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import anyio
import httpx
import pytest
import uvicorn
from starlette.types import Message, Receive, Scope, Send

from leaderboard.app import build
from leaderboard.board.board import Board
from leaderboard.serve.calls import EventSchemas
from leaderboard.serve.closed import MAX_ASKING, MAX_BODY, SLOW_AT_ONCE, RequestAllowlist
from leaderboard.serve.server import application
from tests.leaderboard.page_calls import BOARD, CONTROLS, PREDICT, SLOW, call, one_entry


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Board:
    return one_entry(tmp_path_factory.mktemp("gate"))


@pytest.fixture(scope="module")
def calls(board: Board) -> EventSchemas:
    return EventSchemas.of(build(board, Path("nowhere")))


async def ask(closed: RequestAllowlist, body: dict[str, Any]) -> tuple[int, bytes]:
    """One call; its status and what was answered."""
    content = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]
    sent: list[Message] = []

    async def receive() -> Message:
        return content.pop()

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": PREDICT, "headers": []}
    await closed(scope, receive, send)
    return sent[0]["status"], sent[1]["body"]


async def until(true: Callable[[], bool]) -> None:
    with anyio.fail_after(20):
        while not true():
            await asyncio.sleep(0.001)


def test_few_slow_calls_run_some_wait_and_the_others_are_declined(calls: EventSchemas) -> None:
    slow = call(SLOW, [], event_data={"href": ""})
    inside: list[int] = []
    most = 0

    async def main() -> None:
        go = asyncio.Event()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            nonlocal most
            number = json.loads((await receive())["body"])["fn_index"]
            if number == SLOW:
                inside.append(number)
                most = max(most, len(inside))
                await go.wait()
                inside.pop()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"shown"})

        closed = RequestAllowlist(app, calls)
        asked = [asyncio.create_task(ask(closed, slow)) for _ in range(MAX_ASKING)]
        await until(lambda: len(inside) == SLOW_AT_ONCE)
        for _ in range(3):
            status, body = await ask(closed, slow)
            assert status == 503 and "again in a few seconds" in json.loads(body)["error"]
        assert await ask(closed, call(BOARD, CONTROLS)) == (200, b"shown")
        go.set()
        assert set(await asyncio.gather(*asked)) == {(200, b"shown")}
        assert await ask(closed, slow) == (200, b"shown")

    anyio.run(main)
    assert most == SLOW_AT_ONCE


def test_who_receives_slowly_holds_up_nobody(calls: EventSchemas) -> None:
    slow = call(SLOW, [], event_data={"href": ""})

    async def main() -> None:
        go, drawn = asyncio.Event(), 0

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            nonlocal drawn
            drawn += 1
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await go.wait()
            await send({"type": "http.response.body", "body": b"shown"})

        closed = RequestAllowlist(app, calls)
        asked = [asyncio.create_task(ask(closed, slow)) for _ in range(2 * MAX_ASKING)]
        await until(lambda: drawn == 2 * MAX_ASKING)
        go.set()
        assert set(await asyncio.gather(*asked)) == {(200, b"shown")}

    anyio.run(main)


def test_a_slow_call_that_fails_leaves_its_place(calls: EventSchemas) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise RuntimeError("nothing")

    async def main() -> None:
        closed = RequestAllowlist(app, calls)
        for _ in range(MAX_ASKING + 1):
            status, _ = await ask(closed, call(SLOW, [], event_data={"href": ""}))
            assert status == 500

    anyio.run(main)


Http = Literal["h11", "httptools"]


@pytest.fixture(scope="module", params=["h11", "httptools"])
def port(request: pytest.FixtureRequest, board: Board) -> Iterator[int]:
    """The page behind a real server, whichever reader of HTTP is installed beside it."""
    http: Http = request.param
    pytest.importorskip(http, reason=f"{http} is not installed")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        settings = uvicorn.Config(
            application(board, Path("nowhere")),
            http=http,
            log_level="warning",
            timeout_graceful_shutdown=1,
        )
        server = uvicorn.Server(settings)
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        deadline = time.monotonic() + 30
        while not server.started and time.monotonic() < deadline:
            time.sleep(0.01)
        yield listening.getsockname()[1]
        server.should_exit = True
        thread.join()


def head(method: str, *headers: str) -> bytes:
    return "\r\n".join([f"{method} HTTP/1.1", "Host: page", *headers, "", ""]).encode()


@pytest.mark.parametrize(
    "headers", [["Transfer-Encoding: chunked"], ["Transfer-Encoding: chunked", "Content-Length: 9"]]
)
def test_a_body_without_end_is_cut(port: int, headers: list[str]) -> None:
    part = b"10000\r\n" + b" " * 2**16 + b"\r\n"
    sent, status = 0, b""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as visitor:
        visitor.sendall(head(f"POST {PREDICT}", *headers))
        # The server reads no more of it; what it has said may be lost with the connection.
        with suppress(OSError):
            for _ in range(1_000):
                visitor.sendall(part)
                sent += len(part)
        with suppress(OSError):
            status = visitor.recv(12)
    assert status in (b"", b"HTTP/1.1 413", b"HTTP/1.1 400")
    assert sent < 2**25


def test_a_short_chunked_call_is_answered(port: int) -> None:
    body = json.dumps(call(BOARD, CONTROLS)).encode()
    answer = httpx.post(f"http://127.0.0.1:{port}{PREDICT}", content=iter([body[:9], body[9:]]))
    assert answer.status_code == 200 and answer.json()["data"]
    long = httpx.post(f"http://127.0.0.1:{port}{PREDICT}", content=b" " * (MAX_BODY + 1))
    assert long.status_code == 413


def test_a_websocket_gets_an_answer(port: int) -> None:
    upgrade = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
    with socket.create_connection(("127.0.0.1", port), timeout=20) as visitor:
        key = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="
        visitor.sendall(head("GET /", *upgrade, key))
        assert visitor.recv(12) == b"HTTP/1.1 403"
