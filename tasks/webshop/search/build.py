"""Builds an index: one pass over the documents, then a counting sort on disk.

Memory: the vocabulary (about 200 bytes a term), 40 bytes a document, and some 150 MB for `BLOCK`
pairs of a term and a document. The files are written as maps, whose pages the system may take back.
Disk: while building, 12 bytes a pair more than what stays.
"""

import os
import shutil
from array import array
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.errors import UserError
from tasks.webshop.search.analysis import analyze
from tasks.webshop.search.bm25 import divisors, quantised_length
from tasks.webshop.search.storage import FORMAT, IndexManifest, array_path, write_manifest
from tasks.webshop.search.vocabulary import term_hashes

BLOCK = 2_000_000
"""Pairs of a term and a document that are held in memory."""

_LONGEST_ID = 10
# Without annotations in numpy.
_open_memmap: Callable[..., NDArray[Any]] = np.lib.format.open_memmap


def build_index(documents: Iterable[tuple[str, str]], folder: Path) -> None:
    """Build the index of documents in a new folder.

    A failure leaves no folder; a process that is killed leaves one that cannot be opened. Who wants
    to share it gives it its final name when it is whole, as `tasks.webshop.data.catalogue` does.

    Args:
        documents: Id (ASCII, 1 to 10 characters, unique) and text of each, in any order.
        folder: Where; its parent is made if it is not there.

    Raises:
        UserError: There are no documents, an id is not as it must be, or the folder is there
            already or cannot be written.
    """
    try:
        folder.mkdir(parents=True)
        try:
            _Builder(folder).build(documents)
        except BaseException:
            shutil.rmtree(folder)
            raise
    except OSError as error:
        raise UserError(f"the search index {folder} cannot be built: {error}") from error


