"""Nouns of product names."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tasks.errors import UserError
from tasks.webshop.nouns import CONTENT_WORDS, find_tagger


@pytest.mark.parametrize(
    ("title", "nouns"),
    [
        ("Women's Sandals for the Beach, 2 Pairs", ("women", "sandals", "beach", "pairs")),
        ("USB-C Cable (6ft)", ("usb", "c", "cable", "ft")),
        ("Caf\u00e9 Mug", ("caf\u00e9", "mug")),
        ("mug mug", ("mug", "mug")),
        ("12 - 14 & 16", ()),
        ("", ()),
        ("it's", ()),
    ],
)
def test_content_words(title: str, nouns: tuple[str, ...]) -> None:
    assert find_tagger(CONTENT_WORDS).nouns(title) == nouns


def test_a_name_of_any_length_is_read_quickly() -> None:
    assert len(find_tagger(CONTENT_WORDS).nouns("word " * 10**6)) == 1000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nltk", "use content-words or spacy:PIPELINE"),
        ("spacy:", "use content-words or spacy:PIPELINE"),
        ("spacy:no_such_pipeline", "no such pipeline|spaCy is not installed"),
        ("spacy:/tmp", "no such pipeline|spaCy is not installed"),
        ("spacy:pytest", "no such pipeline|spaCy is not installed"),
    ],
)
def test_a_tagger_that_is_not_there(name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        find_tagger(name)


_USE = """
import json
from tasks.errors import UserError
from tasks.webshop.nouns import find_tagger
tagger = find_tagger("spacy:en_three_words")
again = find_tagger(tagger.name)
try:
    find_tagger("spacy:en_three_words 1.0.0")
except UserError as error:
    nouns = tagger.nouns("Red Tin Mug with mug")
    print(json.dumps([tagger.name, nouns, again.nouns("Tin tin"), str(error)]))
"""


@pytest.mark.slow
def test_a_spacy_pipeline(tmp_path: Path) -> None:
    """Our own pipeline, installed as a package, that knows three words."""
    spacy = pytest.importorskip("spacy", reason="spaCy is not installed")
    pipeline = spacy.blank("en", meta={"name": "three_words", "version": "1.2.3"})
    ruler = pipeline.add_pipe("attribute_ruler")
    # Case matters, as for a statistical tagger.
    for word, tag in (("Mug", "NOUN"), ("mug", "NOUN"), ("Tin", "PROPN"), ("Red", "ADJ")):
        ruler.add(patterns=[[{"ORTH": word}]], attrs={"POS": tag})
    package = tmp_path / "en_three_words"
    package.mkdir()
    pipeline.to_disk(package / "data")
    (package / "__init__.py").write_text(
        "from pathlib import Path\n"
        "from spacy.util import load_model_from_path\n"
        "def load(**options):\n"
        "    return load_model_from_path(Path(__file__).parent / 'data', **options)\n"
    )
    info = tmp_path / "en_three_words-1.2.3.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: en_three_words\nVersion: 1.2.3\n")
    (info / "entry_points.txt").write_text("[spacy_models]\nen_three_words = en_three_words\n")
    # spaCy searches for pipelines when it is imported.
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", _USE],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    name, nouns, again, error = json.loads(done.stdout)
    # The name with its version, as stated in the protocol, finds the same pipeline.
    assert name == "spacy:en_three_words 1.2.3"
    assert (nouns, again) == (["tin", "mug", "mug"], ["tin"])
    assert "1.0.0: the installed version is 1.2.3" in error
