"""Requests to scripted servers, and the engine that sends them."""

from typing import Any, cast

from benchmark.engines.core.base import Request, Sampling
from benchmark.engines.server.openai import OpenAIEngine
from tests.support.engines.loopback import Loopback


def request(
    text: str = "push",
    affinity: int = 0,
    prompt_ids: tuple[int, ...] | None = None,
    **sampling: Any,
) -> Request:
    return Request(
        messages=({"role": "user", "content": text},),
        sampling=Sampling(**{"max_tokens": 16, **sampling}),
        seed=2**63 - 1,
        affinity=affinity,
        episode=cast("Any", None),
        prompt_ids=prompt_ids,
    )


def engine(*servers: Loopback, **settings: Any) -> OpenAIEngine:
    urls = [server.url for server in servers]
    return OpenAIEngine(urls, "tiny", **{"retries": 2, "patience": 0.5, **settings})
