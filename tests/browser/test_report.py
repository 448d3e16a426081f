"""The report in a real browser: it loads nothing, its episode browser works, it fits a phone."""

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, expect

from benchmark.engines.core.scripted import ScriptedEngine
from benchmark.evaluation.protocol import SamplingOverrides
from benchmark.evaluation.summarize import summarize
from benchmark.report import report_html
from tasks.registry import load_task
from tasks.sokoban.task import SokobanTask
from tasks.webshop import pages
from tests.browser.chromium import DESKTOP, launched
from tests.support.runs.report_runs import INJECTION, ErringEngine, Run, make_run, with_error

pytestmark = pytest.mark.browser

PHONE: ViewportSize = {"width": 360, "height": 740}
SHIFTS = """
window.shift = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) window.shift += entry.value;
}).observe({ type: "layout-shift", buffered: true });
"""


@pytest.fixture(scope="module")
def run() -> Run:
    """Two panels, twenty episodes of each, every kind of trouble among them."""
    run = make_run(("builtin", "two_boxes"), ErringEngine(0.8, 0.1), episodes=20)
    records = list(run.records)
    records[3] = with_error(records[3])
    records[30] = records[30].model_copy(update={"score": 123.5})
    turn = records[0].turns[0].model_copy(update={"response": INJECTION * 20})
    records[0] = records[0].model_copy(update={"turns": (turn, *records[0].turns[1:])})
    return Run(run.manifest, records, summarize(run.manifest, records), run.sessions)


@pytest.fixture(scope="module")
def address(run: Run, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(report_html(*run.arguments), "utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def repeats_address(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("repeats") / "report.html"
    run = make_run(
        engine=ScriptedEngine("random"), choices=SamplingOverrides(temperature=0.7, repeats=2)
    )
    path.write_text(report_html(*run.arguments), "utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def hostile_shop(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The report of a shop whose products are called what a hostile seller would call them."""
    path = tmp_path_factory.mktemp("shop") / "report.html"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "_line", lambda text: f"{INJECTION} {text}")
        run = make_run(engine=ScriptedEngine("expert"), episodes=3, task_name="webshop")
        path.write_text(report_html(*run.arguments), "utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def browser(address: str, repeats_address: str, hostile_shop: str) -> Iterator[Browser]:
    with launched() as found:
        yield found


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport=DESKTOP)
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext, address: str) -> Iterator[Page]:
    """An open report; whatever it logs, throws or asks the network for fails the test."""
    page, faults = open_page(context)
    page.goto(address)
    expect(page.locator("#count")).to_have_text("40 of 40 episodes")
    yield page
    assert faults == []


def open_page(context: BrowserContext) -> tuple[Page, list[str]]:
    page = context.new_page()
    faults: list[str] = []
    page.on("console", lambda message: faults.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: faults.append(f"error: {error}"))
    page.on("dialog", lambda dialog: faults.append(f"dialog: {dialog.message}"))
    page.on(
        "request",
        lambda request: (
            faults.append(request.url) if not request.url.startswith(("file:", "data:")) else None
        ),
    )
    return page, faults


def shown(page: Page) -> int:
    return page.locator("#list a").count()


def test_filters_show_what_the_records_say(page: Page, run: Run) -> None:
    def invalid(number: int) -> bool:
        return any(not (t.format_ok and t.action_ok) for t in run.records[number].turns)

    numbers = range(len(run.records))
    expected = {
        "all": 40,
        "solved": sum(record.success for record in run.records),
        "failed": sum(not record.success and record.error is None for record in run.records),
        "error": 1,
        "invalid": sum(map(invalid, numbers)),
        # The error's record, cut after two turns, replays; the changed response and score do not.
        "differs": 2,
    }
    for name, count in expected.items():
        page.locator(f'[data-filter="{name}"]').click()
        assert shown(page) == count, name
        expect(page.locator("#count")).to_have_text(f"{count} of 40 episodes")
        expect(page.locator("#list a[aria-current]")).to_be_visible()


def test_panel_category_and_search_narrow_the_list(page: Page, run: Run) -> None:
    page.locator("#panel-select").select_option(label="sokoban/two_boxes")
    assert shown(page) == 20
    category = run.records[20].category
    page.locator("#category-select").select_option(label=category)
    two_boxes = run.records[20:]
    assert shown(page) == sum(record.category == category for record in two_boxes)
    page.locator("#category-select").select_option(label="all")
    page.locator("#search").fill("BOXES-01")
    assert shown(page) == 10
    page.locator("#search").fill("nothing like this")
    assert shown(page) == 0
    expect(page.locator("#count")).to_have_text("0 of 40 episodes")


def test_arrow_keys_step_through_an_episode(page: Page, run: Run) -> None:
    page.locator("#list a").nth(5).click()
    record = run.records[5]
    current = page.locator('#strip [aria-current="step"]')
    for number, turn in enumerate(record.turns, 1):
        expect(current).to_have_text(str(number))
        expect(page.locator("#detail .action")).to_have_text(turn.action or "nothing executed")
        assert page.url.endswith(f"#episode=sokoban/builtin/{record.episode}&turn={number}")
        page.keyboard.press("ArrowRight")
    expect(current).to_have_text("end")
    expect(page.locator("#detail .action")).to_have_text("solved" if record.success else "failed")
    page.keyboard.press("ArrowRight")
    expect(current).to_have_text("end")
    page.keyboard.press("ArrowLeft")
    expect(current).to_have_text(str(len(record.turns)))
    page.locator("#previous").click()
    expect(current).to_have_text(str(len(record.turns) - 1))
    page.locator("#next").click()
    expect(current).to_have_text(str(len(record.turns)))


def test_the_list_is_used_with_the_keyboard_alone(page: Page) -> None:
    page.locator("#search").focus()
    page.keyboard.press("Tab")
    first = page.locator("#list a").first
    expect(first).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.locator("#list a").nth(1)).to_be_focused()
    expect(page.locator("#episode-name")).to_contain_text("one-box-001")
    page.keyboard.press("Tab")
    expect(page.locator("#next")).to_be_enabled()
    assert page.locator('#list a[tabindex="0"]').count() == 1


