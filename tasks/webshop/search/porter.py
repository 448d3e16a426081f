"""Porter's stemmer with its author's later changes, as in Lucene.

M. F. Porter, An algorithm for suffix stripping, Program 14(3), 1980. The departures: words of one
or two letters stay, step 2 turns `bli` into `ble` (not `abli` into `able`) and `logi` into `log`.
"""

_STEP_2 = (
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("bli", "ble"),
    ("alli", "al"),
    ("entli", "ent"),
    ("eli", "e"),
    ("ousli", "ous"),
    ("ization", "ize"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
    ("logi", "log"),
)
_STEP_3 = (
    ("icate", "ic"),
    ("ative", ""),
    ("alize", "al"),
    ("iciti", "ic"),
    ("ical", "ic"),
    ("ful", ""),
    ("ness", ""),
)
_STEP_4 = tuple(
    (suffix, "")
    for suffix in (
        *("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent"),
        *("ou", "ism", "ate", "iti", "ous", "ive", "ize"),
    )
)


def stem(word: str) -> str:
    """The stem of a lower-case word. What is no Latin letter counts as a consonant."""
    if len(word) <= 2:
        return word
    word = _step_1(word)
    word = _replaced(word, _STEP_2, 0)
    word = _replaced(word, _STEP_3, 0)
    word = _step_4(word)
    return _step_5(word)


def _step_1(word: str) -> str:
    """Plurals, past tenses, `-ing`, and a final y."""
    if word.endswith(("sses", "ies")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    if word.endswith("eed"):
        if _measure(word[:-3]) > 0:
            word = word[:-1]
    else:
        for suffix in ("ed", "ing"):
            rest = word.removesuffix(suffix)
            if rest != word:
                word = _mended(rest) if "v" in _shape(rest) else word
                break
    if word.endswith("y") and "v" in _shape(word[:-1]):
        word = word[:-1] + "i"
    return word


def _mended(word: str) -> str:
    """Give a word that lost `-ed` or `-ing` the ending that it has without them."""
    if word.endswith(("at", "bl", "iz")):
        return word + "e"
    if _ends_double(word):
        return word if word[-1] in "lsz" else word[:-1]
    if _measure(word) == 1 and _ends_short(word):
        return word + "e"
    return word


def _step_4(word: str) -> str:
    """Drop a last suffix; of `-sion` and `-tion` the first letter stays."""
    if word.endswith(("sion", "tion")):
        return word[:-3] if _measure(word[:-3]) > 1 else word
    return _replaced(word, _STEP_4, 1)


def _step_5(word: str) -> str:
    """Drop a final e, and one of a final ll."""
    measure = _measure(word)
    if word.endswith("e") and (measure > 1 or (measure == 1 and not _ends_short(word[:-1]))):
        word = word[:-1]
    if word.endswith("ll") and measure > 1:
        word = word[:-1]
    return word


def _replaced(word: str, rules: tuple[tuple[str, str], ...], least: int) -> str:
    """Apply the first rule whose suffix the word has, if what precedes is measured above least."""
    for suffix, replacement in rules:
        if word.endswith(suffix):
            rest = word[: -len(suffix)]
            return rest + replacement if _measure(rest) > least else word
    return word


def _measure(word: str) -> int:
    """How often a consonant follows a vowel: the paper's m."""
    return _shape(word).count("vc")


def _ends_double(word: str) -> bool:
    return word[-1:] == word[-2:-1] and _shape(word).endswith("c")


def _ends_short(word: str) -> bool:
    """Whether it ends consonant, vowel, consonant, the last none of w, x, y: the paper's *o."""
    return word[-1:] not in ("w", "x", "y") and _shape(word).endswith("cvc")


def _shape(word: str) -> str:
    """For each letter `c` or `v`; y is a vowel after a consonant."""
    shape = ""
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and shape.endswith("c"))
        shape += "v" if vowel else "c"
    return shape
