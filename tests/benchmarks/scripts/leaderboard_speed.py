"""The leaderboard with 200 synthetic submissions and 500 training curves.

Prints how long it takes from the start of the command to the first paint in a browser, to switch a
tab and to filter, what the server's memory comes to, and how long 50 visitors at once wait. CPU
seconds stand beside the wall clock: on a busy machine they are what the page is to blame for.
With a board of real submissions, 200 of its episodes are opened, too: one after the other, each by
another visitor, and then all at once, while somebody uses the board.

    python -m tests.benchmarks.scripts.leaderboard_speed [--seconds N] [--visitors N] [--pause S]
        [--board FILE --submissions FOLDER]
"""

import argparse
import asyncio
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import aiohttp
import psutil  # type: ignore[import-untyped]  # it comes without types
from playwright.sync_api import Page, sync_playwright

from leaderboard.board.board import Board, load
from leaderboard.board.file import PARQUET, parquet_bytes
from leaderboard.page.state import State, query_of
from tests.support.board_rows import synthetic_content

ENTRIES, CURVES = 200, 500
EPISODES = 200
TABS = ("Stability", "Curves", "Collapses", "Entry", "Compare", "Paper", "About", "Board")
ROUNDS = 5
PANELS = ("built-in", "field", "sokoban/builtin", "alfworld/builtin", "webshop/builtin")
WORDS = ("", "grpo", "sampo", "4B", "gspo 1", "cispo")
IDLE = "new Promise((done) => requestIdleCallback(() => requestIdleCallback(done)))"
SWITCH = """
async (name) => {
  const tab = [...document.querySelectorAll('[role="tab"]')].find((t) => t.innerText === name);
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const panel = () => [...document.querySelectorAll('[role="tabpanel"]')]
    .find((each) => each.style.display !== 'none' && each.textContent.length > 100);
  const before = panel();
  const start = performance.now();
  tab.click();
  while (!panel() || panel() === before) await frame();
  await frame(); await frame();
  const shown = performance.now() - start;
  const plots = () => [...panel().querySelectorAll('.lb-plot')];
  while (!plots().every((plot) => plot.querySelector('svg.marks'))) await frame();
  await frame(); await frame();
  return [shown, performance.now() - start];
}
"""
FILTER = """
async (words) => {
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const count = () => document.querySelector('.lb-count').textContent;
  const before = count(), field = document.querySelector('#search :is(textarea, input)');
  const start = performance.now();
  field.value = words;
  field.dispatchEvent(new InputEvent('input', { bubbles: true }));
  while (count() === before) await frame();
  await frame(); await frame();
  return performance.now() - start;
}
"""
SORT = """
async (title) => {
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const order = () => document.querySelector('.lb-board th[aria-sort]').textContent;
  const head = [...document.querySelectorAll('.lb-board thead a')]
    .find((each) => each.innerText.trim().startsWith(title));
  const before = order(), start = performance.now();
  head.click();
  while (order() === before) await frame();
  await frame(); await frame();
  return performance.now() - start;
}
"""


@dataclass(slots=True)
class Server:
    """The command, running.

    Attributes:
        process: Its process.
        address: Of the page.
        wall_s: From the start to the line that says where the page is.
        cpu_s: CPU seconds up to then.
    """

    process: psutil.Process
    address: str
    wall_s: float
    cpu_s: float

    @property
    def megabytes(self) -> float:
        """Resident memory now."""
        return float(self.process.memory_info().rss) / 2**20


