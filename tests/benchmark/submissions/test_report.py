"""The comment on a pull request: nothing foreign in it is Markdown, HTML or a mention."""

import html
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmark.submissions.badges import Badges
from benchmark.submissions.check import Verdict
from benchmark.submissions.findings import Finding
from benchmark.submissions.report import code, comment, escaped
from tests.benchmark.submissions.conftest import Copies
from tests.submissions import check

MARKUP = (
    "<img src=x onerror=alert(1)>",
    "</code></td></table><script>alert(1)</script>",
    "| new | row |",
    "[link](javascript:alert(1))",
    "![image](https://example.org/track.png)",
    "**bold** _it_ `code` ~~no~~ # title",
    "www.example.org https://example.org a@example.org",
    "@octocat #1 GH-1 f449e63",
    "<!-- hidden",
    "&lt;b&gt; &#60;b&#62;",
    "\\| \\<b\\>",
    "line\nbreak\r\u2028| x |",
    ":tada: $x$ - [ ] task",
)
CELL = re.compile(r"<code>(?:[^\W_]| |&#\d+;)*</code>")
"""A cell with foreign text: letters, digits, spaces and entities."""


@pytest.mark.parametrize("text", MARKUP)
def test_markup_is_shown_and_not_obeyed(text: str) -> None:
    cell = escaped(text)
    assert CELL.fullmatch(cell)
    shown = html.unescape(cell.removeprefix("<code>").removesuffix("</code>"))
    assert shown == "".join(c if c.isprintable() else f"U+{ord(c):04X}" for c in text)


@given(st.text())
def test_every_text_is_a_cell(text: str) -> None:
    assert CELL.fullmatch(escaped(text)) or not text
    assert "`" not in code(text)
    assert code(text).isprintable()


@pytest.mark.parametrize("text", MARKUP)
def test_findings_are_one_row_each(text: str, tmp_path: Path) -> None:
    findings = (Finding(text, text, text, "do this"), Finding("", "", "x", "y"))
    lines = comment(Verdict(tmp_path / "20260102_x", findings, None, 0, 0), None).splitlines()
    assert lines[0] == "## Submission `20260102_x`"
    rows = [line for line in lines if line.startswith("| <code>")]
    assert len(rows) == 2
    for row in rows:
        assert re.fullmatch(rf"\| {CELL.pattern} \| {CELL.pattern} \| {CELL.pattern} \|", row)


def test_markup_of_a_submission_comes_out_escaped(copies: Copies) -> None:
    copy = copies("policy")
    (copy.folder / "<img src=x>|@octocat").touch()
    copy.records(lambda records: records[0].update(episode="<script>alert(1)</script>\n| a |"))
    verdict = check(copy.folder)
    text = comment(verdict, None)
    assert not re.search(r"<(?!/?code>)", text)
    assert "@" not in text
    assert len([line for line in text.splitlines() if line.startswith("| <code>")]) == len(
        verdict.findings
    )


def test_descriptions_do_not_come_into_the_comment(copies: Copies) -> None:
    def change(about: dict[str, object]) -> None:
        about |= {"contact": "<img src=x>", "authors": ["Ada @octocat"]}

    copy = copies("policy")
    copy.about(change)
    verdict = check(copy.folder)
    assert verdict.accepted
    text = comment(verdict, Badges(True, "none", None, False))
    assert "octocat" not in text
    assert "<img" not in text


def test_a_comment_is_never_too_long_for_the_site(tmp_path: Path) -> None:
    findings = tuple(Finding("file", str(number), "|" * 300, "fix") for number in range(300))
    text = comment(Verdict(tmp_path, findings, None, 0, 0), None)
    assert len(text) < 65_536
    assert text.endswith("(the rest is left out)\n")
    assert all(CELL.search(line) for line in text.splitlines() if line.startswith("| <"))


def test_errors_and_doubts_are_told(policy: Path) -> None:
    verdict = check(policy)
    doubtful = Verdict(verdict.folder, (), verdict.entry, 256, 3)
    text = comment(doubtful, Badges(True, "none", None, True))
    assert "3 turns could be neither confirmed nor refuted." in text
    assert "Badges: replayed, stability: none, re-run" in text
    assert "ended in an error" not in text
