"""The leaderboard as a visitor has it: served by its command, opened at an address, by its tabs."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Locator, Page, ViewportSize, expect

PHONE: ViewportSize = {"width": 390, "height": 844}


@contextmanager
def served(board: Path, submissions: Path) -> Iterator[str]:
    """The address of a board that is served."""
    command = [sys.executable, "-m", "benchmark.cli", "leaderboard", "serve", "--port", "0"]
    command += ["--board", str(board), "--submissions", str(submissions)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        said = server.stdout.readline()
        found = re.search(r"http://\S+/", said)
        assert found, said
        yield found[0]
        server.terminate()


def open_at(page: Page, address: str) -> None:
    page.goto(address)
    expect(page.get_by_role("heading", level=1)).to_have_text("arlarena-bench leaderboard")
    expect(page.locator(".lb-count").first).to_be_attached()


def open_tab(page: Page, name: str) -> None:
    """Open a tab, on a telephone through the menu of those that find no room."""
    tab = page.get_by_role("tab", name=name, exact=True)
    if not tab.is_visible():
        page.locator(".overflow-menu > button").click()
        tab = page.locator(".overflow-dropdown button", has_text=name)
    tab.click()
    expect(shown(page)).to_be_visible()


def shown(page: Page) -> Locator:
    return page.locator('[role="tabpanel"]:visible')


def violations(page: Page) -> list[str]:
    """What axe finds that is serious, once every figure is drawn."""
    # Gradio's own label of a figure that is still to come is one of axe's findings.
    expect(page.get_by_label("Empty value").locator("visible=true")).to_have_count(0)
    found = Axe().run(page).response["violations"]
    return [
        f"{each['id']}: {node['html'][:200]}"
        for each in found
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]
