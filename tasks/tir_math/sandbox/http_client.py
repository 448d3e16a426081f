"""Programs run by a server: a client for the protocol of SandboxFusion and its relatives.

The address stands in the environment variable TIR_MATH_SANDBOX_URL, whole, such as
`http://sandbox:8080/run_code`. What a program may do there is the server's to decide.

A request is `{"code", "stdin", "language", "compile_timeout", "run_timeout"}`; an answer has a
`status` (`Success`, `Failed`, `SandboxError`, or `success`, `runtime_error`, `timeout`) and a
`run_result` with `stdout`, `stderr` and, where the server knows them, `status` and `return_code`.
"""

import base64
import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from urllib.parse import SplitResult, unquote, urlsplit

from pydantic import BaseModel, ConfigDict, ValidationError

from tasks.errors import UserError
from tasks.strict import first_fault
from tasks.tir_math.sandbox.base import LIMITS, Execution, Limits, Sandbox, SandboxError, Status
from tasks.tir_math.sandbox.program import of_exit_code, wrapped

VARIABLE = "TIR_MATH_SANDBOX_URL"
ATTEMPTS = 2
PAUSE_S = 1.0
"""Seconds between attempts."""
MARGIN_S = 20.0
"""Seconds that the server has beside those of the program."""
MOST_BYTES = 8 * 2**20
"""Longest answer that is read."""

_VERSIONS = """\
import json, sys
from importlib.metadata import PackageNotFoundError, version
found = {"python": "%d.%d" % sys.version_info[:2]}
for name in ("numpy", "sympy", "mpmath"):
    try:
        found[name] = version(name)
    except PackageNotFoundError:
        found[name] = "missing"
print(json.dumps(found))
"""


class _Result(BaseModel):
    """Servers add fields of their own."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)
    status: str | None = None
    return_code: int | None = None
    stdout: str | None = None
    stderr: str | None = None


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)
    status: str
    message: str | None = None
    run_result: _Result | None = None


class _Retry(Exception):
    """What may be different the next time."""


class HttpSandbox(Sandbox):
    """Has programs run by a server; nothing is kept between them here.

    Opening it runs one program, which asks for the versions over there.

    Args:
        url: Address of the server.
        limits: Processor time and output count; the others are the server's own.
        margin_s: Seconds that the server has beside those of the program.
        pause_s: Seconds before another attempt.

    Raises:
        UserError: The address is none, or nobody answers there as the protocol says.
    """

    def __init__(
        self,
        url: str,
        limits: Limits = LIMITS,
        margin_s: float = MARGIN_S,
        pause_s: float = PAUSE_S,
    ) -> None:
        self._address, self._headers = _read_url(url)
        self._limits = limits
        self._margin_s = margin_s
        self._pause_s = pause_s
        self._closed = False
        self._versions = self._ask_versions()

    def run(self, code: str, fresh: bool = False) -> Execution:
        """Have a program run; a failed connection is tried again."""
        del fresh  # a server does as it does
        return self._run(wrapped(code))

    def _run(self, source: str) -> Execution:
        if self._closed:
            raise SandboxError("the sandbox is closed")
        body = {
            "code": source,
            "stdin": "",
            "language": "python",
            "compile_timeout": float(self._limits.cpu_s),
            "run_timeout": float(self._limits.cpu_s),
        }
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(self._pause_s * 2 ** (attempt - 1))
            try:
                return self._execution(self._post(json.dumps(body).encode()))
            except _Retry as error:
                reason = str(error)
        raise SandboxError(f"the sandbox server failed {ATTEMPTS} times: {reason}")

    def describe(self) -> Mapping[str, str]:
        """Kind, the server's versions, and the limits that it is asked to keep; no address."""
        limits = f"run {self._limits.cpu_s} s, output {self._limits.output_bytes // 1024} KiB"
        return {"kind": "http", **self._versions, "limits": limits}

    def close(self) -> None:
        """There is nothing to end; programs are not accepted any more."""
        self._closed = True

    def _ask_versions(self) -> dict[str, str]:
        try:
            execution = self._run(_VERSIONS)
            if execution.status != "ok":
                raise SandboxError(f"a program that prints versions ended with {execution.status}")
            found = json.loads(execution.stdout)
            return {name: str(found[name])[:40] for name in ("python", "numpy", "sympy", "mpmath")}
        except (SandboxError, ValueError, KeyError, TypeError) as error:
            reason = str(error) if isinstance(error, SandboxError) else "it printed no versions"
            raise UserError(f"the sandbox server in {VARIABLE} cannot be used: {reason}") from error

    def _post(self, body: bytes) -> bytes:
        """The body of the answer."""
        kind = HTTPSConnection if self._address.scheme == "https" else HTTPConnection
        within_s = self._limits.cpu_s + self._margin_s
        connection = kind(self._address.hostname or "", self._address.port, timeout=within_s)
        late = threading.Event()
        timer: threading.Timer | None = None
        try:
            connection.connect()
            # The connection's own time limit is for every single read: a slow server beats it.
            timer = threading.Timer(within_s, _break, (connection.sock, late))
            timer.start()
            query = f"?{self._address.query}" if self._address.query else ""
            target = f"{self._address.path or '/'}{query}"
            connection.request("POST", target, body, self._headers)
            response = connection.getresponse()
            if response.status >= 500 or response.status == 429:
                raise _Retry(f"it answers with HTTP {response.status}")
            if response.status != 200:
                raise SandboxError(f"the sandbox server answers with HTTP {response.status}")
            body = _read(response)
            if late.is_set():
                raise TimeoutError
            return body
        except (OSError, HTTPException) as error:
            # Not the text of the exception: some repeat what the server sent.
            slow = late.is_set() or isinstance(error, TimeoutError)
            name = type(error).__name__
            raise _Retry(
                "it does not answer in time" if slow else f"the connection fails ({name})"
            ) from None
        finally:
            if timer is not None:
                timer.cancel()
            connection.close()

    def _execution(self, body: bytes) -> Execution:
        try:
            # Halves of surrogate pairs, which programs can print and JSON can hold, are replaced.
            text = json.dumps(json.loads(body), ensure_ascii=False)
            answer = _Answer.model_validate_json(text.encode("utf-8", "replace"))
        except ValidationError as error:
            fault = first_fault(error)
            raise SandboxError(f"the sandbox server's answer is malformed: {fault}") from None
        except (ValueError, RecursionError):
            raise SandboxError("the sandbox server's answer is not valid JSON") from None
        result = answer.run_result or _Result()
        stdout, stdout_over = self._cut(result.stdout)
        stderr, stderr_over = self._cut(result.stderr)
        over = stdout_over or stderr_over
        status: Status = "output limit" if over else _status(answer, result, stderr)
        return Execution(status, stdout, stderr)

    def _cut(self, text: str | None) -> tuple[str, bool]:
        data = (text or "").encode("utf-8", "replace")
        limit = self._limits.output_bytes
        return data[:limit].decode("utf-8", "replace"), len(data) > limit


