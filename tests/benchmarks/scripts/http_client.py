"""Which HTTP client costs least: aiohttp and httpx against one canned server.

    python -m tests.benchmarks.scripts.http_client

A loopback server in a process of its own answers every request after a fixed delay with the same
chat completion. Both clients send the same requests, interleaved and repeated; what is compared is
requests per second and CPU time of the client per request.
"""

import argparse
import asyncio
import json
import multiprocessing
import statistics
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection

import aiohttp
import httpx
from aiohttp import web

REQUEST = json.dumps(
    {
        "model": "tiny",
        "messages": [{"role": "user", "content": "Push every box onto a target. " * 40}],
        "max_tokens": 32,
        "temperature": 0.0,
        "seed": 2**62,
    }
).encode()
HEADERS = {"Content-Type": "application/json"}

Send = Callable[[], Awaitable[int]]


def answer() -> bytes:
    """A chat completion of 32 tokens with their details, as vLLM sends it."""
    token = {"token": " up", "logprob": -1.25, "bytes": [32, 117, 112], "top_logprobs": []}
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": " up" * 32},
        "logprobs": {"content": [token] * 32},
        "finish_reason": "length",
        "token_ids": list(range(32)),
    }
    usage = {"prompt_tokens": 300, "completion_tokens": 32, "total_tokens": 332}
    body = {"id": "chatcmpl-0", "choices": [choice], "usage": usage}
    return json.dumps({**body, "prompt_token_ids": list(range(300))}).encode()


def serve(delay: float, ready: Connection) -> None:
    """Answer requests until the process is ended; reports the port once it listens."""
    body = answer()

    async def complete(request: web.Request) -> web.Response:
        await request.read()
        await asyncio.sleep(delay)
        return web.Response(body=body, content_type="application/json")

    async def run() -> None:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", complete)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        ready.send(runner.addresses[0][1])
        await asyncio.Event().wait()

    asyncio.run(run())


async def drive(send: Send, requests: int, in_flight: int) -> tuple[float, float]:
    """Send all requests; returns requests/s and the client's CPU seconds per request."""
    remaining = iter(range(requests))

    async def place() -> None:
        for _ in remaining:
            length = await send()
            assert length > 1000

    wall, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(place() for _ in range(in_flight)))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return requests / wall, cpu / requests


async def with_aiohttp(url: str, requests: int, in_flight: int) -> tuple[float, float]:
    """Measure aiohttp."""
    connector = aiohttp.TCPConnector(limit=in_flight)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def send() -> int:
            async with session.post(url, data=REQUEST, headers=HEADERS) as response:
                body = await response.read()
                json.loads(body)
                return len(body)

        await drive(send, in_flight, in_flight)
        return await drive(send, requests, in_flight)


async def with_httpx(url: str, requests: int, in_flight: int) -> tuple[float, float]:
    """Measure httpx."""
    limits = httpx.Limits(max_connections=in_flight, max_keepalive_connections=in_flight)
    async with httpx.AsyncClient(limits=limits, timeout=60) as client:

        async def send() -> int:
            response = await client.post(url, content=REQUEST, headers=HEADERS)
            json.loads(response.content)
            return len(response.content)

        await drive(send, in_flight, in_flight)
        return await drive(send, requests, in_flight)


def main() -> None:
    """Run the comparison and print its table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--requests", type=int, default=1024, help="per round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--delay", type=float, default=0.02, help="of the server, in seconds")
    parser.add_argument("--in-flight", type=int, nargs="+", default=[32, 128])
    options = parser.parse_args()

    receiver, sender = multiprocessing.Pipe(duplex=False)
    server = multiprocessing.get_context("spawn").Process(
        target=serve, args=(options.delay, sender), daemon=True
    )
    server.start()
    try:
        if not receiver.poll(60):
            raise SystemExit("the server did not start")
        url = f"http://127.0.0.1:{receiver.recv()}/v1/chat/completions"
        print(f"{'in flight':>9} {'client':>8} {'requests/s':>11} {'CPU ms/request':>15}")
        for in_flight in options.in_flight:
            compare(url, in_flight, options.requests, options.rounds)
    finally:
        server.terminate()
        server.join()


def compare(url: str, in_flight: int, requests: int, rounds: int) -> None:
    """Measure both clients in turn and print medians and their ratios."""
    clients = {"aiohttp": with_aiohttp, "httpx": with_httpx}
    measured: dict[str, list[tuple[float, float]]] = {name: [] for name in clients}
    for number in range(rounds):
        order = list(clients) if number % 2 == 0 else list(clients)[::-1]
        for name in order:
            measured[name].append(asyncio.run(clients[name](url, requests, in_flight)))
    for name, figures in measured.items():
        rate = statistics.median(rate for rate, _ in figures)
        cpu = statistics.median(cpu for _, cpu in figures)
        print(f"{in_flight:>9} {name:>8} {rate:>11,.0f} {1000 * cpu:>15.2f}")
    pairs = list(zip(measured["aiohttp"], measured["httpx"], strict=True))
    rates = sorted(ours[0] / theirs[0] for ours, theirs in pairs)
    costs = sorted(theirs[1] / ours[1] for ours, theirs in pairs)
    print(
        f"{'':>9} aiohttp/httpx requests/s: {statistics.median(rates):.2f} "
        f"({rates[0]:.2f} to {rates[-1]:.2f}); httpx/aiohttp CPU: "
        f"{statistics.median(costs):.2f} ({costs[0]:.2f} to {costs[-1]:.2f})"
    )


if __name__ == "__main__":
    main()
