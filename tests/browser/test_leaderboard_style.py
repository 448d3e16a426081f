"""The leaderboard's style sheet in a real browser: focus, frames that scroll, tight rows."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from leaderboard.board.file import PARQUET, parquet_bytes
from tests.browser.chromium import DESKTOP, launched
from tests.browser.leaderboard_pages import PHONE, open_at, open_tab, served, shown, violations
from tests.support.board_rows import synthetic_content

pytestmark = pytest.mark.browser

ACCENTS = {"light": "rgb(11, 92, 173)", "dark": "rgb(116, 180, 245)"}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("leaderboard")
    (root / PARQUET).write_bytes(parquet_bytes(synthetic_content(12, 20)))
    with served(root / PARQUET, root) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as found:
        yield found


def ring(part: Locator) -> tuple[str, str, str]:
    found: list[str] = part.evaluate(
        "e => { const s = getComputedStyle(e);"
        " return [s.outlineStyle, s.outlineWidth, s.outlineColor] }"
    )
    return found[0], found[1], found[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_focus_is_seen_on_every_control(browser: Browser, address: str, scheme: str) -> None:
    context = browser.new_context(
        viewport=DESKTOP, color_scheme="dark" if scheme == "dark" else "light"
    )
    page = context.new_page()
    open_at(page, address)
    shown = ("solid", "2px", ACCENTS[scheme])
    search = page.locator("#search textarea, #search input").first
    box = page.get_by_role("combobox", name="Track", exact=True).locator("visible=true")
    frame = page.locator(".wrap:has(> .wrap-inner)").filter(has=box)
    assert ring(search)[0] == ring(frame)[0] == "none"
    # The keys move the focus, a pointer would not show it.
    search.focus()
    page.keyboard.press("Tab")
    assert box.evaluate("e => e === document.activeElement")
    assert ring(frame) == shown
    page.keyboard.press("Shift+Tab")
    assert search.evaluate("e => e === document.activeElement")
    assert ring(search) == shown
    filters = page.get_by_role("button", name="Filters and columns")
    filters.focus()
    assert ring(filters) == shown
    context.close()


def test_what_is_unfolded_can_be_scrolled_by_keys(browser: Browser, address: str) -> None:
    page = browser.new_page(viewport=DESKTOP)
    open_at(page, address)
    open_tab(page, "Entry")
    expect(shown(page).locator("pre.lb-text").nth(2)).to_be_attached()
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.locator("pre.lb-text:visible").count() > 2
    assert violations(page) == []
    scrolls = """es => es.filter(e => e.scrollHeight > e.clientHeight + 1
        && e.tabIndex < 0).map(e => e.textContent)"""
    assert page.locator("pre.lb-text:visible").evaluate_all(scrolls) == []
    page.close()


def heights(page: Page) -> list[float]:
    found: list[float] = page.locator(".lb-board tbody tr").evaluate_all(
        "rows => rows.map(row => row.getBoundingClientRect().height)"
    )
    return found


def test_rows_are_tight_and_the_table_as_high_as_the_window(browser: Browser, address: str) -> None:
    page = browser.new_page(viewport=DESKTOP)
    open_at(page, address)
    # Two lines each, three where a name is long.
    assert max(heights(page)) < 66
    page.set_viewport_size({"width": 1280, "height": 400})
    box = page.locator(".lb-scroll:has(.lb-board)").bounding_box()
    assert box is not None
    assert 370 < box["height"] < 400
    page.close()


def test_a_telephone_shows_the_collapse_beside_success(browser: Browser, address: str) -> None:
    page = browser.new_page(viewport=PHONE)
    open_at(page, f"{address}?tab=board&panels=sokoban/builtin")
    expect(page.locator(".lb-board thead")).not_to_contain_text("ALFWorld")
    card = page.locator(".lb-board tbody tr").first
    for cell in (".lb-success", "td[data-label=collapse]", ".lb-named"):
        box = card.locator(cell).bounding_box()
        assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= PHONE["width"]
    # A label to the left, what it says to the right.
    chip = card.locator(".lb-chip").bounding_box()
    assert chip is not None and chip["x"] > PHONE["width"] / 3
    page.close()