def test_the_board_is_the_world_s(page: Page) -> None:
    # One box, first level: "#.$_##", "#_@_##" (see the panel).
    label = page.locator(".board").get_attribute("aria-label")
    assert label == (
        "Board of 6 rows and 6 columns, counted from 0: target at row 1 column 1; "
        "box at row 1 column 2; player at row 2 column 2"
    )
    fills = page.locator('.board rect[fill="#5d5a56"]')
    assert fills.count() == 36 - 9


def test_a_link_opens_its_episode_and_turn(page: Page, address: str, run: Run) -> None:
    page.goto(f"{address}#episode=sokoban/two_boxes/two-boxes-003&turn=2")
    expect(page.locator("#episode-name")).to_contain_text("two-boxes-003")
    expect(page.locator('#strip [aria-current="step"]')).to_have_text("2")
    page.goto(f"{address}#episode=one-box-004&turn=end")
    expect(page.locator("#episode-name")).to_contain_text("one-box-004")
    expect(page.locator('#strip [aria-current="step"]')).to_have_text("end")
    page.goto(f"{address}#episode=one-box-004&turn=-7e9")
    expect(page.locator('#strip [aria-current="step"]')).to_have_text("1")
    page.goto(f"{address}#episode=<img src=x onerror=alert(1)>")
    expect(page.locator("#browser-fault")).to_have_text(
        "This report has no episode <img src=x onerror=alert(1)>."
    )


def test_an_episode_that_does_not_replay_says_so(page: Page, address: str, run: Run) -> None:
    page.goto(f"{address}#episode={run.records[30].episode}")
    notes = page.locator("#episode-notes")
    expect(notes).to_contain_text("Does not replay.")
    expect(notes).to_contain_text("episode, score: recorded 123.5, replayed")


def test_what_a_model_wrote_is_text(page: Page, address: str, run: Run) -> None:
    page.goto(f"{address}#episode={run.records[0].episode}&turn=1")
    response = page.locator("#detail pre.text").first
    expect(response).to_contain_text('</script><script>document.title = "owned"</script>')
    expect(response).to_contain_text("U+202Ereversed")
    assert response.locator("script, img, svg").count() == 0
    assert response.locator(".hidden-character").count() == 4 * 20
    assert page.title() == "tiny-sokoban on sokoban/builtin, sokoban/two_boxes"
    page.goto(f"{address}#episode={run.records[3].episode}")
    expect(page.locator("#episode-notes .notice")).to_contain_text("<svg/onload=alert(1)>")


