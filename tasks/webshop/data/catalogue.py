"""A catalogue on disk: products that are read on demand, and their search index.

A folder holds

- `products.jsonl`: one listing per line, in the order of the source;
- `offsets.npy`: int64 (products + 1,), where the lines begin and the last one ends;
- `asins.npy`: S10 (products,), the products' numbers; `order.npy`: int64, what sorts them;
- `people.npy`: int64, lines of the listings that people wrote wishes for; `templates.npy`: of those
  with a wish that goals are made from;
- `search/`: see `search/README.md`;
- `catalogue.json`: version, number of products, SHA-256 of `products.jsonl` and of every file.

Everything but the last is memory-mapped, so that opening takes milliseconds and processes share it.
"""

import contextlib
import errno
import hashlib
import json
import mmap
import random
import shutil
import tempfile
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import Field, ValidationError

from tasks.errors import UserError
from tasks.seeding import stable_seed
from tasks.strict import Strict, first_fault
from tasks.webshop.data.listings import Listing
from tasks.webshop.data.products import Product
from tasks.webshop.search.document import document_text
from tasks.webshop.search.index import Index, build_index

VERSION = 2
"""Of the files; a folder of another version is rebuilt."""

_FACTS = "catalogue.json"
_PRODUCTS = "products.jsonl"
_SEARCH = "search"
_KEPT = 20_000
"""Products that stay in memory once they were looked at."""


_STALE_S = 86_400
_CHECKED = 64_000_000
"""Bytes of all files up to which they are hashed at every start (a few milliseconds)."""


class _Facts(Strict):
    version: int
    products: int = Field(gt=0)
    sha256: str
    files: dict[str, str]


class Catalogue:
    """Products by number and by search.

    Args:
        folder: Where `build` put it.

    Raises:
        UserError: The folder is damaged.
    """

    def __init__(self, folder: Path) -> None:
        try:
            facts = _Facts.model_validate_json((folder / _FACTS).read_bytes())
            _check_files(folder, facts.files)
            self._offsets = _load(folder, "offsets")
            self._asins = _load(folder, "asins")
            self._order = _load(folder, "order")
            self._people = _load(folder, "people")
            self._templates = _load(folder, "templates")
            with (folder / _PRODUCTS).open("rb") as file:
                self._lines = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValidationError as error:
            raise _damaged(folder, first_fault(error)) from error
        except (OSError, ValueError) as error:
            raise _damaged(folder, str(error)) from error
        sizes = {len(self._asins), len(self._order), len(self._offsets) - 1}
        if sizes != {facts.products} or len(self._lines) != self._offsets[-1]:
            raise _damaged(folder, "its files do not fit together")
        self.sha256 = facts.sha256
        self.folder = folder
        try:
            self._index = Index.open(folder / _SEARCH)
        except UserError as error:
            raise _damaged(folder, str(error)) from error
        self._kept: OrderedDict[str, Product] = OrderedDict()

    def __len__(self) -> int:
        return len(self._order)

    def product(self, asin: str) -> Product:
        """A product by its number.

        Raises:
            KeyError: It is not sold here.
        """
        found = self._kept.get(asin)
        if found is None:
            found = self.listing(asin).product
            self._kept[asin] = found
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return found

    def listing(self, asin: str) -> Listing:
        """A product and the wishes that it raised.

        Raises:
            KeyError: It is not sold here.
        """
        key = np.bytes_(asin.encode("ascii", "replace"))
        place = int(np.searchsorted(self._asins, key, sorter=self._order))
        if place == len(self) or self._asins[self._order[place]] != key:
            raise KeyError(asin)
        return self._listing_at(int(self._order[place]))

    def listings_for_people(self) -> Iterator[Listing]:
        """The listings that people wrote wishes for, in the order of the source."""
        return (self._listing_at(int(position)) for position in self._people)

    def listings_with_template(self) -> Iterator[Listing]:
        """The listings with a wish that goals are made from, in the order of the source."""
        return (self._listing_at(int(position)) for position in self._templates)

    def search(self, query: str, count: int) -> tuple[str, ...]:
        """Numbers of the products that fit a query, best first."""
        hits = self._index.search(query, count)
        return tuple(self._asins[hit.position].decode() for hit in hits)

    def price(self, product: Product) -> float:
        """What a product costs, in dollars: of a range, a draw that depends on the number alone."""
        if len(product.prices) == 1:
            return product.prices[0]
        low, high = product.prices
        share = random.Random(stable_seed("webshop-price", product.asin)).random()
        return round(low + (high - low) * share, 2)

    def _listing_at(self, position: int) -> Listing:
        line = self._lines[self._offsets[position] : self._offsets[position + 1]]
        return Listing.from_data(json.loads(line))


