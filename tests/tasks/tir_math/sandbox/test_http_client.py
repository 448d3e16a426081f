"""The client of sandbox servers, with a small server that actually runs programs."""

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tasks.errors import UserError
from tasks.tir_math.sandbox.base import Execution, Limits, SandboxError
from tasks.tir_math.sandbox.choose import open_sandbox
from tasks.tir_math.sandbox.http_client import HttpSandbox

LIMITS = Limits(cpu_s=2)


class Server(ThreadingHTTPServer):
    """Runs programs, with requests in one dialect, unless told to misbehave.

    Attributes:
        dialect: `fusion` or `plain`.
        misdeeds: How to misbehave in the next requests.
        requests: Bodies of the requests.
        headers: Their headers.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.dialect = "fusion"
        self.misdeeds: list[Any] = []
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.released = threading.Event()

    def url(self, credentials: str = "") -> str:
        return f"http://{credentials}127.0.0.1:{self.server_address[1]}/run_code?a=b"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *arguments: Any) -> None:
        """Log nothing."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(body)
        self.server.headers.append(dict(self.headers))
        self.server.paths.append(self.path)
        if self.server.misdeeds:
            self.server.misdeeds.pop(0)(self)
            return
        self.say(json.dumps(self.run(body)).encode())

    def run(self, body: dict[str, Any]) -> dict[str, Any]:
        assert body["language"] == "python"
        fusion = self.server.dialect == "fusion"
        # Seconds of processor time, so that a busy machine decides nothing.
        limited = ("/bin/sh", "-c", 'ulimit -t "$0"; exec "$@"', str(int(body["run_timeout"])))
        done = subprocess.run(
            [*limited, sys.executable, "-c", body["code"]],
            input=body["stdin"].encode(),
            capture_output=True,
            check=False,
        )
        if done.returncode in (-signal.SIGKILL, -signal.SIGXCPU):
            result: dict[str, Any] = {"stdout": done.stdout.decode(), "stderr": ""}
            if fusion:
                result = {**result, "status": "TimeLimitExceeded", "return_code": None}
            return {"status": "Failed" if fusion else "timeout", "run_result": result}
        result = {
            "stdout": done.stdout.decode("utf-8", "surrogateescape"),
            "stderr": done.stderr.decode(),
        }
        if fusion:
            result |= {"status": "Finished", "return_code": done.returncode, "execution_time": 0.1}
            status = "Success" if done.returncode == 0 else "Failed"
            return {"status": status, "message": "", "compile_result": None, "run_result": result}
        return {
            "status": "success" if done.returncode == 0 else "runtime_error",
            "run_result": result,
        }

    def say(self, body: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as one:
        thread = threading.Thread(target=one.serve_forever, args=(0.02,))
        thread.start()
        yield one
        one.released.set()
        one.shutdown()
        thread.join()


def opened(server: Server, credentials: str = "", margin_s: float = 120.0) -> HttpSandbox:
    return HttpSandbox(server.url(credentials), LIMITS, margin_s=margin_s, pause_s=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("dialect", ["fusion", "plain"])
def test_programs_are_run(server: Server, dialect: str) -> None:
    server.dialect = dialect
    with opened(server) as sandbox:
        assert sandbox.run("print(1+1)") == Execution("ok", "2\n", "")
        code = "from __future__ import annotations\nfinal_answer(3)"
        assert sandbox.run(code) == Execution("ok", "\\boxed{3}\n", "")
        failed = sandbox.run("print('a')\n1/0")
        assert (failed.status, failed.stdout) == ("error", "a\n")
        assert failed.stderr.splitlines()[-1] == "ZeroDivisionError: division by zero"
        assert sandbox.run("raise MemoryError").status == "memory limit"
        assert sandbox.run("print('x' * 10**6)") == Execution("output limit", "x" * 65536, "")
        assert sandbox.run("x = 'a\0b\ud800'").status == "error"
        late = sandbox.run("print('begin', flush=True)\nwhile True: pass")
        assert late == Execution("time limit", "begin\n", "")
        odd = sandbox.run("import sys; sys.stdout.buffer.write(b'a\\xffb')")
        assert (odd.status, odd.stdout) == ("ok", "a?b")
    assert set(server.paths) == {"/run_code?a=b"}
    request = {name: value for name, value in server.requests[-1].items() if name != "code"}
    expected = {"stdin": "", "language": "python", "compile_timeout": 2.0, "run_timeout": 2.0}
    assert request == expected


def test_a_killed_program_is_told_from_one_that_fails(server: Server) -> None:
    with opened(server) as sandbox:
        assert sandbox.run("import os; os.abort()").status == "killed"
        assert sandbox.run("import os; os._exit(5)").status == "error"


def test_it_describes_the_server_and_not_its_address(server: Server) -> None:
    with opened(server, "user:pass%20word@") as sandbox:
        described = sandbox.describe()
    assert described["kind"] == "http"
    assert described["python"] == f"{sys.version_info.major}.{sys.version_info.minor}"
    assert set(described) == {"kind", "python", "numpy", "sympy", "mpmath", "limits"}
    assert not any("127.0.0.1" in value or "pass" in value for value in described.values())
    assert server.headers[0]["Authorization"] == "Basic dXNlcjpwYXNzIHdvcmQ="


def hangs(handler: Handler) -> None:
    handler.server.released.wait(60)


def drips(handler: Handler) -> None:
    """Answer endlessly slowly, in steps that are each within the time limit."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    while not handler.server.released.wait(0.2):
        try:
            handler.wfile.write(b" ")
        except OSError:
            return


def breaks(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b"{")


def answers(body: bytes, status: int = 200, **headers: str) -> Any:
    return lambda handler: handler.say(body, status, **headers)


def floods(handler: Handler) -> None:
    handler.send_response(200)
    handler.end_headers()
    try:
        for _ in range(1000):
            handler.wfile.write(b"x" * 2**20)
    except OSError:
        return


TROUBLE = json.dumps({"status": "SandboxError", "run_result": None}).encode()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("misdeed", "message"),
    [
        (answers(b"oh", 500), "failed 2 times: it answers with HTTP 500"),
        (answers(b"busy", 429), "failed 2 times: it answers with HTTP 429"),
        (hangs, "failed 2 times: it does not answer in time"),
        (drips, "failed 2 times: it does not answer in time"),
        (breaks, "failed 2 times: the connection fails"),
        (answers(TROUBLE), "failed 2 times: its status is 'SandboxError'"),
    ],
)
def test_trouble_is_met_with_one_more_attempt(server: Server, misdeed: Any, message: str) -> None:
    # Silence is waited for three times, for as long as a program may take and the margin.
    with opened(server, margin_s=1.5 if misdeed in (hangs, drips) else 120.0) as sandbox:
        before = len(server.requests)
        server.misdeeds = [misdeed]
        assert sandbox.run("print(1+1)").stdout == "2\n"
        assert len(server.requests) == before + 2
        server.misdeeds = [misdeed, misdeed]
        begin = time.monotonic()
        with pytest.raises(SandboxError, match=message):
            sandbox.run("print(1+1)")
        assert time.monotonic() - begin < 120
        assert len(server.requests) == before + 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("misdeed", "message"),
    [
        (answers(b"<html>"), "answer is not valid JSON"),
        (answers(b"\xff"), "answer is not valid JSON"),
        (answers(b"[" * 10**6), "answer is not valid JSON|malformed"),
        (answers(b"[]"), "malformed"),
        (answers(b"{}"), "malformed: status: Field required"),
        (answers(b'{"status": "Success", "run_result": {"stdout": 3}}'), "run_result.stdout"),
        (answers(b'{"status": "Success", "run_result": {"return_code": "0"}}'), "return_code"),
        (answers(b"", 302, Location="http://127.0.0.1:1/"), "HTTP 302"),
        (answers(b"", 404), "HTTP 404"),
        (floods, "longer than 8388608 bytes"),
        (answers(b" " * (8 * 2**20 + 1)), "longer than 8388608 bytes"),
    ],
)
def test_nonsense_is_refused_at_once(server: Server, misdeed: Any, message: str) -> None:
    with opened(server) as sandbox:
        before = len(server.requests)
        server.misdeeds = [misdeed]
        with pytest.raises(SandboxError, match=message):
            sandbox.run("print(1+1)")
        assert len(server.requests) == before + 1
        assert sandbox.run("print(1+1)").stdout == "2\n"


def test_an_answer_without_a_return_code_or_output_counts(server: Server) -> None:
    with opened(server) as sandbox:
        server.misdeeds = [answers(b'{"status": "success"}'), answers(b'{"status": "timeout"}')]
        assert sandbox.run("") == Execution("ok", "", "")
        assert sandbox.run("") == Execution("time limit", "", "")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:8080",
        "ftp://localhost/",
        "http://",
        "http://a:b:c/",
        "http://a:99999/",
        "http://a b/",
    ],
)
def test_wrong_addresses_are_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIR_MATH_SANDBOX_URL", url)
    with pytest.raises(UserError, match="TIR_MATH_SANDBOX_URL"):
        open_sandbox("http")


@pytest.mark.slow
def test_credentials_are_in_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    for url in ("http://user:hunter2@127.0.0.1:1/run", "ftp://user:hunter2@host/"):
        monkeypatch.setenv("TIR_MATH_SANDBOX_URL", url)
        with pytest.raises(UserError) as raised:
            open_sandbox("http")
        assert "hunter2" not in str(raised.value)


def test_a_server_that_runs_nothing_is_refused_at_the_start(server: Server) -> None:
    server.misdeeds = [answers(b'{"status": "Success", "run_result": {"stdout": "hello"}}')]
    with pytest.raises(UserError, match="cannot be used: it printed no versions"):
        opened(server)
    server.misdeeds = [answers(b'{"status": "Failed"}')]
    with pytest.raises(UserError, match="that prints versions ended with error"):
        opened(server)


def test_a_closed_sandbox_refuses(server: Server) -> None:
    sandbox = opened(server)
    sandbox.close()
    with pytest.raises(SandboxError, match="closed"):
        sandbox.run("print(1)")
