"""An index on disk: a folder of arrays, and `index.json`, which describes them.

With N documents, T terms, P pairs of a term and a document that has it:

    ranks         int32 (N,)      place of a document's id among all ids
    hashes        uint64 (T,)     BLAKE2b of the terms, ascending; terms are numbered by it
    spelling      uint8           the terms in UTF-8, one after the other
    spelling_ends int64 (T,)      where each ends
    posting_ends  int64 (T,)      where each term's documents end
    documents     uint32 (P,)     numbers of the documents with a term, ascending within the term
    kinds         uint8 to uint32 (P,)   which divisor belongs to term and document
    divisors      float32         see bm25.py
    strongest     float32 (T,)    the largest divisor of a term
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from tasks.errors import UserError
from tasks.strict import Strict, first_fault

FORMAT = 1
"""Changes with the files and with anything in the analysis that would give other terms."""

MANIFEST = "index.json"
ARRAYS = {
    "ranks": ("int32",),
    "hashes": ("uint64",),
    "spelling": ("uint8",),
    "spelling_ends": ("int64",),
    "posting_ends": ("int64",),
    "documents": ("uint32",),
    "kinds": ("uint8", "uint16", "uint32"),
    "divisors": ("float32",),
    "strongest": ("float32",),
}
"""Names of the arrays and the types that each may have."""

_LARGEST_MANIFEST = 100_000
"""Bytes."""


class IndexManifest(Strict):
    """The content of `index.json`.

    Attributes:
        format: `FORMAT`.
        documents: How many there are.
        documents_with_terms: Of them, those that have any term.
        terms: Different terms.
        average_length: Terms of a document that has any, repeats included.
        lengths: Elements of every array.
    """

    format: int
    documents: int = Field(gt=0)
    documents_with_terms: int = Field(ge=0)
    terms: int = Field(ge=0)
    average_length: float = Field(ge=0, allow_inf_nan=False)
    lengths: dict[str, int]


def array_path(folder: Path, name: str) -> Path:
    """Where an array is."""
    return folder / f"{name}.npy"


def write_manifest(folder: Path, manifest: IndexManifest) -> None:
    """Write `index.json`, and see to it that all files are on the disk."""
    (folder / MANIFEST).write_text(manifest.model_dump_json(indent=2) + "\n", encoding="ascii")
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())


def read(folder: Path) -> tuple[IndexManifest, Mapping[str, NDArray[Any]]]:
    """Read the manifest and map the arrays into memory.

    Raises:
        UserError: A file is missing, cannot be read, is of another format or is not whole.
    """
    manifest = _read_manifest(folder / MANIFEST)
    return manifest, {
        name: _map(array_path(folder, name), types, manifest.lengths.get(name, -1))
        for name, types in ARRAYS.items()
    }


def damaged(path: Path, what: str) -> UserError:
    """The error for a file that is not as it was written."""
    return UserError(f"{path} {what}; rebuild the index")


def _read_manifest(path: Path) -> IndexManifest:
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_MANIFEST + 1)
    except OSError as error:
        raise damaged(path, f"cannot be read: {error.strerror}") from error
    if len(content) > _LARGEST_MANIFEST:
        raise damaged(path, f"has more than {_LARGEST_MANIFEST} bytes")
    try:
        manifest = IndexManifest.model_validate_json(content)
    except ValidationError as error:
        raise damaged(path, f"does not describe a search index: {first_fault(error)}") from error
    if manifest.format != FORMAT:
        raise damaged(path, f"has format {manifest.format}, but this version reads {FORMAT}")
    return manifest


def _map(path: Path, types: tuple[str, ...], length: int) -> NDArray[Any]:
    try:
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise damaged(path, f"cannot be read: {error.strerror}") from error
    except (ValueError, EOFError) as error:
        raise damaged(path, f"is not a complete array: {str(error)[:200]}") from error
    if mapped.shape != (length,) or mapped.dtype.name not in types:
        raise damaged(
            path,
            f"has {mapped.dtype.name} {mapped.shape} where {MANIFEST} says "
            f"{' or '.join(types)} ({length},)",
        )
    # A plain array, as every slice of a memmap costs more than what is done with it.
    return np.asarray(mapped)
