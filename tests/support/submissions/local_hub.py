"""A web server on the loopback interface that gives prepared answers and stores requests."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True, slots=True)
class Asked:
    """A request.

    Attributes:
        method: Such as `GET`.
        path: Path including the query.
        headers: Headers by lowercase name.
        body: Body of the request.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Reply:
    """A response."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class LocalServer:
    """A running server.

    Attributes:
        answer: Returns the response to a request.
        port: Port on 127.0.0.1.
        asked: All requests, in order.
    """

    answer: Callable[[Asked], Reply]
    port: int = 0
    asked: list[Asked] = field(default_factory=list)

    @property
    def url(self) -> str:
        """URL without a trailing slash."""
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def serving(answer: Callable[[Asked], Reply]) -> Iterator[LocalServer]:
    """Run a server until the block ends."""
    server = LocalServer(answer)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _reply(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = Asked(self.command, self.path, headers, self.rfile.read(length))
            server.asked.append(asked)
            reply = server.answer(asked)
            self.send_response(reply.status)
            for name, value in {"Content-Length": str(len(reply.body)), **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            try:
                self.wfile.write(reply.body)
            except ConnectionError:
                self.close_connection = True  # the client has disconnected

        do_GET = do_POST = do_PATCH = _reply

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.daemon_threads = True
        server.port = running.server_address[1]
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            running.shutdown()
            thread.join()
