"""Catalogues on disk: built once, completely or not at all, and named by their inputs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tasks.errors import UserError
from tasks.webshop.data import catalogues
from tasks.webshop.data.catalogue import Catalogue, build
from tasks.webshop.data.catalogues import CACHE_VARIABLE, DATA_VARIABLE, data_files, open_catalogue
from tasks.webshop.data.listings import Listing, Wish
from tests.tasks.webshop.test_files import ITEM, KNOWN, PEOPLE
from tests.tasks.webshop.worlds import product

LISTINGS = [
    Listing(product("B000000002", title="Tin Pot")),
    Listing(product("B000000001"), Wish("Find me mugs", ("dishwasher safe",))),
    Listing(product("B000000003", options={}), None, (Wish("a mug", ("tin",), ("red",)),)),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "made" / "catalogue"
    build(LISTINGS, path)
    return path


def test_what_was_put_in_comes_out(folder: Path) -> None:
    catalogue = Catalogue(folder)
    assert len(catalogue) == 3
    for listing in LISTINGS:
        assert catalogue.listing(listing.product.asin) == listing
        assert catalogue.product(listing.product.asin) == listing.product
        assert list(catalogue.product(listing.product.asin).options) == list(
            listing.product.options
        )
    assert [one.product.asin for one in catalogue.listings_with_template()] == ["B000000001"]
    assert [one.product.asin for one in catalogue.listings_for_people()] == ["B000000003"]
    assert catalogue.search("pot", 50) == ("B000000002",)
    assert set(catalogue.search("tin", 2)) <= {one.product.asin for one in LISTINGS}


@pytest.mark.parametrize("asin", ["B000000004", "A", "", "b000000001", "B0000000011", "\u00fc"])
def test_what_is_not_sold(folder: Path, asin: str) -> None:
    with pytest.raises(KeyError):
        Catalogue(folder).product(asin)


def test_building_again_gives_the_same(folder: Path, tmp_path: Path) -> None:
    build(LISTINGS, tmp_path / "again")
    assert Catalogue(folder).sha256 == Catalogue(tmp_path / "again").sha256
    build(LISTINGS[:1], tmp_path / "other")
    assert Catalogue(folder).sha256 != Catalogue(tmp_path / "other").sha256
    # An existing catalogue stays: its name identifies its inputs.
    build(LISTINGS[:1], folder)
    assert len(Catalogue(folder)) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again", "made", "other"]
    assert [path.name for path in folder.parent.iterdir()] == ["catalogue"]


_BUILD = """
import sys
from pathlib import Path
from tasks.webshop.data.catalogue import Catalogue, build
from tests.tasks.webshop.test_catalogue import LISTINGS
for number in range(8):
    folder = Path(sys.argv[1]) / str(number)
    build(LISTINGS * 1, folder)
    assert len(Catalogue(folder)) == 3
"""


@pytest.mark.slow
def test_processes_build_the_same_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _BUILD, str(tmp_path)]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    for process in running:
        assert process.communicate()[1] == ""
        assert process.returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [str(n) for n in range(8)]


def test_what_a_killed_build_left_is_removed(tmp_path: Path) -> None:
    old, new = tmp_path / ".c-old", tmp_path / ".c-new"
    for path in (old, new):
        (path / "catalogue").mkdir(parents=True)
    os.utime(old, (0, 0))
    build(LISTINGS, tmp_path / "c")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".c-new", "c"]


def test_a_failed_build_leaves_nothing(tmp_path: Path) -> None:
    def half() -> "list[Listing]":
        raise UserError("half way")

    with pytest.raises(UserError, match="half way"):
        build((listing for part in (LISTINGS, None) for listing in part or half()), tmp_path / "c")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["products.jsonl", "offsets.npy", "asins.npy", "order.npy", "catalogue.json", "search"]
)
def test_a_damaged_catalogue_is_named(folder: Path, name: str) -> None:
    path = folder / name
    if path.is_dir():
        for part in path.iterdir():
            part.unlink()
    else:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(UserError, match=r"not a complete catalogue.*delete it"):
        Catalogue(folder)


def test_any_change_is_noticed(folder: Path) -> None:
    """A changed price or rank: each file is compared with its hash."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.stat().st_size]
    assert len(files) > 8
    for path in files:
        whole = path.read_bytes()
        changed = bytearray(whole)
        changed[-2] ^= 1
        path.write_bytes(changed)
        with pytest.raises(UserError, match=r"not a complete catalogue.*delete it"):
            Catalogue(folder)
        path.write_bytes(whole)
    Catalogue(folder)


def public(folder: Path, **changes: object) -> None:
    """The small data set's files with one product."""
    for name, content in zip(
        ("items_shuffle_1000.json", "items_ins_v2_1000.json", "items_human_ins.json"),
        ([ITEM | changes], KNOWN, PEOPLE),
        strict=True,
    ):
        (folder / name).write_text(json.dumps(content), "utf-8")


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv(DATA_VARIABLE, str(folder))
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return folder


def test_a_catalogue_is_kept_until_its_sources_change(data: Path, tmp_path: Path) -> None:
    public(data)
    assert open_catalogue("small_1000").product("B000000001").title == "Tin Mug"
    (kept,) = (tmp_path / "cache" / "webshop").iterdir()
    built = kept.stat().st_mtime_ns
    open_catalogue("small_1000")
    assert kept.stat().st_mtime_ns == built
    public(data, name="Another Tin Mug")
    assert open_catalogue("small_1000").product("B000000001").title == "Another Tin Mug"


def test_missing_data(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"items_shuffle_1000\.json cannot be read .No such file"):
        open_catalogue("small_1000")
    assert not catalogues.is_there("small_1000")
    public(data)
    assert catalogues.is_there("small_1000")
    monkeypatch.delenv(DATA_VARIABLE)
    assert not catalogues.is_there("small_1000")
    with pytest.raises(UserError, match=r"needs WebShop's public files; put items_shuffle\.json"):
        data_files("full")


def test_a_cache_that_cannot_be_written(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    public(data)
    # Not even root can create folders there.
    monkeypatch.setenv(CACHE_VARIABLE, "/proc/nowhere")
    with pytest.raises(UserError, match=r"cannot be written .*\$ARLARENA_BENCH_CACHE"):
        open_catalogue("small_1000")
