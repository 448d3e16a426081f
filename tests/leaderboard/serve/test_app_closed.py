"""What stands before the page's server: which calls pass, and what becomes of all others."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from anyio.to_thread import current_default_thread_limiter
from fastapi import FastAPI
from fastapi.testclient import TestClient
from gradio.routes import App
from starlette.websockets import WebSocketDisconnect

from leaderboard.app import build
from leaderboard.board.board import Board
from leaderboard.serve.calls import SESSION, BadRequest, EventSchemas
from leaderboard.serve.closed import MAX_BODY
from leaderboard.serve.server import THREADS, application
from tests.leaderboard.page_calls import (
    BOARD,
    CONTROLS,
    LINK,
    LOAD,
    PREDICT,
    SLOW,
    call,
    one_entry,
)


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Board:
    return one_entry(tmp_path_factory.mktemp("closed"))


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where gradio puts files."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADIO_TEMP_DIR", str(folder))
        yield folder


@pytest.fixture(scope="module")
def served(board: Board, cache: Path) -> FastAPI:
    return application(board, Path("nowhere"))


@pytest.fixture(scope="module")
def client(served: FastAPI) -> TestClient:
    return TestClient(served, raise_server_exceptions=False)


@pytest.fixture(scope="module")
def calls(board: Board) -> EventSchemas:
    return EventSchemas.of(build(board, Path("nowhere")))


def inner(served: FastAPI) -> App:
    """Gradio's own application, with nothing before it."""
    (found,) = [app for each in served.routes if isinstance(app := vars(each).get("app"), App)]
    return found


def with_value(place: int, value: Any) -> dict[str, Any]:
    return call(BOARD, [*CONTROLS[:place], value, *CONTROLS[place + 1 :]])


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def file_data(path: str) -> dict[str, Any]:
    return {"path": path, "meta": {"_type": "gradio.FileData"}}


def test_the_events_of_the_page_pass(client: TestClient) -> None:
    answer = client.post(PREDICT, json=call(BOARD, CONTROLS))
    assert answer.status_code == 200 and "1 entry, sorted by mean success" in answer.text
    link = {"href": "?tab=entry&entry=nobody"}
    said = client.post(PREDICT, json=call(LINK, ["v1"], event_data=link)).text
    assert "not on this board: entry nobody" in said
    assert client.post(PREDICT, json=call(LOAD, ["v1"], event_data=None)).status_code == 200
    slow = call(SLOW, [], event_data={"href": "?tab=entry&entry=20260101_good"})
    assert "Episodes" in client.post(PREDICT, json=slow).text


