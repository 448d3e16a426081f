"""Words and terms, compared with Lucene 8.11's for the same texts (`lucene.jsonl`)."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.webshop.search import tokens as tokens_module
from tasks.webshop.search.analysis import STOP_WORDS, analyze
from tasks.webshop.search.make_characters import table
from tasks.webshop.search.tokens import tokens

CASES: list[dict[str, Any]] = [
    json.loads(line)
    for line in Path(__file__).with_name("lucene.jsonl").read_text("ascii").splitlines()
]


def test_as_lucene() -> None:
    assert len(CASES) == 332
    for case in CASES:
        assert tokens(case["text"]) == case["words"], ascii(case["text"])
        assert analyze(case["text"]) == case["terms"], ascii(case["text"])


def test_a_long_text_is_split_as_a_short_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens_module, "_LINEAR", 0)
    for case in CASES:
        assert tokens(case["text"]) == case["words"], ascii(case["text"])


def test_a_product() -> None:
    assert analyze("Finish:Solid, the Women's r.Brown2070 shoes (size 5.5)") == [
        *("finish:solid", "women", "r.brown2070", "shoe", "size", "5.5"),
    ]


def test_stop_words() -> None:
    assert len(STOP_WORDS) == 33
    assert analyze("The " + " ".join(sorted(STOP_WORDS))) == []


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("", []),
        (" \t\n\0", []),
        ("\0a\0b\0", ["b"]),
        ("\ud83d red \ude00\udfff", ["red"]),
        ("\U0001f600\U0001f680", ["\U0001f600", "\U0001f680"]),
        ("紅い靴", ["紅", "い", "靴"]),
        ("حذاء أحمر", ["حذاء", "أحمر"]),
        ("รองเท้าสีแดง", ["รองเท้าสีแดง"]),
        ("<b>red</b> &amp; blue", ["b", "red", "b", "amp", "blue"]),
    ],
)
def test_other_texts(text: str, terms: list[str]) -> None:
    assert analyze(text) == terms


def test_long_words_are_cut_at_255_utf_16_units() -> None:
    assert [len(word) for word in tokens("x" * 600)] == [255, 255, 90]
    assert [len(word) for word in tokens("\U00010400" * 300)] == [127, 127, 46]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "count"),
    [
        *(("_", 0), ("_\u0301", 0), ("\u200d", 0), ("#\u0301", 0), ("1.", 391)),
        *(('\u05d0"', 25_000), ("\u2139\u200d", 393), ("\U0001f600\u200d", 589)),
    ],
)
def test_hundred_thousand_characters(text: str, count: int) -> None:
    # As many as Lucene finds, and within the time limit: none takes quadratic time.
    assert len(tokens(text * (100_000 // len(text)))) == count


@given(st.text(st.characters(codec=None), max_size=60), st.text(max_size=60))
def test_lines_do_not_touch_each_other(first: str, second: str) -> None:
    assert analyze(first + "\n" + second) == analyze(first) + analyze(second)


@given(st.text(st.characters(codec=None), max_size=300))
def test_words_stand_in_the_text_in_order(text: str) -> None:
    place = 0
    for word in tokens(text):
        place = text.index(word, place) + len(word)


def test_table_of_characters(tmp_path: Path) -> None:
    for name, lines in {
        "WordBreakProperty.txt": "0041..0043 ; ALetter # three\n0301;Extend\n0E31 ; Extend\n",
        "Scripts.txt": "4E00..4E01 ; Han\n",
        "LineBreak.txt": "0E30..0E31;SA\n",
        "emoji-data.txt": "0042 ; Emoji\n1F600 ; Emoji # a face\n0031 ; Emoji\n",
    }.items():
        (tmp_path / name).write_text(f"# {name}\n\n{lines}")
    runs = dict(json.loads(table(tmp_path)))
    expected = {0x41: "a", 0x42: "w", 0x43: "a", 0x301: "x", 0xE30: "s", 0xE31: "t", 0x4E00: "i"}
    assert expected.items() <= runs.items()
    assert runs[0x1F600] == "p"
    assert runs[0x44] == runs[0x302] == runs[0x24] == "-"
