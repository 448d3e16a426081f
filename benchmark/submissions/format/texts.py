"""Texts by authors in a submission: visible characters only, no look-alikes."""

import re
import unicodedata
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from tasks.texts import is_seen

_ALIKE = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU")
"""Scripts with letters that look like those of another one."""
_LETTERS: Final = str.maketrans("012345678i", "olzeasgtbl")
"""Digits, and the i, by the letter that they are read as. No two digits are one letter: `v6` and
`v9` are two names."""
_LISU: Final = {
    0xA4D0 + place: letter
    for place, letter in enumerate("BP.DT.GK.JC.ZF.MNLSR..VH..WXY.A.E.IOU")
    if letter != "."
}
"""Letters of Lisu by the capital that they look like."""
_SMALL: Final = re.compile("LATIN LETTER SMALL CAPITAL ([A-Z])")
_PAIRS: Final = (("rn", "m"), ("cl", "d"), ("vv", "w"))
"""Two letters that are read as one."""
BADGES: Final = ("re-run", "re-ran", "replayed", "trained again", "verified", "official")
"""What entries may not say of themselves, and authors may not be called."""
BOARD_WORDS: Final = (*BADGES, "SOTA", "state of the art")
"""The same for entries alone: Sota is a person's name. In the plural neither."""
_MOST_WORDS: Final = 40
"""Words that are read together: more than the longest claim has letters."""
_UNREAD: Final = re.compile(r"(?<!\d)\.|\.(?!\d)|(?<!\de)-|-(?!\d)|[^a-z0-9+.-]")
PLACEHOLDERS: Final = frozenset(
    {
        "My method on tiny-sokoban",
        "A. Name",
        "https://example.org/me",
        "my-method",
        "What is done, in a few sentences.",
        "https://example.org/my-code",
        "https://example.org/my-paper",
        "https://example.org/my-weights",
    }
)
"""What the example in submissions/README.md says where its readers have to say something."""


def skeleton(title: str) -> str:
    """What a title looks like at a glance: equal for titles that are taken for each other.

    Without case, blanks and punctuation, but with the marks that tell methods and numbers apart:
    REINFORCE and REINFORCE++, 1.0 and 10, 1e-5 and 1e5. A library for confusables would add
    nothing: titles are ASCII, and of that the Unicode consortium's table (UTS 39, confusables.txt),
    from which such libraries are made, has three rows: 0 and O; 1, I, l and |; rn and m. Read by
    confusable_homoglyphs 3.3.1, it takes neither `5AMPO` nor `S AMPO` for `SAMPO`. The other
    digits, Q for O, `cl` and `vv` are of this project.
    """
    plain = _UNREAD.sub("", _folded(title))
    read = plain.translate(_LETTERS)
    for pair, letter in _PAIRS:
        read = read.replace(pair, letter)
    return read


def _folded(title: str) -> str:
    """Without case, small capitals included; what is alike in capitals alone is one letter."""
    title = title.translate(_LISU)
    names = (unicodedata.name(letter, "") for letter in title)
    found = ((letter, _SMALL.fullmatch(name)) for letter, name in zip(title, names, strict=True))
    plain = (letter if small is None else small[1] for letter, small in found)
    return "".join(plain).replace("Q", "O").casefold()


def check_title(title: str) -> None:
    """Check that a title claims nothing that only the board says, and has no odd parentheses.

    Whole words are compared, and such that blanks or points divide; a year or a version at either
    end changes nothing. A single parenthesis could be read as a C, an empty pair as an O.

    Raises:
        ValueError: It holds the name of a badge, or the like, or parentheses around nothing.
    """
    if {"(", ")"} & set(re.sub(r"\([^()]*[A-Za-z0-9][^()]*\)", "", title)):
        raise ValueError("parentheses must be in pairs, around words")
    check_claims(title)


def check_claims(text: str, reserved: Sequence[str] = BOARD_WORDS) -> None:
    """Check that a text claims nothing that only the board says; see `check_title`.

    Args:
        text: The text.
        reserved: What it may not say.

    Raises:
        ValueError: It says something of that.
    """
    claims = {skeleton(claim): claim for claim in reserved}
    words = re.findall(r"[a-z0-9]+", _folded(text))
    places = range(len(words) + 1)
    for first, last in ((a, b) for a in places for b in places[a + 1 : a + 1 + _MOST_WORDS]):
        joined = "".join(words[first:last])
        bare = re.sub(r"^\d+|v?\d+$", "", joined)
        for seen in (skeleton(joined), skeleton(bare)):
            claim = claims.get(seen) or claims.get(seen.removesuffix("s"))
            if claim is not None:
                raise ValueError(f"{claim!r} is what the board says of entries: remove it")


def check_visible(text: str, lines: bool = False) -> None:
    """Check that what is shown is what is there.

    Args:
        text: The text.
        lines: It may have several lines.

    Raises:
        ValueError: Invisible characters, another than the composed form, or nothing to be seen.
    """
    for character in text:
        if not is_seen(character) and not (lines and character == "\n"):
            raise ValueError(f"U+{ord(character):04X} is not a visible character")
    if unicodedata.normalize("NFC", text) != text:
        raise ValueError("letters with accents must be single characters (Unicode form NFC)")
    if text and not any(unicodedata.category(character)[0] in "LN" for character in text):
        raise ValueError("has no letter or digit")


def check_name(text: str) -> None:
    """Check that a name of a person cannot be taken for another.

    Raises:
        ValueError: Invisible characters, letters in another than their plain form, or letters of
            several scripts in one word.
    """
    check_visible(text)
    if unicodedata.normalize("NFKC", text) != text:
        raise ValueError("letters must be in their plain form (Unicode form NFKC)")
    for word in re.split(r"[^\w]+", text):
        scripts = {unicodedata.name(letter, "").partition(" ")[0] for letter in word}
        if len(scripts.intersection(_ALIKE)) > 1:
            raise ValueError(f"the word {word!a} has letters of several scripts")


def check_link(link: str) -> None:
    """Check that a link is a plain web address.

    Raises:
        ValueError: It is none.
    """
    parts = urlsplit(link)
    plain = re.fullmatch(r"[\x21-\x7e]+", link) and not set(link) & set("\"'<>\\^`{|}()[]*")
    if parts.scheme != "https" or not parts.hostname or parts.username or not plain:
        raise ValueError("not a plain https address")


def check_own(text: str) -> None:
    """Check that a text is its author's and not the example's.

    Raises:
        ValueError: It stands in the example.
    """
    if text.strip() in PLACEHOLDERS:
        raise ValueError(f"{text!r} is the example's text: write your own")
