"""Every rule of the gate: Gradio alone lets the attack through, and the gate does not.

`alone` is Gradio with the page's settings and nothing in front of it. If an attack also fails
there, no rule is needed and the gate has none: those tests are below, under "Gradio's own".
"""

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
import uvicorn
from anyio.to_thread import current_default_thread_limiter
from fastapi import FastAPI
from fastapi.testclient import TestClient
from gradio.routes import App
from starlette.websockets import WebSocketDisconnect

from leaderboard.board.board import Board
from leaderboard.serve.gate import MAX_BODY, Gate, HeadTimeoutProtocol
from leaderboard.serve.server import SESSIONS, THREADS, application, settings
from tests.leaderboard.page_calls import (
    BOARD,
    CHOSEN,
    CONTROLS,
    LINK,
    LOAD,
    PREDICT,
    SHOWN,
    SLOW,
    call,
    one_entry,
)

SOON = 0.5
"""Time limit of a half-open request in these tests, in seconds."""


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Board:
    return one_entry(tmp_path_factory.mktemp("gate"))


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Gradio's folder for files."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADIO_TEMP_DIR", str(folder))
        yield folder


@pytest.fixture(scope="module")
def served(board: Board, cache: Path) -> FastAPI:
    return application(board, Path("nowhere"))


@pytest.fixture(scope="module")
def inner(served: FastAPI) -> App:
    """Gradio's own application, with nothing in front of it."""
    (found,) = [app for each in served.routes if isinstance(app := vars(each).get("app"), App)]
    return found


@pytest.fixture(scope="module")
def client(served: FastAPI) -> TestClient:
    return TestClient(served, raise_server_exceptions=False)


@pytest.fixture(scope="module")
def alone(inner: App) -> TestClient:
    return TestClient(inner, raise_server_exceptions=False)


def with_value(place: int, value: Any) -> dict[str, Any]:
    return call(BOARD, [*CONTROLS[:place], value, *CONTROLS[place + 1 :]])


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def file_data(path: str) -> dict[str, Any]:
    return {"path": path, "meta": {"_type": "gradio.FileData"}}


# The gate's rules.


def test_an_upload_of_nothing_writes_a_file(
    alone: TestClient, client: TestClient, cache: Path
) -> None:
    nothing = {"files": ("x.html", b"")}
    assert alone.post("/gradio_api/upload", files=nothing).status_code == 200
    (written,) = files(cache)
    written.unlink()
    assert client.post("/gradio_api/upload", files=nothing).status_code == 404
    assert files(cache) == []


def test_a_value_that_names_a_file_is_copied(
    alone: TestClient, client: TestClient, cache: Path, tmp_path: Path
) -> None:
    # A page mounted on a server does not count as launched, and then Gradio trusts the path.
    secret = tmp_path / "secret.txt"
    secret.write_text("mine", "utf-8")
    body = with_value(2, file_data(str(secret)))
    assert alone.post(PREDICT, json=body).status_code == 200
    (copied,) = files(cache)
    assert copied.read_text("utf-8") == "mine"
    copied.unlink()
    for place in range(len(CONTROLS)):
        for value in (file_data(str(secret)), [file_data(str(secret))]):
            assert client.post(PREDICT, json=with_value(place, value)).status_code == 400
    assert files(cache) == []


def test_a_value_that_names_an_address_is_fetched(
    alone: TestClient, client: TestClient, caplog: pytest.LogCaptureFixture, capfd: Any
) -> None:
    # Gradio fetches only from public addresses; what matters is that it tried.
    body = with_value(2, file_data("http://127.0.0.1:1/secret"))
    assert alone.post(PREDICT, json=body).status_code == 500
    assert "failed validation" in capfd.readouterr().err + caplog.text
    answer = client.post(PREDICT, json=body)
    assert answer.status_code == 400 and "data.2" in answer.text
    assert "failed validation" not in capfd.readouterr().err


def test_a_body_is_read_whole_whatever_its_size(alone: TestClient, client: TestClient) -> None:
    body = json.dumps(call(BOARD, CONTROLS)).encode()
    padded = body + b" " * (MAX_BODY - len(body))
    kind = {"content-type": "application/json"}
    assert alone.post(PREDICT, content=padded + b" " * 2**20, headers=kind).status_code == 200
    assert client.post(PREDICT, content=padded, headers=kind).status_code == 200
    assert client.post(PREDICT, content=padded + b" ", headers=kind).status_code == 413
    # The length in the header does not count, and may be missing.
    assert client.post(PREDICT, content=iter([padded, b" "]), headers=kind).status_code == 413
    assert client.post(PREDICT, content=iter([body[:9], body[9:]]), headers=kind).is_success


