"""The page's own HTML: Gradio's, with metadata for link previews, built once and cached.

Gradio paints nothing before all of its scripts have run. The page's header is therefore not a
Gradio component but part of the HTML, so it appears immediately. Below it is the board's answer,
which `assets/page.js` removes when Gradio has drawn its own.

Gradio's template calls every page "Gradio" and gives it no URL. The page depends only on the
address by which it is requested, not on the query, which its own event reads.
"""

import gzip
import re
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from leaderboard.page.header import head_tags

MAX_PAGES: Final = 8
"""Number of addresses for which the page is cached; for others it is built every time."""
_ASKED: Final = (b"host", b"x-forwarded-host", b"x-forwarded-proto")
"""Headers on which the page depends: the address by which it is requested."""
_TAG: Final = re.compile(r'<meta\s+(?:property|name)="(?:og|twitter):[^>]*>')
_DARK: Final = """<script>
const lbTheme = new URLSearchParams(location.search).get("__theme");
const lbDark = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
if ((lbTheme ?? lbDark) === "dark") document.body.classList.add("dark");
</script>"""
"""Gradio selects the theme by the same rule, but later."""
Key = tuple[tuple[bytes, bytes], ...]


class Shell:
    """ASGI middleware: serves the page itself, and passes on everything else.

    Args:
        app: Gradio.
        header: HTML of the page's header.
        answer: HTML that is shown below it until Gradio is ready.
        style: Style sheet of both.
    """

    def __init__(self, app: ASGIApp, header: str = "", answer: str = "", style: str = "") -> None:
        self.app = app
        waiting = f'<div id="lb-waiting">{answer}</div>'
        self.first = f'{_DARK}<div id="lb-first">{header}{waiting}</div>'
        self.style = f"<style>{style}</style>"
        self._pages: dict[Key, tuple[bytes, bytes]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http" or scope["path"] != "/" or scope["method"] != "GET":
            await self.app(scope, receive, send)
            return
        given = dict(scope["headers"])
        key = tuple((name, given[name]) for name in _ASKED if name in given)
        plain, packed = self._pages.get(key) or await self._made(scope, key, receive)
        zipped = b"gzip" in given.get(b"accept-encoding", b"")
        body = packed if zipped else plain
        headers = [
            (b"content-type", b"text/html; charset=utf-8"),
            (b"content-length", str(len(body)).encode()),
            (b"vary", b"accept-encoding"),
            *([(b"content-encoding", b"gzip")] if zipped else []),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _made(self, scope: Scope, key: Key, receive: Receive) -> tuple[bytes, bytes]:
        parts: list[bytes] = []
        status = 0

        async def keep(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            parts.append(message.get("body", b""))

        asked = {**scope, "query_string": b"", "headers": list(key)}
        await self.app(asked, receive, keep)
        if status != 200:
            raise RuntimeError(f"Gradio answered {status} for its own page")
        known = dict(key)
        host = known.get(b"x-forwarded-host") or known.get(b"host", b"")
        scheme = known.get(b"x-forwarded-proto", scope.get("scheme", "http").encode())
        html = _TAG.sub("", b"".join(parts).decode())
        address = f"{scheme.decode('ascii', 'replace')}://{host.decode('ascii', 'replace')}/"
        # First in the head, because programs that read it for a preview stop early.
        html = html.replace("<head>", f"<head>{head_tags(address)}", 1)
        html = html.replace("</head>", f"{self.style}</head>", 1)
        plain = html.replace("<gradio-app", f"{self.first}<gradio-app", 1).encode()
        found = plain, gzip.compress(plain, 6)
        if len(self._pages) < MAX_PAGES:
            self._pages[key] = found
        return found
