"""WebShop: steps, searches and start of one process.

Prints steps per CPU second (reading the response, acting, rendering the page and the prompt; what
the players need to decide is left out), the same for searches alone, and the time from a fresh
interpreter to the first page, with the catalogue built before. The original does 34 steps per CPU
second and starts in about 5 s. The public 1,000 products are played where $WEBSHOP_DATA has them,
else the built-in shop.

    python -m tests.benchmarks.webshop_speed [--episodes N]
"""

import argparse
import random
import subprocess
import sys
import time
from statistics import median

from tasks.panels import PanelEntry
from tasks.webshop.data.catalogues import BUILTIN, SMALL, is_there, open_catalogue
from tasks.webshop.task import WebShopTask

STARTS = 5
SEARCHES = 2000
_START = """
import time
began, used = time.perf_counter(), time.process_time()
from tasks.webshop.task import WebShopTask
task = WebShopTask()
entry = task.panel({panel!r}).entries[0]
task.episode(entry, 15).reset()
print(time.perf_counter() - began, time.process_time() - used)
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--episodes", type=int, default=400)
    arguments = parser.parse_args()
    panel = SMALL if is_there(SMALL) else BUILTIN
    entries = WebShopTask().panel(panel).entries
    print(f"{panel}: {len(open_catalogue(panel))} products")
    for compat in ("off", "on"):
        task = WebShopTask().configured({"compat": compat})
        _steps(task, [entries[n % len(entries)] for n in range(arguments.episodes)])
    _searches(panel)
    _starts(panel)


def _steps(task: WebShopTask, entries: list[PanelEntry]) -> None:
    """Play with the expert and at random, then play the same responses again under the clock."""
    scripts = [_script(task, entry, n) for n, entry in enumerate(entries)]
    seconds, steps, searches = 0.0, 0, 0
    for entry, responses in scripts:
        began = time.process_time()
        episode = task.episode(entry, 15)
        episode.reset()
        for response in responses:
            episode.step(response)
        seconds += time.process_time() - began
        steps += len(responses)
        searches += sum("search[" in response for response in responses)
    settings = task.settings()["compat"]
    print(
        f"compat {settings}: {steps / seconds:,.0f} steps per CPU second "
        f"({steps} steps, {searches / steps:.0%} of them searches)"
    )


def _script(task: WebShopTask, entry: PanelEntry, number: int) -> tuple[PanelEntry, list[str]]:
    """The responses of an episode: every other one is the expert's, the others are random."""
    rng = random.Random(number)
    episode = task.episode(entry, 15)
    episode.reset()
    responses = []
    while True:
        expert = number % 2
        response = task.expert_response(episode) if expert else task.random_response(episode, rng)
        responses.append(response)
        if episode.step(response).outcome is not None:
            return entry, responses


def _searches(panel: str) -> None:
    """Search for the instructions of the panel's wishes."""
    task = WebShopTask()
    entries = task.panel(panel).entries
    queries = [task.describe(entries[n % len(entries)]) for n in range(SEARCHES)]
    catalogue = open_catalogue(panel)
    began = time.process_time()
    for query in queries:
        catalogue.search(query, 50)
    print(f"{SEARCHES / (time.process_time() - began):,.0f} searches per CPU second")


def _starts(panel: str) -> None:
    """Start fresh interpreters."""
    times = []
    for _ in range(STARTS):
        command = [sys.executable, "-c", _START.format(panel=panel)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        times.append(tuple(map(float, done.stdout.split())))
    wall, cpu = (median(column) for column in zip(*times, strict=True))
    print(
        f"start to the first page, imports included: {wall:.2f} s, {cpu:.2f} CPU seconds "
        f"(medians of {STARTS})"
    )


if __name__ == "__main__":
    main()
