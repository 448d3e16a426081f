"""Addresses, the check at startup, and several endpoints over real HTTP."""

import asyncio
import base64
from collections import Counter
from typing import Any, cast

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from benchmark.engines.core.base import EngineDown, Request, Sampling
from benchmark.engines.server.attempt import LONGEST_WAIT, back_off_seconds
from benchmark.engines.server.completion import without_surrogates
from benchmark.engines.server.endpoint import Endpoint, parse_endpoint
from benchmark.engines.server.exchange import parse_retry_after
from benchmark.engines.server.openai import OpenAIEngine
from benchmark.engines.server.pool import Pool
from tasks.errors import UserError
from tests.support.engines.loopback import Loopback, fails, loopback, says
from tests.support.engines.servers import free_port


def request(affinity: int) -> Request:
    return Request(
        messages=({"role": "user", "content": str(affinity)},),
        sampling=Sampling(max_tokens=16),
        seed=affinity,
        affinity=affinity,
        episode=cast("Any", None),
    )


def engine(*servers: Loopback, model: str = "tiny", **settings: Any) -> OpenAIEngine:
    urls = [server.url for server in servers]
    chosen = {"retries": 4, "patience": 0.5, "connect_timeout": 2.0, **settings}
    return OpenAIEngine(urls, model, **chosen)


async def refusal(tested: OpenAIEngine) -> str:
    """The one-line error at startup."""
    with pytest.raises(UserError) as caught:
        await tested.__aenter__()
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("http://h:8000", ["http://h:8000/v1", "http://h:8000"]),
        ("http://h:8000/", ["http://h:8000/v1", "http://h:8000"]),
        ("http://h:8000/v1", ["http://h:8000/v1"]),
        ("http://h:8000/v1/", ["http://h:8000/v1"]),
        ("http://h/v1/chat/completions", ["http://h/v1"]),
        ("http://h/v1/models", ["http://h/v1"]),
        ("https://h/api", ["https://h/api/v1", "https://h/api"]),
        ("h:8000", ["http://h:8000/v1", "http://h:8000"]),
        (" localhost:8000/v1 ", ["http://localhost:8000/v1"]),
        ("[::1]:8000/v1", ["http://[::1]:8000/v1"]),
    ],
)
def test_addresses(text: str, addresses: list[str]) -> None:
    found, authorization = parse_endpoint(text)
    assert [str(url) for url in found] == addresses
    assert authorization is None


@pytest.mark.parametrize(
    "text", ["", "ftp://h", "http://", "http://h:99999999", "http://h/v1?key=1", "http://h/#a"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(UserError, match="is not a server address"):
        parse_endpoint(text)


def test_credentials_leave_the_address() -> None:
    found, authorization = parse_endpoint("https://me:pass%20word@h/v1")
    assert [str(url) for url in found] == ["https://h/v1"]
    assert authorization == "Basic " + base64.b64encode(b"me:pass word").decode()
    assert Endpoint("https://me:secret@h/v1", None).label == "https://h/v1"
    with pytest.raises(UserError) as caught:
        parse_endpoint("ftp://me:secret@h")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("2", 2.0),
        ("0.5", 0.5),
        ("-3", 0.0),
        ("Thu, 01 Jan 1970 00:02:00 GMT", 20.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("soon", None),
        ("nan", None),
        ("inf", None),
        ("", None),
    ],
)
def test_retry_after(value: str | None, seconds: float | None) -> None:
    assert parse_retry_after(value, now=100.0) == seconds


@given(st.integers(0, 2**63 - 1), st.integers(0, 40))
def test_back_off_is_bounded_and_the_same_each_time(seed: int, attempt: int) -> None:
    bound = min(LONGEST_WAIT, 0.25 * 2**attempt)
    assert bound / 2 <= back_off_seconds(seed, attempt) <= bound
    assert back_off_seconds(seed, attempt) == back_off_seconds(seed, attempt)


def test_back_off_spreads_requests() -> None:
    assert len({back_off_seconds(seed, 3) for seed in range(100)}) == 100


@given(st.text(st.characters(codec=None, exclude_categories=())))
def test_texts_without_surrogates(text: str) -> None:
    cleaned = without_surrogates(text)
    expected = "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text)
    assert len(cleaned) <= len(text)
    cleaned.encode("utf-8")
    if not any("\ud800" <= c <= "\udbff" for c in text):
        assert cleaned == expected


async def test_api_below_a_path_of_another_name() -> None:
    async def models(_: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "tiny"}]})

    app = web.Application()
    app.router.add_get("/api/v3/models", models)
    app.router.add_post("/api/v3/chat/completions", says())
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.05)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/api/v3"
    async with OpenAIEngine([url], "tiny") as tested:
        assert (await tested.generate(request(1))).text == "fine"
    assert "HTTP 404, not" not in await refusal(OpenAIEngine([url[:-3]], "tiny"))
    await runner.cleanup()


async def test_unreachable_server() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    message = await refusal(OpenAIEngine([url], "tiny"))
    assert url in message
    assert "connection refused" in message
    assert "127.0.0.1" in message


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (says(b"<html>hello</html>"), "HTTP 200"),
        (says({"data": "none"}), "HTTP 200"),
        (says({}, 302, Location="https://u:secret@other/v1/models"), "redirects to https://other"),
        (says({}, 403), "HTTP 403"),
    ],
)
async def test_wrong_server(answer: Any, found: str) -> None:
    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.05)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    message = await refusal(OpenAIEngine([url], "tiny"))
    assert url in message
    assert found in message
    assert "secret" not in message
    await runner.cleanup()


