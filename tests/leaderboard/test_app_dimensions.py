"""Which choice helps."""

from pathlib import Path
from typing import Any

import pytest

from benchmark.statistics import mean_interval, wilson
from leaderboard.dimensions import Dimension, dimensions
from leaderboard.rows import Choices, FullRow
from leaderboard.training_rows import EventCount, Stability
from tests.board_rows import Counts, board_row
from tests.leaderboard.conftest import SOKOBAN, Boards, first

PLAIN = Choices("grpo", "ppo", "token-mean", "plain")
GSPO = Choices("grpo", "gspo", "token-mean", "plain")
OTHER = Choices("gigpo", "gspo", "token-mean", "plain")
KEYS = (SOKOBAN.key,)


def collapsed(happened: int, known: int) -> Stability:
    event = EventCount("collapse", happened, known, happened / known, 0.0, 1.0)
    return Stability((0,), (), (), (event,), (), None, None)


def entry(day: int, choices: Choices, solved: Counts, **changes: Any) -> FullRow:
    return board_row(f"202601{day:02}_entry", {SOKOBAN: [solved]}, choices=choices, **changes)


def clipping(boards: Boards, *rows: FullRow, base: str | None = None) -> Dimension:
    found = {each.name: each for each in dimensions(boards(*rows), "v1", KEYS, base)}
    assert list(found) == ["advantage", "clipping", "aggregation", "sampling"]
    return found["clipping"]


def test_a_pair_by_hand(boards: Boards) -> None:
    found = clipping(
        boards,
        entry(1, PLAIN, first(50), stability=collapsed(2, 3)),
        entry(2, GSPO, first(60), stability=collapsed(0, 3)),
        entry(3, PLAIN, first(1), init=None),
    )
    assert (found.reference, found.unknown) == ("ppo", 0)
    reference, gspo = found.effects
    assert (reference.choice, reference.entries, reference.pairs, reference.gain) == (
        "ppo", 2, 0, None,
    )  # fmt: skip
    # Ten of a hundred episodes are solved by one of the two alone.
    assert gspo.gain == mean_interval([1.0] * 10 + [0.0] * 90)
    assert gspo.gain.value == pytest.approx(0.1)
    assert (gspo.entries, gspo.pairs) == (1, 1)
    assert (reference.collapsed, reference.seeds) == (2, 3)
    assert reference.collapse_rate == wilson(2, 3)
    assert (gspo.collapsed, gspo.seeds) == (0, 3)


def test_the_reference_is_the_choice_with_the_most_pairs(boards: Boards) -> None:
    def other(clipping: str) -> Choices:
        return Choices("grpo", clipping, "token-mean", "plain")

    rows = [
        entry(1, other("cispo"), first(10)),
        entry(2, other("ppo"), first(20)),
        entry(3, other("sapo"), first(30)),
        # The most common one, and none of them has a partner.
        entry(4, OTHER, first(40)),
        entry(5, OTHER, first(50)),
    ]
    found = clipping(boards, *rows)
    assert found.reference == "ppo"
    gains = {e.choice: e.gain and round(e.gain.value, 3) for e in found.effects}
    assert gains == {"ppo": None, "cispo": -0.1, "sapo": 0.1, "gspo": None}
    assert [effect.pairs for effect in found.effects] == [0, 1, 0, 1]


def test_entries_that_differ_in_more_are_no_pair(boards: Boards) -> None:
    found = clipping(boards, entry(1, PLAIN, first(50)), entry(2, OTHER, first(90)))
    assert [effect.pairs for effect in found.effects] == [0, 0]
    assert [effect.gain for effect in found.effects] == [None, None]


def test_other_inits_and_bases_are_no_pair(boards: Boards) -> None:
    one = entry(1, PLAIN, first(50))
    other = entry(2, GSPO, first(60), base_model="Qwen3-4B")
    assert [e.pairs for e in clipping(boards, one, other).effects] == [0, 0]
    assert [e.choice for e in clipping(boards, one, other, base="Qwen3-4B").effects] == ["gspo"]


def test_of_entries_that_are_alike_the_latest_counts(boards: Boards) -> None:
    found = clipping(
        boards,
        entry(1, PLAIN, first(50)),
        entry(2, PLAIN, first(40)),
        entry(3, GSPO, first(60)),
    )
    gain = found.effects[1].gain
    assert gain is not None and gain.value == pytest.approx(0.2)


def test_pairs_on_the_same_episodes_are_no_independent_evidence(boards: Boards) -> None:
    """The same pair under another init widens nothing and narrows nothing."""
    rows = [entry(1, PLAIN, first(50)), entry(2, GSPO, first(60))]
    twin = [
        entry(3, PLAIN, first(50), base_model="other"),
        entry(4, GSPO, first(60), base_model="other"),
    ]
    alone, both = clipping(boards, *rows), clipping(boards, *rows, *twin)
    assert both.effects[1].pairs == 2
    assert both.effects[1].gain == alone.effects[1].gain


def test_unknown_choices_are_counted_and_not_guessed(boards: Boards) -> None:
    found = clipping(boards, entry(1, Choices(None, None, None, None), first(50)))
    assert (found.reference, found.effects, found.unknown) == (None, (), 1)


def test_inits_and_policies_are_no_recipes(boards: Boards) -> None:
    found = clipping(boards, entry(1, PLAIN, first(50), kind="init"))
    assert found == Dimension("clipping", None, (), 0)


def test_an_entry_without_all_panels_is_left_out(boards: Boards, tmp_path: Path) -> None:
    board = boards(entry(1, PLAIN, first(50)))
    found = dimensions(board, "v1", [*KEYS, ("alfworld", "builtin")])
    assert all(each.effects == () for each in found)