class _Builder:
    """One index on its way."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ids = bytearray()
        self._vocabulary: dict[str, int] = {}
        self._kinds: dict[tuple[int, int], int] = {}
        self._blocks: list[Path] = []
        self._terms = array("I")
        self._documents = array("I")
        self._pair_kinds = array("I")
        self._with_terms = 0
        self._total_length = 0

    def build(self, documents: Iterable[tuple[str, str]]) -> None:
        for number, (id_, text) in enumerate(documents):
            self._add_id(id_, number)
            self._add(number, Counter(analyze(text)))
            if len(self._terms) >= BLOCK:
                self._flush()
        if not self._ids:
            raise UserError("there are no documents to build a search index of")
        self._flush()
        self._write()

    def _add_id(self, id_: str, number: int) -> None:
        if not (id_.isascii() and id_.isprintable() and 1 <= len(id_) <= _LONGEST_ID):
            raise UserError(
                f"document {number}: its id must be 1 to {_LONGEST_ID} ASCII characters, "
                f"not {id_[:40]!r}"
            )
        self._ids += id_.encode().ljust(_LONGEST_ID, b"\0")

    def _add(self, number: int, frequencies: Counter[str]) -> None:
        length = frequencies.total()
        self._total_length += length
        self._with_terms += length > 0
        quantised = quantised_length(length)
        vocabulary, kinds = self._vocabulary, self._kinds
        self._terms.extend([vocabulary.setdefault(t, len(vocabulary)) for t in frequencies])
        self._pair_kinds.extend(
            [kinds.setdefault((tf, quantised), len(kinds)) for tf in frequencies.values()]
        )
        self._documents.extend([number] * len(frequencies))

    def _flush(self) -> None:
        path = self._folder / f"block{len(self._blocks)}.npy"
        np.save(
            path,
            np.stack([np.array(x) for x in (self._terms, self._documents, self._pair_kinds)]),
            allow_pickle=False,
        )
        self._blocks.append(path)
        for values in (self._terms, self._documents, self._pair_kinds):
            del values[:]

    def _write(self) -> None:
        arrays: dict[str, NDArray[Any]] = {"ranks": self._ranks()}
        numbers = self._write_vocabulary(arrays)
        average = np.float32(self._total_length / self._with_terms if self._with_terms else 0)
        pairs = np.array(list(self._kinds), dtype=np.float32).reshape(-1, 2)
        arrays["divisors"] = divisors(pairs[:, 0], pairs[:, 1], average)
        lengths = self._write_postings(numbers, arrays)
        for name, values in arrays.items():
            np.save(array_path(self._folder, name), values, allow_pickle=False)
            lengths[name] = len(values)
        manifest = IndexManifest(
            format=FORMAT,
            documents=len(arrays["ranks"]),
            documents_with_terms=self._with_terms,
            terms=len(numbers),
            average_length=float(average),
            lengths=lengths,
        )
        write_manifest(self._folder, manifest)

    def _ranks(self) -> NDArray[np.int32]:
        ids = np.frombuffer(self._ids, dtype=f"S{_LONGEST_ID}")
        order = np.argsort(ids, kind="stable")
        ordered = ids[order]
        repeated = np.flatnonzero(ordered[1:] == ordered[:-1])
        if len(repeated):
            raise UserError(f"the id {ordered[repeated[0]].decode()} occurs twice")
        ranks = np.empty(len(ids), dtype=np.int32)
        ranks[order] = np.arange(len(ids), dtype=np.int32)
        return ranks

    def _write_vocabulary(self, arrays: dict[str, NDArray[Any]]) -> NDArray[np.int64]:
        """Number the terms by their hashes.

        Returns:
            The new number of each old one.
        """
        terms = list(self._vocabulary)
        self._vocabulary.clear()
        hashes = term_hashes(terms)
        order = np.argsort(hashes, kind="stable")
        spelled = [terms[old].encode() for old in order.tolist()]
        arrays["hashes"] = hashes[order]
        arrays["spelling"] = np.frombuffer(b"".join(spelled), dtype=np.uint8)
        arrays["spelling_ends"] = np.cumsum([len(s) for s in spelled], dtype=np.int64)
        numbers = np.empty(len(terms), dtype=np.int64)
        numbers[order] = np.arange(len(terms))
        return numbers

    def _write_postings(
        self, numbers: NDArray[np.int64], arrays: dict[str, NDArray[Any]]
    ) -> dict[str, int]:
        counts = np.zeros(len(numbers), dtype=np.int64)
        for path in self._blocks:
            counts += np.bincount(numbers[np.load(path)[0]], minlength=len(numbers))
        arrays["posting_ends"] = np.cumsum(counts)
        # Where the next document of each term goes.
        free = arrays["posting_ends"] - counts
        arrays["strongest"] = np.zeros(len(numbers), dtype=np.float32)
        total = int(counts.sum())
        kept = {
            "documents": self._new_array("documents", np.dtype(np.uint32), total),
            "kinds": self._new_array("kinds", np.min_scalar_type(len(self._kinds)), total),
        }
        for path in self._blocks:
            old_terms, documents, kinds = np.load(path)
            path.unlink()
            terms = numbers[old_terms]
            order = np.argsort(terms, kind="stable")
            terms, documents, kinds = terms[order], documents[order], kinds[order]
            first = np.flatnonzero(np.diff(terms, prepend=-1))
            present, sizes = terms[first], np.diff(first, append=len(terms))
            places = np.arange(len(terms)) + np.repeat(free[present] - first, sizes)
            kept["documents"][places] = documents
            kept["kinds"][places] = kinds
            free[present] += sizes
            strongest = np.maximum.reduceat(arrays["divisors"][kinds], first)
            arrays["strongest"][present] = np.maximum(arrays["strongest"][present], strongest)
        return dict.fromkeys(kept, total)

    def _new_array(self, name: str, dtype: np.dtype[Any], length: int) -> NDArray[Any]:
        path = array_path(self._folder, name)
        made = _open_memmap(path, mode="w+", dtype=dtype, shape=(length,))
        with path.open("rb+") as file:
            # A full disk is found now, by an error, and not later, by a signal.
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
        return made
