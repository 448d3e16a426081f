"""Differences other than the method between compared training runs."""

from collections.abc import Sequence
from typing import Any

from benchmark.logs.lines import Start
from benchmark.stability.unequal_settings import unequal_settings
from tasks.seeding import sha256_text
from tasks.texts import ELLIPSIS, digest_text
from tests.support.training.logs import start_line

TRACK = {"name": "sokoban-stress", "sha256": sha256_text("track")}


def start(rate: float, track: Any = None, **settings: Any) -> Start:
    configuration = {
        "advantage": {"name": f"of {rate}"},
        "optimization": {"learning_rate": rate, "updates": rate, "micro_batch_tokens": rate},
        **settings,
    }
    return Start.model_validate(start_line(configuration=configuration, track=track))


def text(starts: Sequence[Start]) -> str:
    found = unequal_settings(starts)
    assert found is not None
    return found.text


def test_settings_that_differ_are_named_the_learning_rate_first_what_one_lacks_last() -> None:
    runs = [start(1e-4, a={"lora": 1}, kl={"coef": 0}), start(5e-4, kl={"coef": 0.5})]
    assert text(runs) == (
        "not only the method differs:\n"
        "    optimization.learning_rate  0.0001 or 0.0005\n"
        "    kl.coef                     0 or 0.5\n"
        "    a.lora                      1 or not set"
    )
    many = [start(1, **dict.fromkeys(map(str, range(14)), value)) for value in (1, 2)]
    lines = text(many).splitlines()
    assert lines[:2] == ["settings that differ:", "    0   1 or 2"]
    assert lines[-2:] == ["    11  1 or 2", "    and 2 more settings"]
    found = unequal_settings(many)
    assert found is not None and len(found.values) == 14


def test_values_are_cut_and_the_first_ones_of_many_are_shown() -> None:
    runs = [start(rate) for rate in (1, 2, 3, 4)]
    assert text(runs).endswith(f"  1 or 2 or 3 or {ELLIPSIS}")
    long = [start(1, x="a" * 40 + end) for end in "bc"]
    assert text(long).count("a" * 23 + ELLIPSIS) == 2


def test_inits_are_named_and_their_hashes_where_the_names_are_equal() -> None:
    one = start(1)
    other = one.model_copy(update={"init": one.init.model_copy(update={"sha256": "b" * 64})})
    renamed = one.model_copy(update={"init": one.init.model_copy(update={"name": "mine"})})
    assert f"init  {one.init.name} or mine" in text([one, renamed])
    assert text([one, other]).endswith(f"or {digest_text('b' * 64)}")


def test_the_length_of_a_run_counts_where_its_learning_rates_depend_on_it() -> None:
    linear = [
        start(1, optimization={"learning_rate": 1, "updates": updates, "schedule": "linear"})
        for updates in (10, 20)
    ]
    assert text(linear) == "settings that differ:\n    optimization.updates  10 or 20"


def test_nothing_is_said_of_one_track_and_of_equal_settings() -> None:
    assert unequal_settings([start(1, TRACK), start(2, TRACK)]) is None
    assert unequal_settings([start(1, TRACK), start(2)]) is not None
    assert unequal_settings([start(1), start(1)]) is unequal_settings([]) is None
