"""Takes the screenshot of a report for the documentation.

    python scripts/screenshot_report.py runs/NAME/report.html --out docs

writes `report.png`, the top of the page, with a headless Chromium: the one in ARLARENA_CHROMIUM if
set, otherwise the system's.
"""

import argparse
import os
import shutil
import sys
from pathlib import Path
from typing import Literal

from playwright.sync_api import FloatRect, Page, sync_playwright

NAME = "report.png"
LARGEST = 300_000
"""Maximum size of a screenshot in the repository, in bytes."""

_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
_WIDTH, _HEIGHT = 1200, 800


def main() -> int:
    """Run the program."""
    parser = argparse.ArgumentParser(description="Take a picture of a report.")
    parser.add_argument("report", type=Path, help="a run's report.html")
    parser.add_argument("--out", type=Path, default=Path("docs"), help="folder (default: docs)")
    parser.add_argument("--scheme", choices=("light", "dark"), default="light")
    arguments = parser.parse_args()
    chromium = os.environ.get("ARLARENA_CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        print("no Chromium: install one or name it in ARLARENA_CHROMIUM", file=sys.stderr)
        return 2
    if not arguments.report.is_file():
        print(f"{arguments.report} is not a file: name a run's report.html", file=sys.stderr)
        return 2
    arguments.out.mkdir(parents=True, exist_ok=True)
    _take(arguments, chromium, arguments.scheme)
    size = (arguments.out / NAME).stat().st_size
    print(f"{arguments.out / NAME}: {size / 1000:.0f} kB")
    if size > LARGEST:
        print(f"it is larger than {LARGEST / 1000:.0f} kB", file=sys.stderr)
        return 1
    return 0


def _take(arguments: argparse.Namespace, chromium: str, scheme: Literal["light", "dark"]) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=_ARGUMENTS)
        context = browser.new_context(
            viewport={"width": _WIDTH, "height": _HEIGHT},
            color_scheme=scheme,
            device_scale_factor=1.5,
        )
        page = context.new_page()
        page.goto(arguments.report.resolve().as_uri())
        page.locator("#list li").first.wait_for()
        page.screenshot(path=arguments.out / NAME, clip=_top(page))
        browser.close()


def _top(page: Page) -> FloatRect:
    """The region of the page down to the end of the first panel's figures."""
    box = page.locator(".figures").first.bounding_box()
    height = box["y"] + box["height"] + 20 if box else _HEIGHT
    page.set_viewport_size({"width": _WIDTH, "height": int(height)})
    return {"x": 0, "y": 0, "width": _WIDTH, "height": height}


if __name__ == "__main__":
    sys.exit(main())