def test_values_that_a_control_does_not_offer_are_passed_over(
    client: TestClient, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    usual = client.post(PREDICT, json=call(BOARD, CONTROLS)).json()["data"]
    for place in (1, 3, 8, 11):
        answer = client.post(PREDICT, json=with_value(place, "nothing"))
        assert (answer.status_code, answer.json()["data"]) == (200, usual)
    assert client.post(PREDICT, json=with_value(4, ["nothing"])).json()["data"] == usual
    assert capfd.readouterr().err == "" and caplog.records == []


def test_nothing_is_kept_of_a_visitor(client: TestClient, served: FastAPI) -> None:
    for number in range(20):
        body = call(BOARD, CONTROLS) | {"session_hash": f"visitor-{number}"}
        assert client.post(PREDICT, json=body).status_code == 200
    assert list(inner(served).state_holder.session_data) == [SESSION]


def deep(levels: int) -> str:
    return f'{{"fn_index": 0, "data": {"[" * levels}{"]" * levels}}}'


BAD: dict[str, tuple[str | bytes, str]] = {
    "no JSON": ("{", "must be JSON"),
    "no UTF-8": (b'{"fn_index": 0, "data": ["\xff"]}', "must be JSON"),
    "nothing": ("", "must be JSON"),
    "no object": ("[]", "must be an object"),
    "deep": (deep(30_000), "must be JSON"),
    "not so deep": (deep(100), "a list of 12 values"),
    "a long number": ('{"fn_index": ' + "9" * 10_000 + ', "data": []}', "must be JSON"),
    "no event": (json.dumps(call(99, [])), "fn_index"),
    "no number": (json.dumps(call(True, ["v1"])), "fn_index"),
    "an event by name": ('{"fn_index": {"a": 1}, "data": []}', "fn_index"),
    "no data": ('{"fn_index": 0}', "a list of 12 values"),
    "too few": (json.dumps(call(BOARD, CONTROLS[:-1])), "a list of 12 values"),
    "too many": (json.dumps(call(LOAD, ["v1", "v1"])), "a list of 1 values"),
    "a further field": (json.dumps(call(BOARD, CONTROLS, batched=True)), "'batched'"),
    "an event id": (json.dumps(call(BOARD, CONTROLS, event_id="a")), "'event_id'"),
    "a number": (json.dumps(with_value(1, 1)), r"data[1] must be a text"),
    "an object": (json.dumps(with_value(1, {"value": "x"})), r"data[1] must be a text"),
    "a list for one": (json.dumps(with_value(1, ["x"])), r"data[1] must be a text"),
    "a list of words": (json.dumps(with_value(2, ["x"])), r"data[2] must be a text"),
    "one for a list": (json.dumps(with_value(4, "x")), r"data[4] must be a list of texts"),
    "a list of lists": (json.dumps(with_value(4, [["x"]])), r"data[4] must be a list of texts"),
    "a list of numbers": (json.dumps(with_value(9, [1])), r"data[9] must be a list of texts"),
    "a text for a flag": (json.dumps(with_value(10, "x")), r"data[10] must be true or false"),
    "half a character": (json.dumps(with_value(2, "\ud800")), "surrogate"),
    "half of one listed": (json.dumps(with_value(9, ["\udfff"])), "surrogate"),
    "half of one linked": (
        json.dumps(call(LINK, ["v1"], event_data={"href": "\ud800"})), "surrogate",
    ),
    "no link": (json.dumps(call(LINK, ["v1"])), "event_data"),
    "a list for a link": (json.dumps(call(SLOW, [], event_data=["href"])), "event_data"),
    "an object for a link": (
        json.dumps(call(SLOW, [], event_data={"href": {"path": "/"}})), "event_data",
    ),
    "more than a link": (
        json.dumps(call(SLOW, [], event_data={"href": "?", "path": "/"})), "event_data",
    ),
    "a link of a control": (json.dumps(with_value(1, "x") | {"event_data": {}}), "event_data"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_other_calls_are_refused_in_a_line(
    client: TestClient,
    name: str,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    body, said = BAD[name]
    answer = client.post(PREDICT, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert said in answer.text and len(answer.text.splitlines()) == 1
    assert capfd.readouterr().err == "" and caplog.records == []


@pytest.mark.parametrize("place", range(len(CONTROLS)))
def test_no_file_is_read(client: TestClient, cache: Path, tmp_path: Path, place: int) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("mine", "utf-8")
    data = file_data(str(secret))
    for value in (data, [data], {"value": data}, [[data]]):
        assert client.post(PREDICT, json=with_value(place, value)).status_code == 400
    named = call(SLOW, [], event_data=data)
    assert client.post(PREDICT, json=named).status_code == 400
    assert files(cache) == []


def test_a_file_is_closed_behind_the_gate_too(
    served: FastAPI, cache: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("mine", "utf-8")
    behind = TestClient(inner(served), raise_server_exceptions=False)
    body = with_value(2, file_data(str(secret)))
    assert behind.post(PREDICT, json=body).status_code == 500
    assert files(cache) == []
    assert "Traceback" not in capfd.readouterr().err


def test_no_address_is_fetched(client: TestClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.settimeout(0.3)
        url = f"http://127.0.0.1:{other.getsockname()[1]}/secret"
        for data in (file_data(url), {**file_data("x"), "url": url}):
            assert client.post(PREDICT, json=with_value(2, data)).status_code == 400
        with pytest.raises(TimeoutError):
            other.accept()


def test_a_body_is_measured_and_not_its_header(client: TestClient) -> None:
    body = json.dumps(call(BOARD, CONTROLS)).encode()
    padded = body + b" " * (MAX_BODY - len(body))
    assert client.post(PREDICT, content=padded).status_code == 200
    assert client.post(PREDICT, content=padded + b" ").status_code == 413
    assert client.post(PREDICT, content=iter([body])).status_code == 200
    assert client.post(PREDICT, content=iter([padded, b" "])).status_code == 413


def test_an_unknown_component_is_said_at_the_start(board: Board) -> None:
    demo = build(board, Path("nowhere"))
    demo.fns[BOARD].inputs = [*demo.fns[BOARD].inputs, demo.fns[BOARD].outputs[0]]
    with pytest.raises(TypeError, match="what a HTML sends is not known"):
        EventSchemas.of(demo)


def test_what_passes_is_made_anew(calls: EventSchemas) -> None:
    found = calls.checked(json.dumps(call(LINK, [None], event_data={"href": "?a"})).encode())
    assert json.loads(found.body) == {
        "fn_index": LINK, "data": [None], "session_hash": SESSION, "event_data": {"href": "?a"},
    }  # fmt: skip
    assert not found.slow
    assert calls.checked(json.dumps(call(SLOW, [], event_data={"href": ""})).encode()).slow
    with pytest.raises(BadRequest, match="unknown field"):
        calls.checked(b'{"\\ud800": 1}')


def test_a_websocket_is_declined(client: TestClient) -> None:
    for path in ("/", "/gradio_api/queue/join"):
        with pytest.raises(WebSocketDisconnect) as refused, client.websocket_connect(path):
            pass
        assert refused.value.code == 1008


def test_what_fails_is_one_line_in_the_log(
    board: Board,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("first line\nsecond line")

    own = TestClient(application(board, Path("nowhere")), raise_server_exceptions=False)
    monkeypatch.setattr("leaderboard.app.opened", fail)
    monkeypatch.setattr("leaderboard.serve.server.csv", fail)
    answers = [own.post(PREDICT, json=call(LOAD, ["v1"])), own.get("/leaderboard.csv")]
    for answer in answers:
        assert answer.status_code == 500 and "line" not in answer.text
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2
    assert all("RuntimeError: first line\\nsecond line (test_app_closed.py:" in one for one in said)
    assert all(len(one.splitlines()) == 1 for one in said)
    assert "Traceback" not in capfd.readouterr().err


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
