"""The catalogues by name: their sources, and their cache."""

import hashlib
import json
import logging
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

from tasks.errors import UserError
from tasks.seeding import canonical_json
from tasks.webshop.data import catalogue, files
from tasks.webshop.data.catalogue import Catalogue
from tasks.webshop.data.files import DataFiles
from tasks.webshop.data.listings import Listing
from tasks.webshop.data.products import Product
from tasks.webshop.search.storage import FORMAT

BUILTIN = "builtin"
SMALL = "small_1000"
FULL = "full"

DATA_VARIABLE = "WEBSHOP_DATA"
"""Environment variable that names the folder of the public files."""
CACHE_VARIABLE = "ARLARENA_BENCH_CACHE"
"""Environment variable that names the folder where built catalogues are kept."""

BUILTIN_FILE = Path(__file__).parents[1] / "panels" / "catalogue.jsonl"
"""The products of the built-in catalogue, one JSON object a line, as the generator made them."""

_PUBLIC = {
    SMALL: ("items_shuffle_1000.json", "items_ins_v2_1000.json", "items_human_ins.json"),
    FULL: ("items_shuffle.json", "items_ins_v2.json", "items_human_ins.json"),
}
_TAKES_LONG = 100_000_000
"""Bytes of a source from which on one is told that building takes a while."""

log = logging.getLogger(__name__)


@cache
def builtin_products() -> tuple[Product, ...]:
    """The products of the built-in catalogue, in order."""
    lines = BUILTIN_FILE.read_text("utf-8").splitlines()
    return tuple(Product.from_data(json.loads(line)) for line in lines)


def data_files(name: str) -> DataFiles:
    """The public files of a catalogue, whether or not they are there.

    Raises:
        UserError: `$WEBSHOP_DATA` is not set.
    """
    folder = os.environ.get(DATA_VARIABLE)
    if not folder:
        raise UserError(f"webshop/{name} needs WebShop's public files; {how_to_get(name)}")
    return DataFiles(*(Path(folder).expanduser() / file for file in _PUBLIC[name]))


def is_there(name: str) -> bool:
    """Whether the sources of a catalogue are on this machine; what they hold is not looked at."""
    if name == BUILTIN:
        return True
    if not os.environ.get(DATA_VARIABLE):
        return False
    return all(path.is_file() for path in data_files(name).paths)


def how_to_get(name: str) -> str:
    """What to do about missing files."""
    return (
        f"put {', '.join(_PUBLIC[name])} (as WebShop's setup downloads them) into one "
        f"folder and pass it with ${DATA_VARIABLE} or --data webshop=FOLDER"
    )


def open_catalogue(name: str) -> Catalogue:
    """Open a catalogue; build it first where it was not built from these sources before.

    Raises:
        UserError: Sources are missing or malformed, or the cache folder cannot be used.
    """
    folder = _cache_folder() / "webshop" / f"{name}-{_key(name)}"
    try:
        if not folder.is_dir():
            catalogue.build(_listings(name), folder)
    except OSError as error:
        raise UserError(
            f"{folder} cannot be written ({error.strerror or error}); choose another cache "
            f"folder with ${CACHE_VARIABLE}"
        ) from error
    return _opened(folder)


@cache
def _opened(folder: Path) -> Catalogue:
    return Catalogue(folder)


def _listings(name: str) -> Iterator[Listing]:
    if name == BUILTIN:
        return (Listing(product) for product in builtin_products())
    sources = data_files(name)
    size = sources.items.stat().st_size
    if size > _TAKES_LONG:
        log.warning("building the catalogue and its index from %s, once", sources.items)
    return files.read_listings(sources)


def _cache_folder() -> Path:
    named = os.environ.get(CACHE_VARIABLE)
    return Path(named).expanduser() if named else user_cache_path("arlarena-bench")


def _key(name: str) -> str:
    """Changes with the sources and with the form in which catalogues are kept.

    Of the public files, name, size and time are looked at: reading gigabytes at every start would
    take longer than everything else.
    """
    if name == BUILTIN:
        source: list[Any] = [_builtin_sha256()]
    else:
        source = [_facts(path, name) for path in data_files(name).paths]
    text = canonical_json([catalogue.VERSION, FORMAT, source])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@cache
def _builtin_sha256() -> str:
    return hashlib.sha256(BUILTIN_FILE.read_bytes()).hexdigest()


def _facts(path: Path, name: str) -> list[str | int]:
    try:
        found = path.stat()
    except OSError as error:
        raise UserError(
            f"webshop/{name}: {path} cannot be read ({error.strerror}); {how_to_get(name)}"
        ) from error
    return [path.name, found.st_size, found.st_mtime_ns]
