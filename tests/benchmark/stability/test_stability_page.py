"""`arlarena-bench stability --html` and its figure."""

import json
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from benchmark.plots.stability import stability_svg
from benchmark.stability.definitions import DEFINITIONS
from benchmark.stability.recipes import LogReadingOptions, compared
from tests.benchmark.stability.command import (
    SUCCESS,
    run,
    seeds,
    verl_log,
)
from tests.support.training.logs import (
    run_lines,
    write_log,
)

HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e"


class Tags(HTMLParser):
    """Collects the tags and the text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, Sequence[tuple[str, str | None]]]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, attrs))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.mark.slow
def test_what_is_foreign_is_escaped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = verl_log(tmp_path / "a.jsonl")
    log.write_text(log.read_text() + json.dumps({"step": 3, "data": {HOSTILE: 1}}) + "\n")
    chart = tmp_path / "chart.csv"
    chart.write_text(f'Step,"{HOSTILE} - val/success_rate"\n0,0.5\n', "utf-8")
    page = tmp_path / "s.html"
    text = run(capsys, "--recipe", HOSTILE, log, "--recipe", "b", chart, "--out", page)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "U+001B" in text
    content = page.read_text("utf-8")
    assert "\x1b" not in content
    assert "\u202e" not in content
    parser = Tags()
    parser.feed(content)
    names = {tag for tag, _ in parser.tags}
    assert not names & {"script", "iframe", "object"}
    assert not any(name.startswith("on") for _, attrs in parser.tags for name, _ in attrs)
    assert any("<script>alert(1)</script>" in data for data in parser.texts)
    policies = [dict(attrs).get("content") for tag, attrs in parser.tags if tag == "meta"]
    assert any(policy and policy.startswith("default-src 'none'") for policy in policies)
    sources = [dict(attrs).get("src") for tag, attrs in parser.tags if tag == "img"]
    assert [(source or "")[:26] for source in sources] == ["data:image/svg+xml;base64,"]


@pytest.mark.slow
def test_the_page_explains_every_number_and_does_not_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = [*seeds(tmp_path), verl_log(tmp_path / "gigpo.jsonl")]
    pages = [tmp_path / name for name in ("a.html", "b.html")]
    for page in pages:
        run(capsys, *logs, "--out", page)
    assert pages[0].read_bytes() == pages[1].read_bytes()
    parser = Tags()
    parser.feed(pages[0].read_text("utf-8"))
    text = " ".join(" ".join(parser.texts).split())
    for what in DEFINITIONS.values():
        assert what.name in text
    assert "1 of 3, 1 to 91%" in text  # the exact interval of a third
    assert "5 runs of 3 recipes: grpo, sampo, gigpo." in text
    assert "policy/grad_norm" in text


@pytest.mark.slow
@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize(
    "successes",
    [
        [{}],  # never validated
        [{0: 0.5}],
        [{0: 0.5, 1: 0.0, 2: 0.0, 3: 0.0}],  # all collapse: none is left at the end
        [SUCCESS, {0: 0.5, 1: 0.0, 2: 0.0}],
        [SUCCESS] * 9,
    ],
)
def test_the_figure_fits_all_runs(tmp_path: Path, successes: Sequence[Mapping[int, float]]) -> None:
    norms = {1: float("nan"), 2: 100.0, 3: 0.01}
    paths = [
        verl_log(tmp_path / f"{'long ' * 15}{number}.jsonl", success, norms)
        for number, success in enumerate(successes)
    ]
    svg = stability_svg(compared(paths, [], LogReadingOptions()))
    assert svg.startswith(b"<?xml")
    assert svg.count(b'<g id="axes_') == 4  # success, survival, anytime success, gradient norms


@pytest.mark.slow
def test_anytime_success_is_drawn_along_what_most_logs_have(tmp_path: Path) -> None:
    """matplotlib writes a text as shapes, with the text in a comment."""
    foreign = verl_log(tmp_path / "verl.jsonl")
    own = [write_log(tmp_path / f"{seed}.jsonl", run_lines(seed=seed)) for seed in (0, 1)]
    for logs, axis in (
        (own, b"response tokens sampled"),
        ([foreign], b"<!-- update -->"),
        ([*own, foreign], b"<!-- update -->"),
    ):
        svg = stability_svg(compared(logs, [], LogReadingOptions()))
        assert axis in svg.partition(b"<!-- anytime success -->")[0]
        assert (b"response tokens sampled" in svg) == (logs == own)
