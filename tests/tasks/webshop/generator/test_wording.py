"""The rules of English, by hand."""

import pytest

from tasks.webshop.generator.wording import (
    capitalized,
    filled,
    headline,
    listed,
    slots_of,
    spoken,
    title_case,
    with_article,
)


@pytest.mark.parametrize(
    ("words", "article"),
    [
        ("lamp", "a"),
        ("arc lamp", "an"),
        ("ergonomic handle", "an"),
        ("usb port", "a"),
        ("urea lotion", "a"),
        ("uv protected frame", "a"),
        ("undated planner", "an"),
        ("uninsulated boot", "an"),
        ("unisex cap", "a"),
        ("Urbanook rack", "an"),
        ("one piece", "a"),
        ("eucalyptus scent", "a"),
        ("8 oz size", "an"),
        ("18 x 24 in size", "an"),
        ("11 in pan", "an"),
        ("12 oz size", "a"),
        ("led bulb", "an"),
        ("leather belt", "a"),
        ("spf 30 lotion", "an"),
    ],
)
def test_article(words: str, article: str) -> None:
    assert with_article(words) == f"{article} {words}"


def test_capitals() -> None:
    assert capitalized("bPA free") == "BPA free"
    assert spoken("bpa free and turkish") == "BPA free and Turkish"
    assert title_case("built-in usb port for the gym") == "Built-In USB Port for the Gym"
    assert title_case("the gym") == "the Gym"
    assert [headline(words) for words in ("in ear", "clip on", "felt")] == [
        "In Ear",
        "Clip On",
        "Felt",
    ]
    assert headline("glow in the dark") == "Glow in the Dark"


def test_lists() -> None:
    assert listed([]) == ""
    assert listed(["a"]) == "a"
    assert listed(["a", "b"]) == "a and b"
    assert listed(["a", "b", "c"]) == "a, b and c"


def test_gaps() -> None:
    pattern = "{Thing}[ in {color}][, {size}]."
    assert slots_of(pattern) == {"Thing", "color", "size"}
    words = {"Thing": "Hat", "color": "red", "size": ""}
    assert filled(pattern, words) == "Hat in red."
    assert filled("{Thing}", {"Thing": "[{color}]"}) == "[{color}]"
    with pytest.raises(KeyError, match="size"):
        filled(pattern, {"Thing": "Hat", "color": "red"})