@dataclass(slots=True)
class Waits:
    """What visitors waited for, in seconds, by kind; and what went wrong."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--visitors", type=int, default=50)
    parser.add_argument("--pause", type=float, default=2, help="mean pause of a visitor, seconds")
    parser.add_argument("--board", type=Path, help="Parquet file of real submissions")
    parser.add_argument("--submissions", type=Path, default=Path("submissions"))
    arguments = parser.parse_args()
    print(f"{ENTRIES} entries, {CURVES} curves; {psutil.cpu_count()} CPUs, "
          f"load {psutil.getloadavg()[0]:.1f}")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / PARQUET
        path.write_bytes(parquet_bytes(synthetic_content(ENTRIES, CURVES)))
        with served(path) as server:
            print(f"server up after   {server.wall_s:6.2f} s, {server.cpu_s:.2f} s of CPU")
            in_browser(server)
            print(f"memory            {server.megabytes:6.0f} MiB")
            waits = asyncio.run(
                visits(server.address, arguments.visitors, arguments.seconds, arguments.pause)
            )
            report(waits, arguments.visitors, arguments.seconds)
            print(f"memory            {server.megabytes:6.0f} MiB")
    if arguments.board is None:
        print("no --board of real submissions: no episodes are opened")
    else:
        queries = episodes_of(load(arguments.board))
        with served(arguments.board, arguments.submissions) as server:
            opened = asyncio.run(opens(server, queries))
        waits.errors += opened.errors
    return 1 if waits.errors else 0


@contextmanager
def served(path: Path, submissions: Path = Path("submissions")) -> Iterator[Server]:
    """The command as a user starts it."""
    command = [sys.executable, "-m", "benchmark.cli", "leaderboard", "serve", "--port", "0"]
    command += ["--board", str(path), "--submissions", str(submissions)]
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r"http://\S+/", process.stdout.readline())
        wall = time.perf_counter() - start
        assert found
        known = psutil.Process(process.pid)
        times = known.cpu_times()
        yield Server(known, found[0], wall, times.user + times.system)
        process.terminate()


def in_browser(server: Server) -> None:
    """First paint, tabs and filters, as a browser on the same machine has them."""
    executable = shutil.which("chromium") or shutil.which("google-chrome")
    if executable is None:
        print("no Chromium: nothing of the page is measured")
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=executable, args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        # CPU time of the page's own thread: what other processes do does not count.
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        start = time.perf_counter()
        page.goto(server.address)
        page.locator(".lb-board").wait_for()
        opened = time.perf_counter() - start
        paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        print(f"page open after   {opened:6.2f} s, first paint at {paint / 1000:.2f} s")
        print(f"command to board  {server.wall_s + opened:6.2f} s")
        page.wait_for_timeout(1500)
        found = session.send("Performance.getMetrics")["metrics"]
        known = {each["name"]: each["value"] for each in found}
        size = page.evaluate("performance.getEntriesByType('navigation')[0].decodedBodySize")
        packed = page.evaluate("performance.getEntriesByType('navigation')[0].encodedBodySize")
        print(
            f"page of           {size / 1000:6.0f} kB, {packed / 1000:.0f} kB compressed; "
            f"{known['TaskDuration']:.2f} s of CPU in the browser, {known['Nodes']:.0f} nodes"
        )
        switched(page)
        changed(page)
        browser.close()


def rested(page: Page, script: str, argument: str) -> Any:
    """What a script says once nothing is left to do of what was done before."""
    page.evaluate(IDLE)
    return page.evaluate(script, argument)


def switched(page: Page) -> None:
    """Tabs, the first time, which makes their components, and later: text, then figures."""
    first = {name: rested(page, SWITCH, name) for name in TABS}
    later = [rested(page, SWITCH, name) for _ in range(ROUNDS) for name in TABS]
    for part, what in enumerate(("tab", "its figures")):
        shown = ", ".join(f"{name} {value[part]:.0f}" for name, value in first.items())
        print(f"{f'{what}, first time':<22}{max(v[part] for v in first.values()):6.0f} ms at most "
              f"({shown})")  # fmt: skip
        again = [value[part] for value in later]
        print(f"{f'{what}, later':<22}{median(again):6.0f} ms, {max(again):.0f} at most")


def changed(page: Page) -> None:
    """Words that nobody has searched for before, and orders that nobody has asked for."""
    filters = [rested(page, FILTER, word) for word in ("4B", "grpo", "sampo 4B", "gs", "")]
    print(f"filter            {median(filters):6.0f} ms, {max(filters):.0f} at most")
    sorts = [rested(page, SORT, title) for title in ("ALFWorld", "retention", "entry", "mean")]
    print(f"sort              {median(sorts):6.0f} ms, {max(sorts):.0f} at most")


async def visits(address: str, visitors: int, seconds: float, pause: float) -> Waits:
    """Visitors who open the page and go on using it, with pauses."""
    waits = Waits()
    end = time.monotonic() + seconds
    limit = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(address, connector=limit) as session:
        async with session.get("/config") as answer:
            config = await answer.json()
        everybody = (visitor(session, config, n, end, pause, waits) for n in range(visitors))
        await asyncio.gather(*everybody)
    return waits


async def visitor(
    session: aiohttp.ClientSession,
    config: dict[str, Any],
    number: int,
    end: float,
    pause: float,
    waits: Waits,
) -> None:
    """One visitor: every tenth step reopens the page, the others use the board."""
    rng = random.Random(number)
    await asyncio.sleep(rng.random() * pause)
    alive = asyncio.create_task(heartbeat(session, f"visitor-{number}"))
    step = 0
    while time.monotonic() < end:
        if step % 10 == 0:
            await timed(session, waits, "page", "GET", "/")
            await predict(session, waits, "link", config, number, "load", "?tab=compare")
        else:
            await predict(session, waits, "board", config, number, "input", "", rng)
        step += 1
        await asyncio.sleep(rng.expovariate(1 / pause))
    alive.cancel()


async def heartbeat(session: aiohttp.ClientSession, name: str) -> None:
    """The stream that every open page holds."""
    async with session.get(f"/gradio_api/heartbeat/{name}") as answer:
        async for _ in answer.content:
            pass


async def predict(
    session: aiohttp.ClientSession,
    waits: Waits,
    kind: str,
    config: dict[str, Any],
    number: int,
    event: str,
    query: str,
    rng: random.Random | None = None,
) -> None:
    """One event of the page, as the browser sends it."""
    dependency = next(
        each for each in config["dependencies"] if any(name == event for _, name in each["targets"])
    )
    known = {each["id"]: each["props"] for each in config["components"]}
    drawn: dict[str, Any] = {}
    if rng is not None:
        drawn = {"panels": rng.choice(PANELS), "search": rng.choice(WORDS)}
        drawn["reverse"] = rng.random() < 0.5
    data = [
        drawn.get(str(known[own].get("elem_id")), known[own].get("value"))
        for own in dependency["inputs"]
    ]
    body = {"fn_index": dependency["id"], "data": data, "session_hash": f"visitor-{number}"}
    await timed(session, waits, kind, "POST", f"/gradio_api/run/predict{query}", body)


def episodes_of(board: Board) -> list[str]:
    """Queries of `EPISODES` episodes, drawn from all that the board's entries have played."""
    protocol = board.protocols[0]
    found = [
        State("entry", protocol.name, entry=row.id, panel="/".join(panel.key), seed=str(point.seed),
              episode=episode)
        for row in board.rows(protocol.name)
        for panel in protocol.panels
        if row.panel(panel.key) is not None
        for point in row.checkpoints
        for episode in panel.episodes
    ]  # fmt: skip
    drawn = random.Random(0).sample(found, min(EPISODES, len(found)))
    return [query_of(state) for state in drawn]


