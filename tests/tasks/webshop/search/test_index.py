"""Builds, opens and searches an index, and detects damaged ones."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tasks.errors import UserError
from tasks.webshop.search import build, vocabulary
from tasks.webshop.search.index import Hit, Index, build_index

DOCUMENTS = [
    ("B2", "red shoes for running, red laces"),
    ("B1", "blue shoes"),
    ("A9", "red hat"),
    ("C3", ""),
    ("A1", "the red hats"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    build_index(iter(DOCUMENTS), tmp_path / "index")
    return tmp_path / "index"


def _ids(hits: list[Hit]) -> list[str]:
    return [DOCUMENTS[hit.position][0] for hit in hits]


def test_scores_by_hand(folder: Path) -> None:
    # Four documents have terms: 5, 2, 2 and 2 of them. Three have `red`.
    weight = np.log(1 + 1.5 / 3.5)
    length = 11 / 4
    hits = Index.open(folder).search("RED")
    assert _ids(hits) == ["B2", "A1", "A9"]
    assert [hit.score for hit in hits] == pytest.approx(
        [
            weight * 2 / (2 + 0.9 * (0.6 + 0.4 * 5 / length)),
            weight / (1 + 0.9 * (0.6 + 0.4 * 2 / length)),
            weight / (1 + 0.9 * (0.6 + 0.4 * 2 / length)),
        ]
    )


def test_ties_go_by_id(folder: Path) -> None:
    hits = Index.open(folder).search("hats", count=1)
    assert _ids(hits) == ["A1"]
    assert _ids(Index.open(folder).search("hat")) == ["A1", "A9"]


def test_a_repeated_word_counts_again(folder: Path) -> None:
    index = Index.open(folder)
    once, twice = index.search("blue")[0], index.search("blue Blue")[0]
    assert twice.score == pytest.approx(2 * once.score)
    assert _ids(index.search("hat blue blue blue"))[0] == "B1"


@pytest.mark.slow
@pytest.mark.parametrize(
    "query",
    [
        *("", " ", "\0", "the and of", "zzz", "\U0001f600\U0001f680", "\ud83d\udfff\ude00"),
        *("紅い靴", "حذاء أحمر", "รองเท้าสีแดง", "x" * 100_000, "_" * 100_000),
    ],
)
def test_nothing_is_found(folder: Path, query: str) -> None:
    assert Index.open(folder).search(query) == []


def test_a_query_of_100_kilobytes(folder: Path) -> None:
    words = " ".join(f"word{number}" for number in range(10_000))
    assert len(words) > 80_000
    assert _ids(Index.open(folder).search(f"{words} hat \ud83d\0 {words}")) == ["A1", "A9"]
    assert _ids(Index.open(folder).search("blue " * 20_000)) == ["B1"]


def test_count_must_be_positive(folder: Path) -> None:
    with pytest.raises(ValueError, match="positive"):
        Index.open(folder).search("red", 0)


def test_documents_without_any_term(tmp_path: Path) -> None:
    build_index([("A", ""), ("B", "the")], tmp_path / "index")
    assert Index.open(tmp_path / "index").search("the red hat") == []


def test_blocks_make_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    documents = [
        (f"D{number}", " ".join(f"w{word}" for word in rng.zipf(1.3, 30) % 500))
        for number in range(300)
    ]
    build_index(documents, tmp_path / "one")
    monkeypatch.setattr(build, "BLOCK", 100)
    build_index(documents, tmp_path / "many")
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert files == sorted(path.name for path in (tmp_path / "many").iterdir())
    for name in files:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "many" / name).read_bytes()


def test_terms_whose_hashes_collide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def one_hash(terms: list[str]) -> NDArray[np.uint64]:
        return np.full(len(terms), 7, dtype=np.uint64)

    monkeypatch.setattr(build, "term_hashes", one_hash)
    monkeypatch.setattr(vocabulary, "term_hashes", one_hash)
    build_index(DOCUMENTS, tmp_path / "index")
    index = Index.open(tmp_path / "index")
    assert _ids(index.search("blue lace")) == ["B1", "B2"]
    assert index.search("green") == []


@pytest.mark.parametrize("id_", ["", "B0123456789", "Bé", "B\n", "B\0"])
def test_bad_ids(tmp_path: Path, id_: str) -> None:
    with pytest.raises(UserError, match="document 1: its id must be 1 to 10 ASCII characters"):
        build_index([("A", "red"), (id_, "blue")], tmp_path / "index")
    assert list(tmp_path.iterdir()) == []


def test_ids_that_occur_twice(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the id B occurs twice"):
        build_index([("B", "red"), ("A", "red"), ("B", "blue")], tmp_path / "index")


def test_no_documents(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no documents"):
        build_index([], tmp_path / "index")


def test_a_failed_build_leaves_nothing(tmp_path: Path) -> None:
    def documents() -> Iterator[tuple[str, str]]:
        yield "A", "green"
        raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        build_index(documents(), tmp_path / "deep" / "index")
    assert list((tmp_path / "deep").iterdir()) == []


def test_a_folder_that_is_there_is_refused(folder: Path) -> None:
    with pytest.raises(UserError, match="cannot be built: .*exists"):
        build_index([("A", "green")], folder)
    assert _ids(Index.open(folder).search("blue")) == ["B1"]


def test_no_index(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"index\.json cannot be read"):
        Index.open(tmp_path)


def test_another_format(folder: Path) -> None:
    manifest = json.loads((folder / "index.json").read_text())
    (folder / "index.json").write_text(json.dumps({**manifest, "format": 99}))
    with pytest.raises(
        UserError, match="has format 99, but this version reads 1; rebuild the index"
    ):
        Index.open(folder)


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"format": 1}', '{"format": NaN}', " " * 200_000, "\xff"]
)
def test_a_manifest_that_is_none(folder: Path, content: str) -> None:
    (folder / "index.json").write_text(content, encoding="latin-1")
    with pytest.raises(UserError, match=r"index\.json"):
        Index.open(folder)


@pytest.mark.parametrize(
    "name",
    [
        *("ranks", "hashes", "spelling", "spelling_ends", "posting_ends", "documents", "kinds"),
        *("divisors", "strongest"),
    ],
)
def test_damaged_files(folder: Path, name: str) -> None:
    path = folder / f"{name}.npy"
    content = path.read_bytes()
    values = np.load(path)
    for damage in (b"", content[:40], content[:-1], b"\0" * len(content)):
        path.write_bytes(damage)
        with pytest.raises(UserError, match=rf"{name}\.npy .*rebuild the index"):
            Index.open(folder)
    for wrong in (values[:-1], values.astype(np.complex64), np.array([{}])):
        np.save(path, wrong, allow_pickle=True)
        with pytest.raises(UserError, match=rf"{name}\.npy .*rebuild the index"):
            Index.open(folder)
    path.unlink()
    with pytest.raises(UserError, match=rf"{name}\.npy cannot be read"):
        Index.open(folder)


@pytest.mark.parametrize("name", ["documents", "kinds", "posting_ends"])
@pytest.mark.parametrize("scanned", [0, 10**9])
def test_wrong_numbers(
    folder: Path, name: str, scanned: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.webshop.search.ranking._SCANNED", scanned)
    values = np.load(folder / f"{name}.npy")
    np.save(folder / f"{name}.npy", np.full_like(values, 200))
    with pytest.raises(UserError, match="does not fit the other files; rebuild the index"):
        Index.open(folder).search("red blue hat")
