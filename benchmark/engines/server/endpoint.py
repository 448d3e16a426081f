"""One OpenAI-compatible endpoint: its address, its models and its routes.

Nothing here puts an API key or a password into a message.
"""

import base64
import difflib
import os
from dataclasses import dataclass
from typing import Any, Literal

import aiohttp
from yarl import URL

from benchmark.engines.server.exchange import BodyTooLong, Reply, RetryableError, exchange
from tasks.errors import UserError

KEY_VARIABLES = ("ARLARENA_API_KEY", "OPENAI_API_KEY")


@dataclass(frozen=True, slots=True)
class Served:
    """An endpoint's facts about a model.

    Attributes:
        model: The model's name.
        server: `vllm`, or `other` for a server that gets only standard fields.
        version: Version of vLLM; None for other servers.
        context: Context length in tokens; None if the server does not report it.
    """

    model: str
    server: Literal["vllm", "other"]
    version: str | None
    context: int | None


def api_key() -> str | None:
    """The API key from the environment; None without one."""
    return next((key for name in KEY_VARIABLES if (key := os.environ.get(name, "").strip())), None)


def parse_endpoint(text: str) -> tuple[tuple[URL, ...], str | None]:
    """Read a user's `--endpoint`.

    Args:
        text: An address with or without scheme, `/v1` or a pasted `/chat/completions`.

    Returns:
        Possible addresses of the API, likeliest first, without credentials; and the value of an
        `Authorization` header if `text` has credentials.

    Raises:
        UserError: This is not the address of an HTTP server.
    """
    text = text.strip()
    try:
        url = URL(text if "://" in text else f"http://{text}")
        host, _ = url.host, url.port
    except ValueError:
        host = None
    if not host or url.scheme not in ("http", "https") or url.query_string or url.fragment:
        shown = text.rpartition("@")[2][:200]
        raise UserError(
            f"--endpoint {shown!r} is not a server address; use one such as "
            "http://localhost:8000/v1"
        )
    authorization = None
    if url.user is not None or url.password is not None:
        pair = f"{url.user or ''}:{url.password or ''}".encode()
        authorization = f"Basic {base64.b64encode(pair).decode()}"
        url = url.with_user(None)
    path = url.path.rstrip("/")
    for ending in ("/chat/completions", "/models"):
        path = path.removesuffix(ending)
    plain = url.with_path(path)
    if path.endswith("/v1"):
        return (plain,), authorization
    return (url.with_path(f"{path}/v1"), plain), authorization


