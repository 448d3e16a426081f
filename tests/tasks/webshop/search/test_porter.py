"""The stemmer: every step by hand, and compared with nltk's."""

import random

import pytest

from tasks.webshop.search.porter import stem

ENDINGS = """
s es ed ing ly y e ies eed sses ational tional enci anci izer bli abli alli entli eli ousli ization
ation ator alism iveness fulness ousness aliti iviti biliti logi icate ative alize iciti ical ful
ness al ance ence er ic able ible ant ement ment ent ion sion tion ou ism ate iti ous ive ize ll l
tt x yy
"""


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        *(("as", "as"), ("is", "is"), ("ies", "i"), ("ties", "ti"), ("dresses", "dress")),
        *(("glass", "glass"), ("hats", "hat"), ("agreed", "agre"), ("feed", "feed")),
        *(("quilted", "quilt"), ("red", "red"), ("ring", "ring"), ("knitting", "knit")),
        *(("coated", "coat"), ("troubled", "troubl"), ("sized", "size"), ("rolling", "roll")),
        *(("filing", "file"), ("boxed", "box"), ("happy", "happi"), ("sky", "sky")),
        *(("relational", "relat"), ("conditional", "condit"), ("possibly", "possibl")),
        *(("technologies", "technolog"), ("dryer", "dryer"), ("organizer", "organ")),
        *(("electrical", "electr"), ("cordless", "cordless"), ("softness", "soft")),
        *(("adjustable", "adjust"), ("replacement", "replac"), ("adoption", "adopt")),
        *(("version", "version"), ("rate", "rate"), ("controlling", "control"), ("wall", "wall")),
        *(("5.5", "5.5"), ("4x4s", "4x4"), ("cafés", "café"), ("ééing", "ééing")),
    ],
)
def test_steps(word: str, expected: str) -> None:
    assert stem(word) == expected


@pytest.mark.slow
def test_as_nltk() -> None:
    nltk = pytest.importorskip("nltk.stem.porter", reason="needs nltk, of the extra dev")
    other = nltk.PorterStemmer(nltk.PorterStemmer.MARTIN_EXTENSIONS)
    rng = random.Random(0)
    words = {
        "".join(rng.choices("abcdefghijklmnopqrstuvwxyzaeiouyaeiou'1é", k=rng.randrange(7)))
        + "".join(rng.choices(ENDINGS.split(), k=rng.randrange(4)))
        for _ in range(60_000)
    }
    assert len(words) > 50_000
    assert [word for word in words if stem(word) != other.stem(word)] == []