async def opens(server: Server, queries: Sequence[str]) -> Waits:
    """Open episodes, one after the other and at once, and print what that takes."""
    print(f"{len(queries)} episodes; memory before {server.megabytes:.0f} MiB")
    waits = Waits()
    limit = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(server.address, connector=limit) as session:
        async with session.get("/config") as answer:
            config = await answer.json()
        number = next(
            each["id"] for each in config["dependencies"]
            if not each["inputs"] and {event for _, event in each["targets"]} == {"input"}
        )  # fmt: skip

        async def one(visitor: int, query: str, kind: str) -> None:
            body = {"fn_index": number, "data": [], "session_hash": f"reader-{visitor}"}
            body["event_data"] = {"href": f"?{query}"}
            await timed(session, waits, kind, "POST", "/gradio_api/run/predict", body, (200, 503))

        for visitor, query in enumerate(queries):
            await one(visitor, query, "episode")
        print(f"one by one: memory {server.megabytes:.0f} MiB")
        crowd = [
            asyncio.create_task(one(visitor, query, "in a crowd"))
            for visitor, query in enumerate(reversed(queries))
        ]
        for visitor in range(10):
            await predict(session, waits, "board beside", config, visitor, "input", "")
        await asyncio.gather(*crowd)
        print(f"all at once: memory {server.megabytes:.0f} MiB")
    report(waits, len(queries))
    return waits


async def timed(
    session: aiohttp.ClientSession,
    waits: Waits,
    kind: str,
    method: str,
    path: str,
    body: dict[str, Any] | None = None,
    right: Sequence[int] = (200,),
) -> None:
    start = time.perf_counter()
    try:
        async with session.request(method, path, json=body) as answer:
            content = await answer.read()
            if answer.status not in right:
                waits.errors.append(f"{path}: {answer.status}")
            if answer.status != 200:
                kind = f"{kind}: {answer.status}"
            waits.seconds.setdefault(kind, []).append(time.perf_counter() - start)
            if not content:
                waits.errors.append(f"{path}: nothing")
    except (aiohttp.ClientError, TimeoutError) as error:
        waits.errors.append(f"{path}: {type(error).__name__}")


def report(waits: Waits, visitors: int, seconds: float | None = None) -> None:
    """Print what visitors waited."""
    during = "" if seconds is None else f", {seconds:.0f} s"
    print(f"{visitors} visitors{during}: {len(waits.errors)} errors")
    for error in waits.errors[:5]:
        print(f"  {error}")
    for kind, found in waits.seconds.items():
        print(f"  {kind:15s} {len(found):6d} answers, median {median(found):.3f} s, "
              f"p95 {p95(found):.3f} s")  # fmt: skip


def p95(values: Sequence[float]) -> float:
    """The 95% quantile."""
    return quantiles(values, n=20)[-1] if len(values) > 1 else values[0]


if __name__ == "__main__":
    sys.exit(main())