BAD: dict[str, tuple[str | bytes, str]] = {
    "no JSON": ("{", ""),
    "no UTF-8": (b'{"fn_index": 0, "data": ["\xff"]}', ""),
    "nothing": ("", ""),
    "no object": ("[]", ""),
    "deep": ('{"fn_index": 0, "data": ' + "[" * 30_000 + "]" * 30_000 + "}", ""),
    "a long number": ('{"fn_index": ' + "9" * 10_000 + ', "data": []}', ""),
    "no number": (json.dumps(call(True, ["v1"])), "fn_index"),
    "no data": ('{"fn_index": 0, "session_hash": "a"}', "data"),
    "a further field": (json.dumps(call(BOARD, CONTROLS, batched=True)), "batched"),
    "an object": (json.dumps(with_value(1, {"value": "x"})), "data.1"),
    "a list of lists": (json.dumps(with_value(4, [["x"]])), "data.4"),
    "a number": (json.dumps(with_value(1, 1)), "data.1"),
    "half a character": (json.dumps(with_value(2, "\ud800")), ""),
    "a list for a link": (json.dumps(call(SLOW, [], event_data=["href"])), "event_data"),
    "more than a link": (
        json.dumps(call(SLOW, [], event_data={"href": "?", "path": "/"})), "_Link.path",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_is_not_an_event_is_refused_in_a_line(client: TestClient, name: str) -> None:
    body, where = BAD[name]
    answer = client.post(PREDICT, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert where in answer.text and len(answer.text.splitlines()) == 1


@pytest.fixture(scope="module")
def ports(served: FastAPI, inner: App) -> Iterator[dict[str, int]]:
    """Real servers: Gradio alone behind plain uvicorn, and the page."""

    class Hasty(HeadTimeoutProtocol):
        head_s = SOON

    own = settings(served)
    own.http, own.app = Hasty, Gate(inner, body_s=SOON)
    kinds = {"alone": uvicorn.Config(inner, http="h11", log_level="warning"), "page": own}
    servers, threads, found = [], [], {}
    with (
        closing(socket.create_server(("127.0.0.1", 0))) as one,
        closing(socket.create_server(("127.0.0.1", 0))) as two,
    ):
        for (name, config), listening in zip(kinds.items(), (one, two), strict=True):
            config.timeout_graceful_shutdown = 1
            server = uvicorn.Server(config)
            thread = threading.Thread(target=server.run, args=([listening],))
            thread.start()
            servers.append(server)
            threads.append(thread)
            found[name] = listening.getsockname()[1]
        deadline = time.monotonic() + 30
        while not all(each.started for each in servers) and time.monotonic() < deadline:
            time.sleep(0.01)
        yield found
        for server, thread in zip(servers, threads, strict=True):
            server.should_exit = True
            thread.join()


HALF = {
    "half a head": b"GET / HTTP/1.1\r\nHost: page\r\n",
    "nothing": b"",
    "half a body": f"POST {PREDICT} HTTP/1.1\r\nHost: page\r\nContent-Length: 9\r\n\r\n{{".encode(),
    "a chunk of many": (
        f"POST {PREDICT} HTTP/1.1\r\nHost: page\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{{\r\n"
    ).encode(),
}


def ends(port: int, sent: bytes, within: float) -> bool:
    """Whether the server closes a connection on which nothing more arrives."""
    with socket.create_connection(("127.0.0.1", port), timeout=within) as visitor:
        visitor.sendall(sent)
        with suppress(ConnectionError):
            try:
                while visitor.recv(4096):
                    pass
            except TimeoutError:
                return False
        return True


@pytest.mark.slow
@pytest.mark.parametrize("name", HALF)
def test_a_half_open_request_ends(ports: dict[str, int], name: str) -> None:
    assert not ends(ports["alone"], HALF[name], within=3 * SOON)
    assert ends(ports["page"], HALF[name], within=20)


@pytest.mark.slow
def test_a_slow_head_ends_though_something_comes(ports: dict[str, int]) -> None:
    with socket.create_connection(("127.0.0.1", ports["page"]), timeout=20) as visitor:
        visitor.sendall(b"GET / HTTP/1.1\r\nHost: page\r\n")
        start = time.monotonic()
        with pytest.raises(ConnectionError):
            while time.monotonic() < start + 20:
                visitor.sendall(b"x-slow: 1\r\n")
                time.sleep(SOON / 10)


def test_a_body_without_end_is_cut(ports: dict[str, int]) -> None:
    part = b"10000\r\n" + b" " * 2**16 + b"\r\n"
    sent = 0
    with socket.create_connection(("127.0.0.1", ports["page"]), timeout=20) as visitor:
        visitor.sendall(
            f"POST {PREDICT} HTTP/1.1\r\nHost: page\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        )
        # The server stops reading; its response may be lost with the connection.
        with suppress(OSError):
            for _ in range(1_000):
                visitor.sendall(part)
                sent += len(part)
    assert sent < 2**25


@pytest.mark.slow
def test_open_pages_and_answers_are_not_cut(ports: dict[str, int]) -> None:
    """The stream of an open page may last longer than the limit for headers."""
    address = f"http://127.0.0.1:{ports['page']}"
    with httpx.stream("GET", f"{address}/gradio_api/heartbeat/a", timeout=20) as stream:
        assert stream.status_code == 200
        time.sleep(4 * SOON)
        assert httpx.post(f"{address}{PREDICT}", json=call(BOARD, CONTROLS)).status_code == 200


# The page itself passes.


@pytest.mark.slow
def test_the_events_of_the_page_pass(client: TestClient) -> None:
    answer = client.post(PREDICT, json=call(BOARD, CONTROLS))
    assert answer.status_code == 200 and "good" in answer.text
    link = {"href": "?tab=entry&entry=nobody"}
    said = client.post(PREDICT, json=call(LINK, CHOSEN, event_data=link)).text
    assert "not on the board: entry nobody" in said
    assert client.post(PREDICT, json=call(LOAD, SHOWN, event_data=None)).status_code == 200
    # Whatever state a browser claims to show.
    for value in (["x"], True, None, "%"):
        odd = call(LINK, ["v1", *[value] * 12], event_data=link)
        assert client.post(PREDICT, json=odd).status_code == 200
    slow = call(SLOW, [], event_data={"href": "?tab=entry&entry=20260101_good"})
    assert "Episodes" in client.post(PREDICT, json=slow).text


def test_values_that_a_control_does_not_offer_change_nothing(client: TestClient) -> None:
    usual = client.post(PREDICT, json=call(BOARD, CONTROLS)).json()["data"]
    for value in ("nothing", ["nothing"], None, [], True):
        for place in (1, 3, 8, 11):
            answer = client.post(PREDICT, json=with_value(place, value))
            assert (answer.status_code, answer.json()["data"]) == (200, usual)


# Gradio's own protection: no rule is needed.


@pytest.mark.slow
def test_gradio_keeps_the_state_of_few_visitors(alone: TestClient, inner: App) -> None:
    for number in range(SESSIONS + 5):
        body = call(BOARD, CONTROLS) | {"session_hash": f"visitor-{number}"}
        assert alone.post(PREDICT, json=body).status_code == 200
    assert len(inner.state_holder.session_data) == SESSIONS


def test_gradio_takes_no_file_with_content_and_asks_no_other_server(alone: TestClient) -> None:
    assert alone.post("/gradio_api/upload", files={"files": ("x", b"1")}).status_code == 413
    assert alone.get("/gradio_api/proxy=https://example.org/").status_code == 400
    assert alone.get("/monitoring").status_code == 403


def test_gradio_declines_a_websocket(alone: TestClient) -> None:
    for path in ("/", "/gradio_api/queue/join"):
        with pytest.raises(WebSocketDisconnect), alone.websocket_connect(path):
            pass


# The server's threads.


def test_health_needs_no_thread(served: FastAPI) -> None:
    async def ask() -> int:
        limiter = current_default_thread_limiter()
        for _ in range(int(limiter.total_tokens)):
            limiter.acquire_on_behalf_of_nowait(object())
        way = httpx.ASGITransport(served)
        async with httpx.AsyncClient(transport=way, base_url="http://page") as visitor:
            with anyio.fail_after(20):
                return (await visitor.get("/health")).status_code

    assert anyio.run(ask) == 200


def test_the_server_has_few_threads(board: Board) -> None:
    with TestClient(application(board, Path("nowhere"))) as own:
        assert own.portal is not None
        assert own.portal.call(lambda: current_default_thread_limiter().total_tokens) == THREADS