def test_raw_texts_stay_open_from_turn_to_turn(page: Page) -> None:
    page.locator("#list a").nth(6).click()
    observation = page.locator("#detail details", has_text="Raw observation")
    observation.locator("summary").click()
    expect(observation.locator("pre")).to_contain_text("Player: ")
    page.keyboard.press("ArrowRight")
    expect(observation.locator("pre")).to_be_visible()


def test_repeats_have_links_of_their_own(context: BrowserContext, repeats_address: str) -> None:
    page, faults = open_page(context)
    page.goto(f"{repeats_address}#episode=sokoban/builtin/one-box-001&repeat=1&turn=2")
    expect(page.locator("#episode-facts")).to_contain_text("repeat 1")
    page.keyboard.press("ArrowLeft")
    assert page.url.endswith("#episode=sokoban/builtin/one-box-001&repeat=1&turn=1")
    assert faults == []


def test_a_task_without_tiles_shows_its_observations_as_text(
    context: BrowserContext, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = dataclasses.replace(SokobanTask.info.presentation, tiles={})
    info = dataclasses.replace(SokobanTask.info, presentation=shown)
    monkeypatch.setattr(SokobanTask, "info", info)
    path = tmp_path / "report.html"
    path.write_text(report_html(*run.arguments), "utf-8")
    page, faults = open_page(context)
    page.goto(path.as_uri())
    expect(page.locator("#scene pre")).to_contain_text("#.$_##\n#_@_##")
    assert page.locator(".board").count() == 0
    assert faults == []


def test_a_long_list_is_drawn_in_parts(context: BrowserContext, repeats_address: str) -> None:
    page, faults = open_page(context)
    page.goto(repeats_address)
    expect(page.locator("#count")).to_have_text("512 of 512 episodes")
    assert shown(page) == 400
    page.get_by_role("button", name="Show 112 more").click()
    assert shown(page) == 512
    expect(page.locator("#list a").nth(400)).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.locator("#list a").nth(401)).to_have_attribute("aria-current", "true")
    page.reload()
    expect(page.locator("#list a").nth(401)).to_be_in_viewport()
    assert faults == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_it_fits_and_does_not_jump(
    browser: Browser, address: str, viewport: ViewportSize, scheme: Literal["light", "dark"]
) -> None:
    context = browser.new_context(viewport=viewport, color_scheme=scheme)
    context.add_init_script(SHIFTS)
    page, faults = open_page(context)
    page.goto(address)
    expect(page.locator("#count")).to_have_text("40 of 40 episodes")
    assert page.evaluate("window.shift") < 0.02
    for details in page.locator("details").all():
        details.evaluate("element => { element.open = true; }")
    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    page.goto(f"{address}#episode=sokoban/builtin/one-box-000&turn=1")
    expect(page.locator("#detail pre.text").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    channels = [int(channel) for channel in re.findall(r"\d+", background)[:3]]
    assert (max(channels) < 60) == (scheme == "dark")
    assert faults == []
    context.close()


def test_printed_pages_hold_the_numbers_and_not_the_browser(page: Page) -> None:
    page.emulate_media(media="print")
    expect(page.locator("#browser")).to_be_hidden()
    expect(page.locator(".big").first).to_be_visible()
    expect(page.locator("svg.figure").first).to_be_visible()
    expect(page.get_by_text("works on screen only")).to_be_visible()


def test_without_scripts_the_numbers_are_there(browser: Browser, address: str) -> None:
    context = browser.new_context(viewport=DESKTOP, java_script_enabled=False)
    page = context.new_page()
    page.goto(address)
    expect(page.locator(".big").first).to_be_visible()
    expect(page.get_by_text("The episode browser needs JavaScript")).to_be_visible()
    expect(page.locator("#browser")).to_be_hidden()
    context.close()


def test_markup_in_a_products_name_is_shown_as_text(
    context: BrowserContext, hostile_shop: str
) -> None:
    page, faults = open_page(context)
    entry = load_task("webshop").panel("builtin").entries[0].id
    page.goto(f"{hostile_shop}#episode=webshop/builtin/{entry}&turn=2")
    shown = page.locator("#scene")
    # The results page of the first search: every name as it was written, none as an element.
    expect(shown).to_contain_text("<script>")
    assert shown.locator("script, img, svg[onload], iframe").count() == 0
    assert faults == []
