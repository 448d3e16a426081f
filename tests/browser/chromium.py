"""Chromium as the tests start it: without a screen, and asking the network for nothing itself."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ViewportSize, expect, sync_playwright

# A busy machine takes its time over a page, and more over Gradio's start.
expect.set_options(timeout=90_000)

DESKTOP: ViewportSize = {"width": 1280, "height": 900}
_ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextmanager
def launched() -> Iterator[Browser]:
    """A browser. It comes after whatever plays: playing needs an event loop, it occupies one."""
    executable = _chromium()
    if executable is None:
        pytest.skip("no Chromium: install one or name it in ARLARENA_CHROMIUM")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=_ARGUMENTS)
        yield browser
        browser.close()


def _chromium() -> str | None:
    chosen = os.environ.get("ARLARENA_CHROMIUM")
    found = [chosen, "/usr/bin/chromium", *map(shutil.which, ("chromium", "google-chrome"))]
    return next((path for path in found if path and Path(path).exists()), None)
