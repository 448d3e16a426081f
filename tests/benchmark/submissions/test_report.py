"""The comment on a pull request: no foreign text in it becomes Markdown, HTML or a mention."""

import html
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmark.submissions.badges import Badges
from benchmark.submissions.check import CheckResult, read_accepted
from benchmark.submissions.checks.results import Agreement
from benchmark.submissions.format.findings import Finding
from benchmark.submissions.report import code, comment, escaped
from benchmark.submissions.report_rows import agreement_text, stability_rows
from tasks.seeding import sha256_text
from tests.benchmark.submissions.conftest import Copies
from tests.support.submissions.small import check, lose_at_the_end, trainer_line

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
    lines = comment(CheckResult(tmp_path / "20260102_x", findings, None, 0, 0), None).splitlines()
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


@pytest.mark.slow
def test_what_authors_say_comes_out_escaped(copies: Copies) -> None:
    def change(about: dict[str, Any]) -> None:
        about |= {"contact": "<img src=x>", "authors": ["Ada @octocat", "| Bob |"]}
        about["training_data"] |= {"statement": "Levels\n<b>of</b> #1 | the stream."}

    copy = copies("trained")
    copy.about(change)
    verdict = check(copy.folder)
    assert verdict.accepted, verdict.findings
    text = comment(verdict, Badges(True, "logs", "fixed", False))
    assert "<img" not in text
    assert "<b>" not in text
    assert "@" not in text
    rows = told(text)
    assert rows["authors"] == "Ada @octocat, | Bob |"
    assert rows["training data, as declared"] == (
        "streams: sokoban; without other data for these tasks; Levels <b>of</b> #1 | the stream."
    )
    assert all(line.count(" | ") == 1 for line in text.splitlines() if line.startswith("| authors"))


def told(text: str) -> dict[str, str]:
    """The rows of a comment's first table, as displayed."""
    lines = text.split("| --- | --- |\n", 1)[1].split("\n\n", 1)[0].splitlines()
    cells = [line.removeprefix("| ").removesuffix(" |").split(" | ") for line in lines]
    return {name: html.unescape(re.sub("</?code>", "", cell)) for name, cell in cells}


def test_the_head_says_what_was_sent(copies: Copies) -> None:
    copy = copies("trained")
    copy.about(lambda about: about["method"].update(recipe="GRPO"))
    for seed in (0, 1):
        copy.log(lambda lines: [trainer_line(lines[0], 20, 1), *lines[1:]], seed)
    entry = read_accepted(copy.folder)
    text = comment(
        CheckResult(copy.folder, (), entry, 512, 0), Badges(True, "logs", "fixed", False)
    )
    digest = sha256_text("init")[:12]
    assert told(text) == {
        "entry": "A trained entry",
        "authors": "Ada Lovelace",
        "method": "trained checkpoints: GRPO; its training logs say grpo",
        "track": "open",
        "seeds": "0, 1",
        "base model": "tiny-sokoban, 442,272 weights",
        "init": f"tiny-sokoban (init, SHA-256 {digest}...)",
        "training data, as declared": "streams: sokoban; without other data for these tasks; "
        "Levels of the training stream.",
        "badges": "replayed, stability: logs, init: fixed",
    }
    plain = html.unescape(re.sub("</?code>", "", text))
    weights = sha256_text("s0")[:12]
    assert re.search(
        r"^\| 0 \| 20 of 20 \| 21 \| update 20 of 20, the last one "
        rf"\| grpo-s0 \(folder, SHA-256 {weights}\.\.\.\) \|$",
        plain,
        re.M,
    )
    assert "| collapse rate | 0 of 2 seeds | seeds that collapse |" in text
    assert "| worst seed | 59.0% | lowest final success of all seeds |" in text
    assert "| mismatch, P95 (median) | 2.78e-07 nats |" in text
    assert "\n\nNothing to compare with yet.\n\n" in text


def test_a_late_loss_stands_beside_the_collapses(copies: Copies) -> None:
    copy = copies("trained")
    copy.log(lose_at_the_end, 1)
    (row, *_) = stability_rows(read_accepted(copy.folder))
    text = "seeds that collapse; halved: not collapsed, but ends at half of its best"
    assert row == ("collapse rate", "0 of 2 seeds, 1 halved", f"{text} (if 10% or more) or below")


def test_a_log_that_is_too_short_to_be_judged_is_unknown(copies: Copies) -> None:
    copy = copies("trained")
    copy.log(lambda lines: lines.__delitem__(slice(4, None)), 1)
    assert stability_rows(read_accepted(copy.folder))[0][:2] == (
        "collapse rate",
        "0 of 2 seeds, 1 unknown",
    )


@pytest.mark.parametrize(
    ("updates", "gap", "panels", "text"),
    [
        ((15,), 0.0, ("a/b",), "update 15 of 15, the last one"),
        ((3, 15), 0.0, ("a/b",), "update 15 of 15, the last one"),
        ((3,), 0.0, ("a/b",), "update 3 of 15; chosen on this panel (a/b)"),
        ((0, 3), 0.0, ("a/b", "c/d"), "update 0 or 3 of 15; chosen on these panels (a/b, c/d)"),
        ((1, 2, 3, 4, 5), 0.0, ("a/b",),
         "update 1 or 2 or 3 or 4 or others of 15; chosen on this panel (a/b)"),
        ((15,), -0.0125, ("a/b",),
         "none; nearest is update 15 of 15 (-1.2 points here)"),
    ],
)  # fmt: skip
def test_which_checkpoint_was_evaluated(
    updates: tuple[int, ...], gap: float, panels: tuple[str, ...], text: str
) -> None:
    assert agreement_text(Agreement(updates, 15, gap, panels)) == text


def test_a_checkpoint_without_a_common_panel() -> None:
    assert agreement_text(None) == "no validation to compare with"


def test_a_comment_is_never_too_long_for_the_site(tmp_path: Path) -> None:
    findings = tuple(Finding("file", str(number), "|" * 300, "fix") for number in range(300))
    text = comment(CheckResult(tmp_path, findings, None, 0, 0), None)
    assert len(text) < 65_536
    assert text.endswith("(truncated)\n")
    assert all(CELL.search(line) for line in text.splitlines() if line.startswith("| <"))


def test_errors_and_doubts_are_told(policy: Path) -> None:
    verdict = check(policy)
    doubtful = CheckResult(verdict.folder, (), verdict.entry, 256, 3)
    text = comment(doubtful, Badges(True, "none", None, True))
    assert "3 turns were inconclusive." in text
    assert told(text)["badges"] == "replayed, stability: none, re-run"
    assert told(text)["model"] == "expert (policy)"
    assert "ended in an error" not in text