def _read_url(url: str) -> tuple[SplitResult, dict[str, str]]:
    """The address without credentials, and the headers with them."""
    try:
        address = urlsplit(url)
        well_formed = address.scheme in {"http", "https"} and bool(address.hostname)
        well_formed = well_formed and address.port != 0 and url.isascii() and url.isprintable()
        well_formed = well_formed and " " not in url
    except ValueError:
        well_formed = False
    if not well_formed:
        raise UserError(f"{VARIABLE} must be an address such as http://localhost:8080/run_code")
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    if address.username is not None:
        user = f"{unquote(address.username)}:{unquote(address.password or '')}"
        headers["Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"
    return address, headers


def _break(connection: socket.socket, late: threading.Event) -> None:
    """Make whoever reads from a connection stop."""
    late.set()
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _read(response: HTTPResponse) -> bytes:
    """A body that is not too long."""
    body = response.read(MOST_BYTES + 1)
    if len(body) > MOST_BYTES:
        raise SandboxError(f"the sandbox server's answer is longer than {MOST_BYTES} bytes")
    if response.length:
        raise IncompleteRead(body)
    return body


def _status(answer: _Answer, result: _Result, stderr: str) -> Status:
    status = answer.status.lower()
    if status == "timeout" or (result.status or "").lower() == "timelimitexceeded":
        return "time limit"
    if status not in {"success", "failed", "runtime_error"}:
        raise _Retry(f"its status is {answer.status[:40]!r}")
    code = result.return_code
    if code is None:
        code = 0 if status == "success" else 1
    return of_exit_code(code, stderr) if code >= 0 else "killed"


def from_environment() -> HttpSandbox:
    """The sandbox whose address the environment holds.

    Raises:
        UserError: It holds none, or a wrong one.
    """
    url = os.environ.get(VARIABLE)
    if not url:
        raise UserError(
            f"the sandbox http needs the address of its server; set {VARIABLE}, for example to "
            "http://localhost:8080/run_code"
        )
    return HttpSandbox(url)
