"""A README hides nothing: no image and no HTML, even if they seem to be in code."""

import time
from pathlib import Path

import pytest

from benchmark.submissions.format.schema import README
from benchmark.submissions.reading.folder import MAX_README, check_readme

BADGE = "![re-run](https://img.shields.io/badge/re--run-passed-green)"


def problems(folder: Path, text: str) -> list[str]:
    (folder / README).write_text(text, "utf-8")
    return [f"{finding.field}: {finding.problem}" for finding in check_readme(folder)]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param(f"A ` here.\n\n{BADGE}\n\nAnd ` there.", 3, id="span over paragraphs"),
        pytest.param(f"``{BADGE}`", 1, id="runs of different lengths"),
        pytest.param(f"\\`{BADGE}\\`", 1, id="escaped backquotes"),
        pytest.param(f"> ```\n\n{BADGE}\n\n```", 3, id="block that a quotation ends"),
        pytest.param(f"- a\n\n  ```\n{BADGE}\n```", 4, id="block that a list ends"),
        pytest.param(f"``` a`b\n{BADGE}\n```", 2, id="fence with a backquote behind it"),
        pytest.param(f"<https://example.org/`>{BADGE}`", 1, id="backquote in an address"),
        pytest.param(f"|a|b|\n|-|-|\n| ` | {BADGE} ` |", 3, id="backquotes in two cells"),
        pytest.param(f"A\n\n\t```\n{BADGE}\n\t```", 4, id="block that is indented by a tab"),
        pytest.param("Read:\n\n<!-- ` -->", 3, id="comment"),
        pytest.param("```mermaid\ngraph TD\n```", 1, id="drawing"),
        pytest.param("> " * 70 + BADGE, 1, id="deeper than is read"),
    ],
)
def test_an_image_does_not_hide_in_what_is_no_code(text: str, line: int, tmp_path: Path) -> None:
    assert problems(tmp_path, text) == [f"line {line}: has an image or HTML"]


def test_code_may_hold_anything(tmp_path: Path) -> None:
    text = f"`<b>`, ``{BADGE} ` ``, a < 5, &lt;b&gt;, <https://example.org>\n\n```\n{BADGE}\n```\n"
    assert problems(tmp_path, f"{text}\n1. Run:\n   ```\n   train <FOLDER>\n   ```\n") == []


@pytest.mark.parametrize("part", ["`", "a\n- ", "`a``b", "|a", "<a ", "*a **a "])
def test_a_long_readme_is_read_in_bounded_time(part: str, tmp_path: Path) -> None:
    began = time.process_time()
    problems(tmp_path, "a" + part * (MAX_README // 2 // len(part)) + "x" * (MAX_README // 3))
    assert time.process_time() - began < 5
