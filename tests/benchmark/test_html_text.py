"""Text of the report: hidden characters are visible, markup is escaped, numbers do not mislead."""

import html
import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import benchmark.html_text as module
from benchmark.html_text import number, percent, visible

TAG = re.compile(r'<span class="hidden-character">(U\+[0-9A-F]{4,6})</span>')


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("<b>&\"'", "&lt;b&gt;&amp;&#34;&#39;"),
        ("a\u202eb", 'a<span class="hidden-character">U+202E</span>b'),
        (
            "\x00\x1b",
            "".join(f'<span class="hidden-character">U+{c}</span>' for c in ("0000", "001B")),
        ),
        ("\ud800", '<span class="hidden-character">U+D800</span>'),
        ("\U000e0041", '<span class="hidden-character">U+E0041</span>'),
        ("é 中 😀 ע", "é 中 😀 ע"),
    ],
)
def test_visible(text: str, expected: str) -> None:
    assert visible(text) == expected


@given(st.text(st.characters(codec=None)))
def test_every_text_can_be_read_back_and_hides_nothing(text: str) -> None:
    shown = str(visible(text))
    assert "<" not in TAG.sub("", shown)
    back = TAG.sub(lambda match: chr(int(match[1][2:], 16)), shown)
    assert html.unescape(back) == text or "&" in text or "\r" in text or "\x00" in text
    shown.encode()
    hidden = [c for c in shown if unicodedata.category(c) in ("Cc", "Co", "Cs") and c not in "\n\t"]
    assert not hidden
    assert not {unicodedata.bidirectional(c) for c in shown} & {
        "LRE",
        "RLE",
        "LRO",
        "RLO",
        "PDF",
        "LRI",
        "RLI",
        "FSI",
        "PDI",
    }


def test_the_script_hides_the_same_characters() -> None:
    """page.js has its own copy of the list, which must contain the same characters."""
    source = (Path(module.__file__).parent / "report" / "page.js").read_text("utf-8")
    found = re.search(r"const HIDDEN = /\[(.*)\]/gu;", source)
    assert found
    listed = re.sub(
        r"\\u\{([0-9a-f]+)\}|\\u([0-9a-f]{4})", lambda m: chr(int(m[1] or m[2], 16)), found[1]
    )
    assert f"[{listed}]" == module._HIDDEN.pattern


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, "0.0"),
        (1.0, "100.0"),
        (0.52734, "52.7"),
        (0.99999, ">99.9"),
        (0.0001, "<0.1"),
        (0.9994, "99.9"),
    ],
)
def test_percent_never_rounds_to_all_or_nothing(share: float, text: str) -> None:
    assert percent(share) == f"{text}%"


def test_numbers() -> None:
    assert number(-1234.567) == "\u22121,234.57"
    assert number(0.0) == "0.00"
    assert number(-0.001) == "0.00"
    assert number(48_000, 0) == "48,000"
    assert number(None) == number(float("nan")) == number(float("inf")) == "\u2013"
    assert percent(float("nan")) == "\u2013"
