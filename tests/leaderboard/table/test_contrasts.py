"""Which choices help."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from benchmark.stats.intervals import Interval, mean_of
from benchmark.stats.paired import OVER_EPISODES, OVER_SEEDS
from leaderboard.board.rows import BoardRow, FullRow, RecipeChoices
from leaderboard.board.training_rows import EventCount, Stability
from leaderboard.table.contrasts import (
    OVER_PAIRS,
    Collapses,
    Dimension,
    dimensions,
    kind_of,
    over_pairs,
)
from leaderboard.table.paired import compare
from tasks.seeding import sha256_text
from tests.leaderboard.conftest import SOKOBAN, Boards, first
from tests.support.board_rows import board_row, choices
from tests.support.newcombe import newcombe_paired


def with_clipping(name: str, advantage: str = "grpo", setting: str = "24 updates") -> RecipeChoices:
    return choices(advantage, name, "token-mean", "plain", setting)


PLAIN = with_clipping("ppo")
GSPO = with_clipping("gspo")
OTHER = with_clipping("gspo", advantage="gigpo")
UNKNOWN = RecipeChoices(None, None, None, None, None)
KEYS = (SOKOBAN.key,)


def collapsed(happened: int, known: int, unknown: int = 0) -> Stability:
    event = EventCount("collapse", happened, known, happened / known, 0.0, 1.0)
    return Stability(tuple(range(known + unknown)), (), (), (event,), (), None, None)


def entry(day: int, chosen: RecipeChoices, *solved: int, **changes: Any) -> FullRow:
    """An entry whose seeds have solved these numbers of 100 episodes."""
    plays = {SOKOBAN: [first(count) for count in solved]}
    return board_row(f"202601{day:02}_entry", plays, choices=chosen, **changes)


def clipping(boards: Boards, *rows: FullRow, base: str | None = None) -> Dimension:
    found = {each.name: each for each in dimensions(boards(*rows), "v1", KEYS, base)}
    assert list(found) == ["advantage", "clipping", "aggregation", "sampling"]
    return found["clipping"]


def between(boards: Boards, first: FullRow, second: FullRow) -> Interval:
    """The difference on the page `Compare`."""
    board = boards(*sorted((first, second), key=lambda row: row.id))
    rows: Sequence[BoardRow] = [board.row(row.id, "v1") or row for row in (first, second)]
    found = compare(board, rows[0], rows[1], KEYS[0])
    assert found is not None
    return found.difference


def shown(dimension: Dimension) -> list[tuple[str, str]]:
    return [(each.choice, each.over) for each in dimension.contrasts]


def test_a_pair_by_hand(boards: Boards) -> None:
    rows = [
        entry(1, PLAIN, 50, 54, stability=collapsed(1, 1, unknown=1)),
        entry(2, GSPO, 60, 62, 70, stability=replace(collapsed(0, 3), halved=(1,))),
        entry(3, PLAIN, 1, init=None),
    ]
    found = clipping(boards, *rows)
    (contrast,) = found.contrasts
    assert (contrast.choice, contrast.over, contrast.seeds) == ("gspo", "ppo", (3, 2))
    assert contrast.collapses == (Collapses(0, 3, halved=1), Collapses(1, 1, unknown=1))
    assert contrast.settings == ("24 updates",)
    assert contrast.gains == pytest.approx((0.12,))
    assert contrast.gain == between(boards, rows[1], rows[0])
    assert contrast.method == OVER_SEEDS
    # Wider than Welch's interval over the seeds alone.
    welch = stats.ttest_ind([0.6, 0.62, 0.7], [0.5, 0.54], equal_var=False)
    ends = welch.confidence_interval(0.95)
    assert contrast.gain.low < ends.low < ends.high < contrast.gain.high
    assert (found.alone, found.unknown) == ((), 0)


@pytest.mark.parametrize(
    ("track", "kind"),
    [
        ("sokoban-standard", "standard"),
        ("sokoban-pixels-stress", "pixels-stress"),
        ("all-async-1", "async-1"),
        ("sokoban-sweep-x10-kl", "sweep-x10-kl"),
        ("paper-tir_math", "paper"),
        ("open", ""),
    ],
)
def test_the_kind_of_a_track_is_what_tasks_share(track: str, kind: str) -> None:
    assert kind_of(track) == kind


def test_tracks_of_different_kinds_are_not_averaged(boards: Boards) -> None:
    rows = [
        entry(1, PLAIN, 50, track="sokoban-standard"),
        entry(2, GSPO, 50, track="sokoban-standard"),
        entry(3, PLAIN, 10, track="sokoban-stress"),
        entry(4, GSPO, 40, track="sokoban-stress"),
    ]
    found = clipping(boards, *rows).contrasts
    assert [(each.kind, each.gains) for each in found] == [
        ("standard", (0.0,)),
        ("stress", pytest.approx((0.3,))),
    ]


def test_a_single_seed_has_the_interval_over_episodes(boards: Boards) -> None:
    rows = [entry(1, PLAIN, 50), entry(2, GSPO, 60)]
    (contrast,) = clipping(boards, *rows).contrasts
    # Both solve the first 50 of 100, and GSPO solves ten more.
    wanted = newcombe_paired(50, 10, 0, 40)
    assert (contrast.gain.low, contrast.gain.high) == pytest.approx((wanted.low, wanted.high))
    assert contrast.method == OVER_EPISODES


def test_from_three_pairs_on_the_interval_is_over_pairs(boards: Boards) -> None:
    """Variation between entries exceeds that between the seeds of one."""
    rows = []
    for number, solved in enumerate((60, 45, 55)):
        base = {"base_model": f"model {number}"}
        rows += [
            entry(2 * number + 1, PLAIN, 50, 50, **base),
            entry(2 * number + 2, GSPO, solved, solved, **base),
        ]
    (contrast,) = clipping(boards, *rows).contrasts
    assert contrast.gains == pytest.approx((0.1, -0.05, 0.05))
    student = stats.ttest_1samp([0.1, -0.05, 0.05], 0).confidence_interval(0.95)
    assert (contrast.gain.low, contrast.gain.high) == pytest.approx((student.low, student.high))
    assert contrast.gain.low < 0 < contrast.gain.high
    assert contrast.method == OVER_PAIRS


def test_two_pairs_have_the_interval_of_their_mean(boards: Boards) -> None:
    one = [entry(1, PLAIN, 50, 54), entry(2, GSPO, 60, 62)]
    two = [
        entry(3, PLAIN, 20, 25, base_model="other"),
        entry(4, GSPO, 40, 41, base_model="other"),
    ]
    (contrast,) = clipping(boards, *one, *two).contrasts
    pairs = [between(boards, one[1], one[0]), between(boards, two[1], two[0])]
    assert contrast.gain == mean_of(pairs)
    assert contrast.gains == pytest.approx((0.09, 0.18))


def test_where_nothing_helps_intervals_hold_zero() -> None:
    """Entries that differ for other reasons: about one interval in twenty misses the truth."""
    rng = np.random.default_rng(0)
    missed = 0
    for _ in range(400):
        found = over_pairs(rng.normal(0.0, 0.1, 4).tolist())
        missed += not found.low <= 0 <= found.high
    assert missed <= 35


def test_choices_are_held_against_grpos_own(boards: Boards) -> None:
    rows = [
        entry(1, with_clipping("cispo"), 10),
        entry(2, PLAIN, 20),
        entry(3, with_clipping("sapo"), 30),
        # The most common choice, but no entry with it has a partner.
        entry(4, OTHER, 40),
        entry(5, OTHER, 50),
    ]
    found = clipping(boards, *rows)
    gains = {(e.choice, e.over): round(e.gain.value, 3) for e in found.contrasts}
    assert gains == {("cispo", "ppo"): -0.1, ("sapo", "ppo"): 0.1}
    assert found.alone == ("gspo",)


def test_a_mask_is_held_against_the_clipping_without_it(boards: Boards) -> None:
    """GRPO has another setting, so it cannot be compared with these two."""
    rows = [
        entry(1, with_clipping("cispo"), 10),
        entry(2, with_clipping("cispo + sequence mask"), 60),
        entry(3, with_clipping("ppo", setting="5 updates"), 50),
    ]
    found = clipping(boards, *rows)
    assert shown(found) == [("cispo + sequence mask", "cispo")]
    assert found.contrasts[0].gain.value == pytest.approx(0.5)
    assert found.alone == ("ppo",)

    both = clipping(boards, *rows, entry(4, PLAIN, 50))
    assert shown(both) == [
        ("cispo", "ppo"),
        ("cispo + sequence mask", "ppo"),
        ("cispo + sequence mask", "cispo"),
    ]


def test_a_choice_without_such_a_pair_has_its_most_common_partner(boards: Boards) -> None:
    rows = [
        entry(1, with_clipping("cispo"), 10),
        entry(2, with_clipping("sapo"), 20),
        entry(3, with_clipping("tis"), 30),
        entry(4, with_clipping("cispo"), 10, base_model="other"),
        entry(5, with_clipping("tis"), 40, base_model="other"),
    ]
    assert shown(clipping(boards, *rows)) == [("cispo", "tis"), ("sapo", "cispo")]


def test_one_name_with_other_constants_is_another_choice(boards: Boards) -> None:
    changed = (PLAIN.hashes[0], sha256_text("clip 10"), *PLAIN.hashes[2:])
    wide = RecipeChoices("grpo", "ppo", "token-mean", "plain", "24 updates", changed)
    third = (PLAIN.hashes[0], sha256_text("clip 20"), *PLAIN.hashes[2:])
    usual = [entry(1, PLAIN, 50), entry(2, PLAIN, 60)]
    odd = [
        entry(day, replace(wide, hashes=each), 10, recipe="wide", track="a-standard")
        for day, each in ((3, changed), (4, third))
    ]
    usual = [replace(row, track="a-standard") for row in usual]
    # Usual constants are not mentioned; others are named as part of a method.
    assert shown(clipping(boards, *usual, odd[0])) == [("ppo (wide)", "ppo")]
    both = {name for pair in shown(clipping(boards, *usual, *odd)) for name in pair}
    assert both == {"ppo", "ppo (wide)", f"ppo (wide, {max(changed[1], third[1])[:4]})"}


@pytest.mark.parametrize(
    "other",
    [
        entry(2, OTHER, 90),
        entry(2, with_clipping("gspo", setting="5 updates"), 90),
        entry(2, RecipeChoices("grpo", "gspo", "token-mean", "plain", "24 updates"), 90),
        entry(2, GSPO, 90, base_model="Qwen3-4B"),
        entry(2, GSPO, 90, track="sokoban-sweep-x1"),
    ],
    ids=["advantage", "setting", "unknown constants", "base", "track"],
)
def test_entries_that_differ_in_more_are_no_pair(boards: Boards, other: FullRow) -> None:
    found = clipping(boards, entry(1, PLAIN, 50), other)
    assert (found.contrasts, found.alone) == ((), ("ppo", "gspo"))


def test_one_base_model_alone(boards: Boards) -> None:
    rows = [entry(1, PLAIN, 50), entry(2, GSPO, 60, base_model="Qwen3-4B")]
    assert clipping(boards, *rows, base="Qwen3-4B").alone == ("gspo",)


def test_of_entries_that_are_alike_the_oldest_with_most_seeds_counts(boards: Boards) -> None:
    twins = [entry(1, PLAIN, 50), entry(2, PLAIN, 40, 40), entry(3, PLAIN, 20, 20)]
    found = clipping(boards, *twins, entry(4, GSPO, 60))
    assert found.contrasts[0].gains == pytest.approx((0.2,))


def test_unknown_choices_are_counted_and_not_guessed(boards: Boards) -> None:
    assert clipping(boards, entry(1, UNKNOWN, 50)) == Dimension("clipping", (), (), 1)


def test_inits_and_policies_are_no_recipes(boards: Boards) -> None:
    found = clipping(boards, entry(1, PLAIN, 50, kind="init"))
    assert found == Dimension("clipping", (), (), 0)


def test_an_entry_without_all_panels_is_left_out(boards: Boards, tmp_path: Path) -> None:
    found = dimensions(boards(entry(1, PLAIN, 50)), "v1", [*KEYS, ("alfworld", "builtin")])
    assert all(not each.contrasts and not each.alone for each in found)


def test_gains_stay_in_their_range() -> None:
    found = over_pairs([1.0, 0.9, -0.9])
    assert found.value == pytest.approx(1 / 3)
    assert (found.low, found.high) == (-1.0, 1.0)


def test_numbers_that_do_not_vary_say_nothing_of_how_they_would() -> None:
    found = over_pairs([0.1, 0.1, 0.1])
    assert found.value == pytest.approx(0.1)
    assert math.isnan(found.low) and math.isnan(found.high)
