"""Stable hashes and seeds: the same on every machine, in every process and order."""

import hashlib
import json
import random
from collections.abc import Sequence
from typing import Any, Final, TypeVar

_Item = TypeVar("_Item")
_CANONICAL: Final = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)
"""Made once: `json.dumps` makes one for every value."""


def canonical_json(value: Any) -> str:
    """Render a JSON value in the one form that is hashed: sorted keys, no spaces, UTF-8.

    Raises:
        ValueError: The value holds NaN or an infinity, which JSON cannot express.
    """
    return _CANONICAL.encode(value)


def sha256_text(text: str) -> str:
    """SHA-256 of a text, as 64 hexadecimal digits.

    Lone surrogates (which a model's undecodable bytes may become) are hashed as they are.
    """
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def stable_seed(*parts: str | int, bits: int = 63) -> int:
    """Derive a non-negative seed below `2**bits` from the parts, in order.

    Unlike Python's `hash`, the value depends on nothing else: not on the process, the clock or
    the order of work. Parts are separated, so `("ab", "c")` and `("a", "bc")` differ.
    """
    digest = hashlib.sha256(canonical_json([*parts]).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> (64 - bits)


def pick(items: Sequence[_Item], rng: random.Random) -> _Item:
    """One of the items; unlike `random.choice`, the same in every version of Python."""
    return items[int(rng.random() * len(items))]