def build(listings: Iterable[Listing], folder: Path) -> None:
    """Write a catalogue; a folder that is there stays.

    Several processes may build the same one at once: the first one to end gives it its name, and
    what the others made is dropped. A process that is killed leaves a folder with another name,
    which a later build removes.

    Args:
        listings: What is sold, in order; numbers must differ.
        folder: Should be named by what decides the content.

    Raises:
        OSError: The folder cannot be written.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{folder.name}-"
    _remove_stale(folder.parent, prefix)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=prefix) as temporary:
        fresh = Path(temporary) / "catalogue"
        fresh.mkdir()
        writer = _Writer(fresh)
        build_index(writer.write(listings), fresh / _SEARCH)
        writer.finish()
        try:
            fresh.rename(folder)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise


def _remove_stale(parent: Path, prefix: str) -> None:
    """Remove what builds left that were killed."""
    for path in parent.glob(f"{prefix}*"):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > _STALE_S:
                shutil.rmtree(path)


class _Writer:
    """Writes all but the search index while listings pass through to it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._asins: list[bytes] = []
        self._offsets = [0]
        self._people: list[int] = []
        self._templates: list[int] = []
        self._digest = hashlib.sha256()

    def write(self, listings: Iterable[Listing]) -> Iterator[tuple[str, str]]:
        """Write listings, and give each one's number and text for the index."""
        with (self._folder / _PRODUCTS).open("wb") as file:
            for position, listing in enumerate(listings):
                product = listing.product
                # Not sorted: a page shows a product's options in the source's order.
                line = json.dumps(listing.to_data()).encode() + b"\n"
                file.write(line)
                self._digest.update(line)
                self._asins.append(product.asin.encode("ascii"))
                self._offsets.append(self._offsets[-1] + len(line))
                if listing.people:
                    self._people.append(position)
                if listing.template is not None:
                    self._templates.append(position)
                yield (
                    product.asin,
                    document_text(
                        product.title, product.description, product.bullets, product.options
                    ),
                )

    def finish(self) -> None:
        """Write the rest."""
        asins = np.array(self._asins, dtype="S10")
        arrays = {
            "asins": asins,
            "order": np.argsort(asins, kind="stable"),
            "offsets": np.array(self._offsets, dtype=np.int64),
            "people": np.array(self._people, dtype=np.int64),
            "templates": np.array(self._templates, dtype=np.int64),
        }
        for name, array in arrays.items():
            np.save(self._folder / f"{name}.npy", array, allow_pickle=False)
        files = {name: _sha256(self._folder / name) for name in _files(self._folder)}
        sha256 = self._digest.hexdigest()
        facts = _Facts(version=VERSION, products=len(asins), sha256=sha256, files=files)
        (self._folder / _FACTS).write_text(facts.model_dump_json())


def _files(folder: Path) -> list[str]:
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return sorted(path.as_posix() for path in paths if path.as_posix() != _FACTS)


def _check_files(folder: Path, hashes: Mapping[str, str]) -> None:
    """Compare all files with their hashes, unless they are too large to be read at every start."""
    if _files(folder) != sorted(hashes):
        raise ValueError("a file is missing or was added")
    if sum((folder / name).stat().st_size for name in hashes) > _CHECKED:
        return
    for name, sha256 in hashes.items():
        if _sha256(folder / name) != sha256:
            raise ValueError(f"{name} was changed")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _load(folder: Path, name: str) -> npt.NDArray[Any]:
    array: npt.NDArray[Any] = np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
    return array


def _damaged(folder: Path, fault: str) -> UserError:
    return UserError(f"{folder} is not a complete catalogue ({fault}); delete it to rebuild it")
