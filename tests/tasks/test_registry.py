"""Tasks are found by their folders; seeds and hashes are the same everywhere."""

import pytest

from tasks.errors import UserError, suggestion
from tasks.registry import load_task, task_names
from tasks.seeding import canonical_json, sha256_text, stable_seed


def test_tasks_are_found() -> None:
    assert "sokoban" in task_names()
    for name in task_names():
        assert load_task(name).info.name == name
        assert next(iter(load_task(name).panels())) == "builtin"


def test_an_unknown_task_names_the_near_ones() -> None:
    with pytest.raises(UserError, match=r"unknown task 'sokobann'; did you mean sokoban\?"):
        load_task("sokobann")


def test_near() -> None:
    assert suggestion("bat", ("cat", "hat", "dog")) == "; did you mean hat or cat?"
    assert suggestion("zzz", ("cat", "dog")) == "; there are cat, dog"
    assert suggestion("zzz", ()) == "; there are none"
    assert suggestion("CAT", ("cat", "dog")) == "; did you mean cat?"
    many = tuple(f"a{n}" for n in range(23))
    assert suggestion("zzz", many).endswith(", a19 and 3 more")


def test_seeds_are_pinned() -> None:
    # SHA-256 of ["a",1], first eight bytes, shifted right by one bit.
    assert stable_seed("a", 1) == SEED
    assert stable_seed("a", 1, bits=8) == SEED >> 55
    assert stable_seed("ab", "c") != stable_seed("a", "bc")
    assert stable_seed("1") != stable_seed(1)


SEED = int("135f17a475a61afd", 16) >> 1


def test_canonical_json() -> None:
    assert canonical_json({"b": [1, 2.5, None], "a": "ü"}) == '{"a":"ü","b":[1,2.5,null]}'
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json(float("nan"))


def test_texts_that_are_no_unicode_have_a_hash() -> None:
    assert sha256_text("\ud800") != sha256_text("\ud801")
    assert sha256_text("abc").startswith("ba7816bf")
