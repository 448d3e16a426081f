"""Size-limited HTTP exchanges and their errors.

Messages of `RetryableError` contain no address, because they end up in published records.
"""

import json
import math
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp
from yarl import URL

MAX_BODY = 16 * 2**20
"""Maximum response body in bytes: about 100,000 tokens with their details."""
MAX_MESSAGE = 400


class RetryableError(Exception):
    """An attempt failed, but another attempt may succeed.

    Attributes:
        retry_after: Seconds that the server asks to wait; None if it does not say.
        busy: The server works but is overloaded.
    """

    def __init__(self, cause: str, retry_after: float | None = None, busy: bool = False) -> None:
        super().__init__(cause)
        self.retry_after = retry_after
        self.busy = busy


class BodyTooLong(Exception):
    """The response body is longer than `MAX_BODY`."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A completely read HTTP response.

    Attributes:
        status: HTTP status.
        body: At most `MAX_BODY` bytes.
        retry_after: Seconds in the `Retry-After` header; None without a valid one.
        location: The `Location` header of a redirect; empty without one.
    """

    status: int
    body: bytes
    retry_after: float | None = None
    location: str = ""

    def json(self) -> Any:
        """Parse the body.

        Raises:
            RetryableError: It is not JSON.
        """
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            raise RetryableError(f"HTTP {self.status} with a body that is not JSON") from None

    def message(self) -> str:
        """The server's error message, as one short line."""
        try:
            value = json.loads(self.body)
        except (ValueError, RecursionError):
            value = self.body[: 4 * MAX_MESSAGE].decode("utf-8", "replace")
        if isinstance(value, dict):
            error = value.get("error", value.get("message", value.get("detail", "")))
            value = error.get("message", "") if isinstance(error, dict) else error
        if isinstance(value, dict | list):
            # Deeply nested JSON cannot be converted to text.
            value = self.body[: 4 * MAX_MESSAGE].decode("utf-8", "replace")
        text = "".join(c if c.isprintable() else " " for c in str(value)[: 4 * MAX_MESSAGE])
        return " ".join(text.split())[:MAX_MESSAGE]


def parse_retry_after(value: str | None, now: float) -> float | None:
    """Seconds to wait from a `Retry-After` header (RFC 9110, 10.2.3); None if it is invalid.

    Args:
        value: The header: seconds, or an HTTP date.
        now: Seconds since the epoch.
    """
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - now
        except (ValueError, TypeError, OverflowError):
            return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None


async def exchange(
    session: aiohttp.ClientSession,
    method: str,
    url: URL,
    headers: Mapping[str, str],
    body: bytes | None = None,
    limit: float | None = None,
) -> Reply:
    """Send a request and read its answer.

    Args:
        session: The HTTP session.
        method: HTTP method.
        url: Target URL.
        headers: Headers of the request.
        body: Body of the request; None for none.
        limit: Timeout in seconds; None for the session's.

    Raises:
        RetryableError: No answer came.
        BodyTooLong: The answer is longer than `MAX_BODY`.
    """
    limits = session.timeout if limit is None else aiohttp.ClientTimeout(total=limit)
    try:
        # Redirects would send the key to a server that the user did not name.
        async with session.request(
            method,
            url,
            data=body,
            headers=headers,
            allow_redirects=False,
            timeout=limits,
        ) as response:
            retry_after = response.headers.get("Retry-After")
            return Reply(
                response.status,
                await _read_bounded(response),
                parse_retry_after(retry_after, time.time()) if retry_after else None,
                response.headers.get("Location", "") if 300 <= response.status < 400 else "",
            )
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise RetryableError(_cause(error, limits.total)) from error


async def _read_bounded(response: aiohttp.ClientResponse) -> bytes:
    if (response.content_length or 0) > MAX_BODY:
        raise BodyTooLong
    chunks: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > MAX_BODY:
            raise BodyTooLong
        chunks.append(chunk)
    return b"".join(chunks)


def _cause(error: Exception, total: float | None) -> str:
    """Describe a connection error, since aiohttp's own messages contain the address."""
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return "connection timed out"
    if isinstance(error, TimeoutError):
        return f"no answer within {total:g} s" if total else "no response in time"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "unknown host name"
    if isinstance(error, aiohttp.ClientSSLError):
        return "TLS error: " + type(error).__name__
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno
        return os.strerror(number).lower() if number else "no connection"
    if isinstance(
        error, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError | ConnectionError
    ):
        return "the server closed the connection"
    return f"invalid HTTP response ({type(error).__name__})"