async def test_unknown_model_names_those_served() -> None:
    async with loopback(models=("tiny-sokoban", "other")) as server:
        message = await refusal(engine(server, model="tiny-sokobam"))
        assert "it serves 'other', 'tiny-sokoban'; did you mean 'tiny-sokoban'?" in message


async def test_refused_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ARLARENA_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    async with loopback(key="right") as server:
        message = await refusal(engine(server))
        assert "set the API key in ARLARENA_API_KEY or OPENAI_API_KEY" in message
        monkeypatch.setenv("OPENAI_API_KEY", "wrong")
        assert "check the API key in" in (text := await refusal(engine(server)))
        assert "wrong" not in text
        monkeypatch.setenv("ARLARENA_API_KEY", "right")
        async with engine(server) as tested:
            assert (await tested.generate(request(1))).text == "fine"


async def test_endpoints_must_agree() -> None:
    async with loopback() as one, loopback(context=64) as two, loopback(vllm=False) as three:
        assert "context length 4096 at" in await refusal(engine(one, two))
        assert "server vllm at" in await refusal(engine(one, three))
    async with loopback() as one, loopback(models=["other"]) as two:
        assert "does not serve 'tiny'; it serves 'other'" in await refusal(engine(one, two))
    with pytest.raises(UserError, match="more than once"):
        OpenAIEngine(["http://h", "h"], "tiny")
    async with loopback() as one:
        twice = [one.url.removesuffix("/v1"), f"{one.url.removesuffix('/v1')}/v1"]
        assert "is given more than once" in await refusal(OpenAIEngine(twice, "tiny"))
    with pytest.raises(UserError, match="--endpoint"):
        OpenAIEngine([], "tiny")


async def test_episodes_stay_with_their_endpoint_and_spread_evenly() -> None:
    async with loopback() as one, loopback() as two, engine(one, two) as tested:

        async def episode(affinity: int) -> None:
            for _ in range(5):
                await tested.generate(request(affinity))

        await asyncio.gather(*map(episode, range(20)))
        homes = [Counter(body["seed"] for body in server.requests) for server in (one, two)]
        assert [len(home) for home in homes] == [10, 10]
        assert set(homes[0]) | set(homes[1]) == set(range(20))
        assert all(count == 5 for home in homes for count in home.values())


async def test_an_overloaded_endpoint_loses_an_episode() -> None:
    endpoints = [Endpoint("http://one", None), Endpoint("http://two", None)]

    async def well(_: Endpoint) -> None:
        return

    pool = Pool(endpoints, well, patience=0.1)
    assert await pool.choose(5) is endpoints[0]
    endpoints[0].load, endpoints[1].load = 12, 2
    assert await pool.choose(5) is endpoints[0]
    endpoints[0].load = 13
    assert await pool.choose(5) is endpoints[1]
    endpoints[0].load = 0
    assert await pool.choose(5) is endpoints[1]
    assert await pool.choose(5, avoid=endpoints[1]) is endpoints[0]
    await pool.close()


async def test_requests_move_to_the_other_endpoint_and_come_back() -> None:
    async with loopback() as one, loopback() as two, engine(one, two) as tested:
        await asyncio.gather(*(tested.generate(request(n)) for n in range(8)))
        assert (len(one.requests), len(two.requests)) == (4, 4)
        await one.stop()
        generations = await asyncio.gather(*(tested.generate(request(n)) for n in range(8)))
        assert [generation.text for generation in generations] == ["fine"] * 8
        assert (len(one.requests), len(two.requests)) == (4, 12)
        await one.start()
        async with asyncio.timeout(120):
            for later in range(100, 10_000, 2):
                await asyncio.gather(*(tested.generate(request(later + n)) for n in range(2)))
                if len(one.requests) > 4:
                    break


@pytest.mark.slow
async def test_all_endpoints_dead_stops_the_run_in_bounded_time() -> None:
    async with loopback() as one, loopback() as two, engine(one, two) as tested:
        await tested.generate(request(1))
        await asyncio.gather(one.stop(), two.stop())
        async with asyncio.timeout(120):
            outcomes = await asyncio.gather(
                *(tested.generate(request(n)) for n in range(16)), return_exceptions=True
            )
        assert {type(outcome) for outcome in outcomes} == {EngineDown}
        assert f"{one.url}/v1: no answer: connection refused" not in str(outcomes[0])
        assert f"{one.url}/v1: connection refused" in str(outcomes[0])


@pytest.mark.slow
async def test_a_restarted_endpoint_goes_on_serving() -> None:
    async with loopback() as server, engine(server, patience=120) as tested:
        await tested.generate(request(1))
        await server.stop()
        waiting = [asyncio.create_task(tested.generate(request(n))) for n in range(4)]
        await asyncio.sleep(0.6)
        assert not any(task.done() for task in waiting)
        await server.start()
        async with asyncio.timeout(120):
            assert {generation.text for generation in await asyncio.gather(*waiting)} == {"fine"}


@pytest.mark.slow
async def test_an_endpoint_that_comes_back_with_another_context_stays_out() -> None:
    async with loopback() as server, engine(server) as tested:
        await server.stop()
        server.context, server.script = 64, [fails(500)]
        await server.start()
        with pytest.raises(EngineDown, match="a different server or context length"):
            await tested.generate(request(1))