class Endpoint:
    """One server.

    Args:
        address: The address as the user gave it.
        key: API key; credentials in the address take precedence.

    Attributes:
        label: The address without credentials, for messages to the user.
        load: Number of requests in flight.
        down: Why it is out of service; None if it works.
        down_since: Event loop time at which it went out of service.

    Raises:
        UserError: The address is not valid.
    """

    def __init__(self, address: str, key: str | None) -> None:
        self._candidates, authorization = parse_endpoint(address)
        self._settle(self._candidates[0])
        self._own_credentials = authorization is not None
        if authorization is None and key is not None:
            authorization = f"Bearer {key}"
        self._headers = {
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
        }
        if authorization is not None:
            self._headers["Authorization"] = authorization
        self._secret = (authorization or "").partition(" ")[2]
        self.label = str(self._candidates[-1])
        self.load = 0
        self.down: str | None = None
        self.down_since = 0.0

    async def post(
        self, session: aiohttp.ClientSession, body: bytes, tokens: bool = False
    ) -> Reply:
        """Send a completion request.

        Args:
            session: The HTTP session.
            body: A chat completion request, or one whose prompt is token ids.
            tokens: Whether the prompt is token ids.

        Raises:
            RetryableError: No answer came.
            BodyTooLong: The answer is longer than `MAX_BODY`.
        """
        url = self._base / "completions" if tokens else self._base / "chat" / "completions"
        return await exchange(session, "POST", url, self._headers, body)

    async def tokenize(self, session: aiohttp.ClientSession, body: bytes) -> int | None:
        """Count a prompt's tokens with vLLM's `/tokenize`; None if the server cannot.

        Raises:
            RetryableError: No answer came.
            BodyTooLong: The answer is longer than `MAX_BODY`.
        """
        reply = await exchange(session, "POST", self._root / "tokenize", self._headers, body)
        value = reply.json() if reply.status == 200 else None
        count = value.get("count") if isinstance(value, dict) else None
        return count if type(count) is int and count >= 0 else None

    async def detokenize(self, session: aiohttp.ClientSession, body: bytes) -> str | None:
        """Turn token ids into text with vLLM's `/detokenize`; None if the server cannot.

        Raises:
            RetryableError: No answer came.
            BodyTooLong: The answer is longer than `MAX_BODY`.
        """
        reply = await exchange(session, "POST", self._root / "detokenize", self._headers, body)
        value = reply.json() if reply.status == 200 else None
        text = value.get("prompt") if isinstance(value, dict) else None
        return text if isinstance(text, str) else None

    async def ask(
        self,
        session: aiohttp.ClientSession,
        method: str,
        path: str,
        body: bytes | None,
        limit: float,
    ) -> Reply:
        """Send a request to a vLLM route outside the API.

        The connection is not reused: vLLM closes it without notice after an internal error.

        Args:
            session: The HTTP session.
            method: HTTP method.
            path: Route without the leading slash, with its query.
            body: JSON body; None for none.
            limit: Timeout in seconds.

        Raises:
            RetryableError: No answer came.
            BodyTooLong: The answer is longer than `MAX_BODY`.
        """
        route, _, query = path.partition("?")
        url = (self._root / route).with_query(query or None)
        headers = {**self._headers, "Connection": "close"}
        return await exchange(session, method, url, headers, body, limit)

    async def inspect(
        self, session: aiohttp.ClientSession, model: str | None, limit: float | None = None
    ) -> Served:
        """Find the API and the model in it.

        Args:
            session: The HTTP session.
            model: The served model's name; None if there is only one.
            limit: Timeout of each exchange in seconds; None for the session's.

        Raises:
            RetryableError: The server does not answer or is unhealthy.
            UserError: It is not an OpenAI-compatible API, refuses the key or lacks the model.
        """
        tried: list[str] = []
        for base in self._candidates:
            reply = await self._get(session, base / "models", limit)
            cards = _model_cards(reply)
            if cards is not None:
                self._candidates, self.label = (base,), str(base)
                self._settle(base)
                return await self._served(session, cards, model, limit)
            if reply.status in (401, 403):
                raise UserError(f"{base} denied access (HTTP {reply.status}); {self.key_hint}")
            if reply.status == 429 or reply.status >= 500:
                raise RetryableError(f"HTTP {reply.status}", reply.retry_after)
            found = f"redirects to {_shown(reply.location)}" if reply.location else ""
            tried.append(f"GET {base / 'models'}: {found or f'HTTP {reply.status}'}")
        raise UserError(
            f"{self.label} is not an OpenAI-compatible API ({'; '.join(tried)}; no "
            "model list); check the address"
        )

    @property
    def key_hint(self) -> str:
        """Advice on a refused key."""
        if self._own_credentials:
            return "check the user name and the password in the address"
        verb = "check" if self._secret else "set"
        return f"{verb} the API key in {' or '.join(KEY_VARIABLES)}"

    def message(self, reply: Reply) -> str:
        """The server's error message, as one short line without the key."""
        text = reply.message()
        return text.replace(self._secret, "***") if self._secret else text

    def _settle(self, base: URL) -> None:
        self._base = base
        self._root = base.parent if base.name == "v1" else base

    async def _served(
        self,
        session: aiohttp.ClientSession,
        cards: dict[str, dict[str, Any]],
        model: str | None,
        limit: float | None,
    ) -> Served:
        if model is None:
            model = self._only(cards)
        card = cards.get(model)
        if card is None:
            near = difflib.get_close_matches(model, cards, n=3)
            names = ", ".join(repr(name) for name in sorted(cards)[:10]) or "no model at all"
            more = f" and {len(cards) - 10} more" if len(cards) > 10 else ""
            guess = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
            raise UserError(
                f"{self.label} does not serve {model!r}; it serves {names}{more}{guess}; "
                "choose with --model"
            )
        if card.get("owned_by") != "vllm":
            return Served(model, "other", None, None)
        parent = cards.get(str(card.get("parent")), {})
        context = card.get("max_model_len") or parent.get("max_model_len")
        return Served(
            model,
            "vllm",
            await self._version(session, limit),
            context if type(context) is int and context > 0 else None,
        )

    def _only(self, cards: dict[str, dict[str, Any]]) -> str:
        """The only served model; adapters on it are listed as separate models."""
        if len(cards) != 1:
            names = ", ".join(repr(name) for name in sorted(cards)[:10]) or "no model at all"
            raise UserError(f"{self.label} serves {names}; choose with --model")
        return next(iter(cards))

    async def _version(self, session: aiohttp.ClientSession, limit: float | None) -> str | None:
        health = await self._get(session, self._root / "health", limit)
        if health.status >= 500:
            raise RetryableError(f"the server reports that it is unhealthy (HTTP {health.status})")
        reply = await self._get(session, self._root / "version", limit)
        try:
            value = reply.json() if reply.status == 200 else None
        except RetryableError:  # a proxy in front may answer with its own page
            return None
        version = value.get("version") if isinstance(value, dict) else None
        return version[:50] if isinstance(version, str) else None

    async def _get(self, session: aiohttp.ClientSession, url: URL, limit: float | None) -> Reply:
        try:
            return await exchange(session, "GET", url, self._headers, limit=limit)
        except BodyTooLong:
            return Reply(200, b"")


def _model_cards(reply: Reply) -> dict[str, dict[str, Any]] | None:
    """Models by name from the answer to `GET /v1/models`; None for an answer of another kind."""
    if reply.status != 200:
        return None
    try:
        value = reply.json()
    except RetryableError:
        return None
    cards = value.get("data") if isinstance(value, dict) else None
    if not isinstance(cards, list):
        return None
    named = [card for card in cards if isinstance(card, dict) and isinstance(card.get("id"), str)]
    return {card["id"]: card for card in named} if len(named) == len(cards) else None


def _shown(location: str) -> str:
    try:
        url = URL(location)
        return str(url.with_user(None) if url.user else url)[:200]
    except ValueError:
        return "an invalid address"
