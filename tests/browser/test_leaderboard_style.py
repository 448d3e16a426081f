"""The leaderboard's style sheet in a real browser: focus, frames that scroll, tight rows."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from playwright.sync_api import Browser, Locator, Page, ViewportSize, expect

from leaderboard.board.file import PARQUET, parquet_bytes
from leaderboard.board.protocols import Grid
from leaderboard.board.training_rows import Spark
from tests.browser.chromium import DESKTOP, launched
from tests.browser.leaderboard_pages import PHONE, open_at, open_tab, served, shown, violations
from tests.support.board_rows import synthetic_content

pytestmark = pytest.mark.browser

ACCENTS = {"light": "rgb(11, 92, 173)", "dark": "rgb(116, 180, 245)"}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("leaderboard")
    content = synthetic_content(12, 20)
    grid = Grid(("sokoban-standard", "sokoban-stress"), ("grpo", "dapo_gigpo"), (), ())
    content = replace(content, facts=replace(content.facts, grid=grid))
    (root / PARQUET).write_bytes(parquet_bytes(content))
    with served(root / PARQUET, root) as found:
        yield found


@pytest.fixture(scope="module")
def long_names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A board on five tracks of a task, with names as long as those of real entries."""
    root = tmp_path_factory.mktemp("long-names")
    content = synthetic_content(12, 20)
    tracks = ("sokoban-standard", "all-standard", "sokoban-stress", "all-async-1", "all-async-4")
    rows = [
        replace(
            row, track=tracks[place % 5], name="DAPO_GIGPO sokoban-standard", recipe="dapo_gigpo",
            base_model="tiny-webshop-mixed", sparks=(Spark(0, (0, 9), (0.2, 0.3), None),),
        )
        if row.kind == "trained" else row
        for place, row in enumerate(content.rows)
    ]  # fmt: skip
    (root / PARQUET).write_bytes(parquet_bytes(replace(content, rows=tuple(rows))))
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


def test_rows_are_tight_and_the_table_as_high_as_its_rows(browser: Browser, address: str) -> None:
    page = browser.new_page(viewport=DESKTOP)
    open_at(page, address)
    # Two lines each, three where a name is long.
    assert max(heights(page)) < 66
    page.set_viewport_size({"width": 1280, "height": 400})
    box = page.locator(".lb-scroll:has(.lb-board)").bounding_box()
    assert box is not None and box["height"] > sum(heights(page)) > 400
    page.close()


def test_heads_stay_while_one_task_s_rows_go_by(browser: Browser, address: str) -> None:
    numbers = ("dependable", "collapse_rate", "worst_seed", "retention")
    columns = "&".join(f"columns={name}" for name in numbers)
    page = browser.new_page(viewport=DESKTOP)
    open_at(page, f"{address}?tab=board&panels=sokoban/builtin&{columns}")
    expect(page.locator(".lb-board thead")).not_to_contain_text("ALFWorld")
    page.set_viewport_size({"width": 1280, "height": 400})
    page.locator(".lb-board tbody tr").nth(8).evaluate("e => e.scrollIntoView()")
    head = page.locator(".lb-board thead th").first.bounding_box()
    assert head is not None and head["y"] == 0
    # With more columns than the page is wide, their frame scrolls sideways and the page does not.
    open_at(page, f"{address}?tab=board&panels=built-in")
    expect(page.locator(".lb-board thead")).to_contain_text("ALFWorld")
    wide = "e => [e.scrollWidth > e.clientWidth, document.documentElement.scrollWidth]"
    page.set_viewport_size({"width": 900, "height": 400})
    frame = page.locator(".lb-scroll:has(.lb-board)")
    assert frame.evaluate(wide) == [True, 900]
    page.close()


def test_a_telephone_shows_the_collapse_beside_success(browser: Browser, address: str) -> None:
    page = browser.new_page(viewport=PHONE)
    open_at(page, f"{address}?tab=board&panels=sokoban/builtin")
    expect(page.locator(".lb-board thead")).not_to_contain_text("ALFWorld")
    card = page.locator(".lb-board tbody tr").first
    for cell in (".lb-success", "td[data-label=collapse]", ".lb-named"):
        box = card.locator(cell).bounding_box()
        assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= PHONE["width"]
    # Rank and name share a line, success and collapse follow in one each, the others in pairs.
    cells = [".lb-rank", ".lb-name", ".lb-success", "td[data-label=collapse]"]
    tops = [(card.locator(cell).bounding_box() or {"y": -1})["y"] for cell in cells]
    assert tops[0] == tops[1] < tops[2] < tops[3]
    others = card.locator("td:not(.lb-rank):not(.lb-success):not([data-label=collapse]):visible")
    below = [(other.bounding_box() or {"y": -1})["y"] for other in others.all()]
    assert min(below) > tops[3] and len(set(below)) < len(below)
    page.close()


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE])
def test_an_explanation_in_a_table_is_read_whole(
    browser: Browser, address: str, viewport: ViewportSize
) -> None:
    page = browser.new_page(viewport=viewport)
    open_at(page, f"{address}?tab=coverage")
    page.locator(".lb-hole:visible").first.click()
    shown = page.locator(".lb-explained:popover-open")
    assert (
        shown.evaluate("e => e.scrollWidth <= e.clientWidth && getComputedStyle(e).textAlign")
        == "left"
    )
    expect(shown.get_by_role("button", name="Copy: the training")).to_be_visible()
    page.close()


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE])
def test_leaders_stand_beside_each_other_without_scrolling(
    browser: Browser, long_names: str, viewport: ViewportSize
) -> None:
    """And no row is high for the sake of a narrow column."""
    page = browser.new_page(viewport=viewport)
    open_at(page, long_names)
    frame = page.locator(".lb-scroll:has(.lb-summary)").locator("visible=true").first
    assert frame.evaluate("e => e.scrollWidth <= e.clientWidth")
    rows = frame.locator("tbody tr").evaluate_all(
        "rows => rows.map(row => row.getBoundingClientRect().height)"
    )
    assert max(rows) < 120
    page.close()


def test_a_long_name_does_not_push_the_curve_over_the_number(
    browser: Browser, long_names: str
) -> None:
    page = browser.new_page(viewport=DESKTOP)
    open_at(page, f"{long_names}?tab=board&panels=sokoban/builtin")
    expect(page.locator(".lb-board thead")).not_to_contain_text("ALFWorld")
    beyond = """cells => cells.filter(cell => { const curve = cell.querySelector('.lb-spark');
        return curve.getBoundingClientRect().right > cell.getBoundingClientRect().right })"""
    cells = page.locator(".lb-board tbody th.lb-name:has(.lb-spark)")
    assert cells.count() > 3 and cells.evaluate_all(f"cells => ({beyond})(cells).length") == 0
    page.close()


def test_a_phone_has_room_for_the_figure_s_legend(browser: Browser, long_names: str) -> None:
    page = browser.new_page(viewport=PHONE)
    open_at(page, f"{long_names}?tab=board&panels=sokoban/builtin")
    figure = shown(page).locator(".lb-plot svg.marks").first
    names = figure.locator(".role-legend-label text")
    expect(names).to_have_text(["all-standard", "standard", "stress", "all-async-1", "all-async-4"])
    ends = names.evaluate_all("texts => texts.map(text => text.getBoundingClientRect().right)")
    assert max(ends) <= figure.evaluate("e => e.getBoundingClientRect().right")
    page.close()
