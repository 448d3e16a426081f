"""Texts by authors in a submission: visible characters only, no look-alikes."""

import re
import unicodedata
from typing import Final
from urllib.parse import urlsplit

from tasks.texts import is_seen

_ALIKE = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE")
"""Scripts with letters that look like those of another one."""
_LOOKALIKES: Final = str.maketrans({"0": "o", "1": "l", "i": "l"})
BOARD_WORDS: Final = ("re run", "rerun", "replayed", "verified", "official", "sota")
"""What entries may not say of themselves, in small letters and with blanks alone."""
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

    The ASCII part of the Unicode consortium's confusables (UTS 39, confusables.txt), without case,
    blanks and punctuation. Titles are ASCII, so that its few rows are all that is needed; a
    library would bring six thousand others.
    """
    plain = re.sub(r"[^a-z0-9]", "", title.casefold())
    return plain.translate(_LOOKALIKES).replace("rn", "m")


def check_title(title: str) -> None:
    """Check that a title claims nothing that only the board says.

    Raises:
        ValueError: It holds the name of a badge, or the like.
    """
    words = re.sub(r"[^a-z0-9]+", " ", title.casefold()).translate(_LOOKALIKES)
    # S.O.T.A. and s o t a are one word.
    joined = re.sub(r"\b([a-z]) (?=[a-z]\b)", r"\1", words)
    for claim in BOARD_WORDS:
        seen = rf"\b{claim.translate(_LOOKALIKES)}\b"
        if re.search(seen, words) or re.search(seen, joined):
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
