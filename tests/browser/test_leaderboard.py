"""The leaderboard in a real browser: every tab, links, hostile texts, a telephone, the dark."""

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, Route, ViewportSize, expect

from leaderboard.board.build import build
from leaderboard.board.file import PARQUET, BoardContent, parquet_bytes
from leaderboard.board.protocols import BoardFacts
from tests.browser.chromium import DESKTOP, launched
from tests.browser.leaderboard_pages import PHONE, open_at, open_tab, served, shown, violations
from tests.support.board_rows import hostile, synthetic_content
from tests.support.runs.report_runs import INJECTION
from tests.support.submissions.small import INITS, policy_submission

pytestmark = pytest.mark.browser

TABS = (
    "Board", "Stability", "Curves", "Collapses", "Entry", "Compare", "Paper", "Coverage", "Submit",
    "About",
)  # fmt: skip
HOSTILE = INJECTION + " ${document.title=1} [x](javascript:alert(1)) \"onmouseover='alert(1)'"
REAL = "20260102_policy"


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where screenshots go: a folder that ARLARENA_ARTEFACTS names, or one of the test's own."""
    named = os.environ.get("ARLARENA_ARTEFACTS")
    folder = Path(named) if named else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def address(expert_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A served board: synthetic entries, a hostile one, and a real one under another protocol."""
    root = tmp_path_factory.mktemp("leaderboard")
    submissions = root / "submissions"
    submissions.mkdir()
    policy_submission(submissions, expert_run)
    real = build(submissions, INITS).content
    made = synthetic_content(30, 50)
    # On tracks, off which no method is the best one.
    rows = [
        replace(r, track="mixed-standard" if r.kind == "trained" else "open") for r in made.rows
    ]
    trained = next(place for place, row in enumerate(rows) if row.stability is not None)
    rows[trained] = hostile(rows[trained], HOSTILE)
    other = replace(real.facts.protocols[0], name="real")
    facts = BoardFacts(made.facts.version, (*made.facts.protocols, other), ())
    known = (*rows, *(replace(row, protocol="real") for row in real.rows))
    (root / PARQUET).write_bytes(parquet_bytes(BoardContent(facts, known)))
    with served(root / PARQUET, submissions) as found:
        yield found


@pytest.fixture(scope="module")
def browser(address: str) -> Iterator[Browser]:
    with launched() as found:
        yield found


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    yield from visit(browser, address)


@pytest.fixture
def phone(browser: Browser, address: str) -> Iterator[Page]:
    yield from visit(browser, address, PHONE)


@pytest.fixture
def dark(browser: Browser, address: str) -> Iterator[Page]:
    yield from visit(browser, address, scheme="dark")


def visit(
    browser: Browser,
    address: str,
    viewport: ViewportSize = DESKTOP,
    scheme: Literal["light", "dark"] = "light",
) -> Iterator[Page]:
    """An open page; whatever it logs, throws or asks of other addresses fails the test."""
    context = browser.new_context(viewport=viewport, color_scheme=scheme)
    page = context.new_page()
    faults: list[str] = []
    page.on(
        "console",
        # Gradio's own table of messages is warned about by its own library.
        lambda m: None if "[svelte-i18n]" in m.text else faults.append(f"console: {m.text}"),
    )
    page.on("pageerror", lambda error: faults.append(f"error: {error}"))
    page.on("dialog", lambda dialog: faults.append(f"dialog: {dialog.message}"))
    page.on(
        "request",
        lambda r: None if r.url.startswith((address, "data:")) else faults.append(r.url),
    )
    page.on("response", lambda r: faults.append(r.url) if r.status >= 400 else None)
    open_at(page, address)
    yield page
    assert page.title() == "arlarena-bench leaderboard"
    context.close()
    assert faults == []


def choose(page: Page, label: str, option: str) -> None:
    """Choose an option of one of gradio's lists."""
    page.get_by_role("combobox", name=label, exact=True).locator("visible=true").click()
    page.get_by_role("option", name=option, exact=True).click()


def task(page: Page, title: str) -> None:
    """Choose a task: a pill."""
    shown(page).locator(".lb-pills label", has_text=title).click()


def names(page: Page) -> list[str]:
    """Names of the ranked entries, as they stand."""
    ranked = page.locator(".lb-board tbody tr:not(.lb-reference)")
    return ranked.locator(".lb-named > span > a:first-child").all_inner_texts()


def test_every_tab_opens_and_can_be_read_aloud(page: Page, artifacts: Path) -> None:
    for number, name in enumerate(TABS):
        open_tab(page, name)
        if name == "Board":
            page.get_by_role("button", name="Filters and columns").click()
            expect(page.get_by_label("Worst first")).to_be_visible()
        page.screenshot(path=artifacts / f"desktop-{number}.png", full_page=True)
        assert violations(page) == [], name
    open_tab(page, "Curves")
    expect(shown(page).locator(".lb-plot svg.marks")).to_have_count(6)


def test_the_dark_can_be_read_too(dark: Page, artifacts: Path) -> None:
    expect(dark.locator("body.dark")).to_be_attached()
    for number, name in enumerate(TABS[:5]):
        open_tab(dark, name)
        dark.screenshot(path=artifacts / f"dark-{number}.png")
        if name in ("Stability", "Entry"):
            assert violations(dark) == [], name


def test_a_telephone_shows_everything(phone: Page, artifacts: Path) -> None:
    for number, name in enumerate(TABS):
        open_tab(phone, name)
        phone.screenshot(path=artifacts / f"phone-{number}.png", full_page=True)
        wide = phone.evaluate("document.documentElement.scrollWidth")
        assert wide <= PHONE["width"], name
    assert violations(phone) == []


def test_heads_sort_and_the_address_follows(page: Page) -> None:
    before = names(page)
    page.locator(".lb-board thead").get_by_role("link", name="entry", exact=True).click()
    expect(page.locator(".lb-board th[aria-sort]")).to_have_text(re.compile("entry"))
    after = names(page)
    assert after == sorted(after, key=str.casefold)
    assert sorted(after) == sorted(before)
    expect(page).to_have_url(re.compile("sort=name"))
    page.locator(".lb-board thead").get_by_role("link", name="entry").click()
    expect(page.locator(".lb-board th[aria-sort=descending]")).to_be_visible()
    assert names(page) == list(reversed(after))
    page.go_back()
    expect(page.locator(".lb-board th[aria-sort=ascending]")).to_have_text(re.compile("entry"))
    assert names(page) == after


def test_filters_and_a_shared_link(page: Page, browser: Browser, address: str) -> None:
    task(page, "Sokoban")
    expect(page.locator(".lb-board thead")).not_to_contain_text("ALFWorld")
    page.get_by_label("Search").fill("sampo")
    expect(page.locator(".lb-count").first).to_have_text(re.compile(r"^[1-9] of 30 entries"))
    assert all("sampo" in name for name in names(page))
    page.get_by_role("button", name="Filters and columns").click()
    page.get_by_label("valid format", exact=True).check()
    expect(page.locator(".lb-board thead")).to_contain_text("valid format")
    expect(page).to_have_url(re.compile("search=sampo.*columns=format_valid"))
    link = page.get_by_role("link", name="Link to this view").first.get_attribute("href")
    for other in visit(browser, address):
        open_at(other, f"{address}{link}")
        expect(other.get_by_label("Search")).to_have_value("sampo")
        expect(other.locator(".lb-board thead")).to_contain_text("valid format")
        assert names(other) == names(page)


def test_a_link_that_asks_for_too_much_opens_and_says_so(page: Page, address: str) -> None:
    open_at(page, f"{address}?tab=board&panels=sokoban/builtin&search={'a' * 201}{'&x=1' * 2_000}")
    notice = page.get_by_text("This link asks for more than is shown")
    expect(notice).to_contain_text("a search has at most 200")
    expect(page.get_by_label("Search")).to_have_value("a" * 200)
    expect(page.locator(".lb-count").first).to_have_text(re.compile("^0 of [0-9]+ entries"))


@pytest.mark.parametrize("device", ["page", "phone"])
def test_the_address_follows_the_tab_and_back_leads_back(
    device: str, request: pytest.FixtureRequest
) -> None:
    page: Page = request.getfixturevalue(device)
    open_tab(page, "Curves")
    expect(page).to_have_url(re.compile(r"\?tab=curves&"))
    open_tab(page, "About")
    expect(page).to_have_url(re.compile(r"\?tab=about$"))
    page.go_back()
    expect(page).to_have_url(re.compile(r"\?tab=curves&"))
    expect(shown(page)).to_contain_text("gradient norm")
    page.go_back()
    expect(shown(page).locator("table.lb-board")).to_be_visible()


def test_a_task_is_asked_for_in_all_tabs(page: Page) -> None:
    task(page, "ALFWorld (")
    expect(shown(page).locator(".lb-board thead")).to_contain_text("ALFWorld")
    open_tab(page, "Stability")
    expect(page).to_have_url(re.compile("panels=alfworld%2Fbuiltin"))
    expect(shown(page).locator(".lb-pills label.selected")).to_contain_text("ALFWorld (")


def test_the_table_can_be_downloaded(page: Page, tmp_path: Path) -> None:
    with page.expect_download() as download:
        page.get_by_role("link", name="Download CSV").click()
    path = tmp_path / "board.csv"
    download.value.save_as(path)
    lines = path.read_text("utf-8").splitlines()
    assert lines[0].startswith("id,rank [place]")
    assert len(lines) == 31


def test_keys_alone_are_enough(page: Page) -> None:
    page.get_by_role("tab", name="Board", exact=True).focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Which choice helps")).to_be_visible()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    shown(page).locator(".lb-scroll:has(.lb-board)").focus()
    # The head of the rank, what a rank is, the head of the entry.
    for key in ("Tab", "Tab", "Tab", "Enter"):
        page.keyboard.press(key)
    expect(page).to_have_url(re.compile("sort=name"))


def test_an_entry_opens_from_the_board_and_goes_on(page: Page) -> None:
    name = names(page)[0]
    page.locator(".lb-board tbody .lb-named > span > a").first.click()
    expect(page.get_by_role("heading", level=2, name=name, exact=True)).to_be_visible()
    expect(page).to_have_url(re.compile("tab=entry"))
    shown(page).get_by_role("link", name="Compare").click()
    expect(page.get_by_text("minus")).to_be_visible()
    expect(page.get_by_role("combobox", name="First entry")).to_have_value(
        re.compile(f"^{re.escape(name)} \u00b7 ")
    )
    page.go_back()
    expect(page.get_by_role("heading", level=2, name=name, exact=True)).to_be_visible()


def test_an_episode_is_drawn_turn_by_turn(page: Page, address: str, artifacts: Path) -> None:
    open_at(page, f"{address}?tab=entry&protocol=real&entry={REAL}&panel=sokoban/builtin")
    expect(page.get_by_role("heading", name="Episodes")).to_be_in_viewport()
    page.locator(".lb-list").get_by_role("link").nth(3).click()
    expect(page.locator(".lb-episode .lb-count")).to_have_text(re.compile("solved after"))
    expect(page.locator(".lb-episode h4")).to_be_in_viewport()
    assert page.locator(".lb-tiles").count() >= 4
    expect(page).to_have_url(re.compile("episode="))
    page.screenshot(path=artifacts / "episode.png", full_page=True)
    assert violations(page) == []
    turns = page.locator(".lb-turns > li")
    count = turns.count()
    page.get_by_role("button", name="Next turn").click()
    expect(page.locator(".lb-turns > li:visible")).to_have_text(re.compile(r"^1\. "))
    page.keyboard.press("ArrowRight")
    expect(page.locator(".lb-turns > li:visible")).to_have_text(re.compile(r"^2\. "))
    page.keyboard.press("Escape")
    expect(page.locator(".lb-turns > li:visible")).to_have_count(count)
    listed = page.locator(".lb-list li:visible")
    episode = page.locator(".lb-list a").nth(7).inner_text()
    page.get_by_role("searchbox", name="Find an episode").fill(episode)
    expect(listed).to_have_count(1)
    page.evaluate("scrollTo(0, 0)")
    page.goto(page.url)
    expect(page.locator(".lb-episode .lb-count")).to_have_text(re.compile("solved after"))
    expect(page.locator(".lb-episode h4")).to_be_in_viewport()


def test_a_link_to_episodes_leads_to_them(page: Page, address: str) -> None:
    open_at(page, f"{address}?tab=entry&protocol=real&entry={REAL}&panel=sokoban/builtin")
    heading = page.get_by_role("heading", name="Episodes")
    expect(heading).to_be_in_viewport()
    page.evaluate("scrollTo(0, 0)")
    page.get_by_role("link", name="sokoban/builtin").click()
    expect(heading).to_be_in_viewport()


def test_on_a_phone_a_chosen_episode_comes_into_view(phone: Page, address: str) -> None:
    """It stands below the list of all episodes."""
    open_at(phone, f"{address}?tab=entry&protocol=real&entry={REAL}&panel=sokoban/builtin")
    phone.locator(".lb-list").get_by_role("link").nth(3).click()
    title = phone.locator(".lb-episode h4")
    expect(title).to_be_in_viewport()
    phone.wait_for_function(
        "document.querySelector('.lb-episode h4').getBoundingClientRect().top < innerHeight * 0.61"
    )


def test_protocols_stay_apart(page: Page) -> None:
    choose(page, "Protocol", "real")
    expect(page.locator(".lb-count").first).to_have_text(re.compile("^1 entry,"))
    open_tab(page, "Entry")
    entry = page.get_by_role("combobox", name="Entry", exact=True)
    expect(entry).to_have_value("A policy entry \u00b7 policy")
    # The tab that is open stays open, with what the other protocol has.
    choose(page, "Protocol", "v1: the standard")
    expect(entry).not_to_have_value("A policy entry \u00b7 policy")
    expect(page.get_by_role("tab", name="Entry")).to_have_attribute("aria-selected", "true")
    choose(page, "Protocol", "real")
    expect(entry).to_have_value("A policy entry \u00b7 policy")
    # Who goes on to another tab before the answer has come is not taken back by it.
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/gradio_api/run/**", hold, times=1)
    choose(page, "Protocol", "v1: the standard")
    open_tab(page, "Board")
    expect(page.locator(".lb-count").first).to_have_text(re.compile("^30 entries"))
    with page.expect_response(lambda answer: answer.request == held[0].request):
        held[0].continue_()
    expect(page.get_by_role("tab", name="Board")).to_have_attribute("aria-selected", "true")
    open_tab(page, "Entry")
    expect(entry).not_to_have_value("A policy entry \u00b7 policy")


def test_hostile_texts_are_texts(page: Page, address: str, artifacts: Path) -> None:
    everything = "&".join(
        f"columns={name}"
        for name in ("recipe", "base_model", "init", "advantage", "clipping", "authors", "code")
    )
    open_at(page, f"{address}?tab=board&{everything}&search=%3Cscript%3E")
    row = page.locator(".lb-board tbody tr:not(.lb-divider)")
    expect(row).to_have_count(1)
    expect(row).to_contain_text('</script><script>document.title = "owned"</script>')
    expect(row).to_contain_text("U+202E")
    entry = page.locator(".lb-board tbody .lb-named > span > a").first
    page.screenshot(path=artifacts / "hostile.png")
    entry.click()
    expect(page.get_by_role("heading", level=2)).to_contain_text("<script>")
    for link in ("Training curves", "Compare"):
        shown(page).get_by_role("link", name=link, exact=True).click()
        expect(shown(page)).to_contain_text('document.title = "owned"')
        page.go_back()
        expect(page.get_by_role("heading", level=2).first).to_contain_text("<script>")
    open_at(
        page, f"{address}?tab=<img src=x onerror=alert(1)>&entry=%00%E2%80%AE&search={{{{7*7}}}}"
    )
    expect(page.get_by_text("This link asks for something")).to_contain_text("<img src=x")
    assert page.locator("img[src=x], .lb script, .lb [onerror], .lb [onmouseover]").count() == 0


def test_a_word_is_explained_by_click_and_by_key(page: Page) -> None:
    word = page.locator("h1 ~ .lb-lead button.lb-word")
    explained = page.locator("#lb-word-collapse")
    expect(explained).to_be_hidden()
    word.click()
    expect(explained).to_contain_text("lost at least half of what it gained")
    expect(explained.locator("svg")).to_be_visible()
    page.keyboard.press("Escape")
    expect(explained).to_be_hidden()
    word.focus()
    page.keyboard.press("Enter")
    expect(explained).to_be_visible()


def test_the_first_table_explains_its_methods_and_leads_to_every_task(page: Page) -> None:
    expect(page.locator("#lb-waiting")).to_have_count(0)
    row = page.locator(".lb-summary tbody tr").filter(has_text="TIR Math").first
    row.locator("td button.lb-word").first.click()
    explained = page.locator("[id^=lb-word-method]:popover-open")
    expect(explained).to_be_visible()
    page.keyboard.press("Escape")
    expect(explained).to_have_count(0)
    # Anywhere in the row: the task's link lies over all of it.
    box = row.locator("td").nth(1).bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page).to_have_url(re.compile("panels=tir_math%2Fbuiltin"))
    expect(shown(page).locator(".lb-pills label.selected")).to_contain_text("TIR Math")
    row.get_by_role("link", name="Reproduce").click()
    expect(page).to_have_url(re.compile("tab=entry"))


def test_title_and_answer_are_there_without_any_script(browser: Browser, address: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address)
    expect(page.get_by_role("heading", level=1)).to_have_text("arlarena-bench leaderboard")
    said = re.compile(r"(leads with|No clear leader: .* has) \d+\.\d% \[")
    expect(page.locator(".lb-answer").first).to_contain_text(said)
    context.close()


def test_what_other_sites_show_of_a_link(page: Page, address: str) -> None:
    def content(name: str) -> str | None:
        return page.locator(f'meta[property="{name}"]').get_attribute("content")

    assert content("og:title") == "arlarena-bench leaderboard"
    assert content("og:url") == address
    assert content("og:image") == f"{address}leaderboard.png"
    assert page.request.get(f"{address}leaderboard.png").headers["content-type"] == "image/png"
