"""Comparisons: paired by play, rejected if meaningless, and explained in sentences."""

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmark.engines.core.base import Sampling
from benchmark.evaluation.compare import PanelComparison, RunComparison, compare, comparison_text
from benchmark.evaluation.manifest import Manifest
from benchmark.evaluation.records import EpisodeRecord
from benchmark.stats.intervals import bootstrap_mean, mcnemar_exact, sign_flip
from benchmark.stats.paired import OVER_EPISODES, Side, difference
from tasks.errors import UserError
from tests.support.newcombe import newcombe_paired
from tests.support.runs.factories import TASKS, make_manifest, make_protocol, make_record

Table = tuple[int, int, int, int]
Run = tuple[Manifest, list[EpisodeRecord]]


def runs_of(table: Table, only_a: str = "A", only_b: str = "B") -> tuple[Run, Run]:
    """Two runs: `table` counts the episodes solved by (both, only A, only B, neither)."""
    outcomes = [(True, True), (True, False), (False, True), (False, False)]
    pairs = [pair for pair, count in zip(outcomes, table, strict=True) for _ in range(count)]
    protocol = make_protocol(episodes=len(pairs))
    records_a = [make_record(f"e{n:03}", a) for n, (a, _) in enumerate(pairs)]
    records_b = [make_record(f"e{n:03}", b) for n, (_, b) in enumerate(pairs)]
    return (
        (make_manifest(protocol, model=only_a), records_a),
        (make_manifest(protocol, model=only_b), records_b),
    )


def only_panel(comparison: RunComparison) -> PanelComparison:
    (panel,) = comparison.panels
    return panel


def test_single_plays_are_compared_with_mcnemar_and_newcombe() -> None:
    panel = only_panel(compare(*runs_of((20, 2, 12, 16)), TASKS))
    assert (panel.task, panel.panel) == ("sokoban", "builtin")
    assert (panel.episodes, panel.plays_a) == (50, 50)
    assert (panel.only_a, panel.only_b) == (2, 12)
    success = panel.success
    assert (success.a, success.b) == (22 / 50, 32 / 50)
    wanted = newcombe_paired(20, 12, 2, 16)
    assert success.difference.low == pytest.approx(wanted.low)
    assert success.difference.high == pytest.approx(wanted.high)
    # Newcombe (1998), Table III; McNemar: 2 (1 + 14 + 91) / 2^14.
    assert success.difference.value == pytest.approx(0.2)
    assert success.difference.low == pytest.approx(0.0562, abs=5e-5)
    assert success.difference.high == pytest.approx(0.3292, abs=5e-5)
    assert success.p_value == pytest.approx(212 / 2**14)


def test_scores_are_compared_with_bootstrap_and_sign_flips() -> None:
    scores = [(0.0, 1.0), (0.5, 0.25), (1.0, 1.0), (0.25, 1.0), (0.0, 0.5)]
    protocol = make_protocol(episodes=5)
    run_a, run_b = (
        (make_manifest(protocol), [make_record(f"e{n}", score=s[i]) for n, s in enumerate(scores)])
        for i in (0, 1)
    )
    score = only_panel(compare(run_a, run_b, TASKS)).score
    assert (score.a, score.b) == (1.75 / 5, 3.75 / 5)
    assert score.difference == bootstrap_mean([1.0, -0.25, 0.0, 0.75, 0.5])
    assert score.difference.value == 0.4
    # Of 16 sign patterns of 1, 3/4, 1/2, 1/4, those with |sum| >= 2: the minority weighs at most
    # 1/4, so it is {} or {1/4}, and their mirror images.
    assert score.p_value == 4 / 16


def test_repeats_are_compared_episode_by_episode() -> None:
    protocol = make_protocol(episodes=3, repeats=2)
    outcomes_a = {"e0": (True, False), "e1": (False, False), "e2": (True, False)}
    outcomes_b = {"e0": (True, True), "e1": (False, True), "e2": (False, False)}
    run_a, run_b = (
        (
            make_manifest(protocol),
            [make_record(e, won, repeat=n) for e, w in plays.items() for n, won in enumerate(w)],
        )
        for plays in (outcomes_a, outcomes_b)
    )
    panel = only_panel(compare(run_a, run_b, TASKS))
    assert (panel.episodes, panel.plays_a, panel.plays_b) == (3, 6, 6)
    assert (panel.only_a, panel.only_b) == (1, 1)  # e2 in any play of A, e1 in any of B
    assert (panel.success.a, panel.success.b) == pytest.approx((1 / 3, 1 / 2))
    a, b = Side.of(list(outcomes_a.values())), Side.of(list(outcomes_b.values()))
    assert panel.success.difference == difference(b, a)
    assert panel.success.difference.value == pytest.approx(1 / 6)
    assert panel.success.interval == OVER_EPISODES
    assert panel.success.p_value == sign_flip([0.5, 0.5, -0.5]) == 1.0
    line = comparison_text(compare(run_a, run_b, TASKS)).splitlines()[4]
    assert "sign-flip p = 1.000, 3 paired episodes in 6 plays" in line
    assert line.endswith("(1 solved by B alone in any repeat, 1 by A alone)")


def test_only_episodes_that_both_have_played_are_compared() -> None:
    (manifest_a, records_a), (manifest_b, records_b) = runs_of((4, 1, 3, 2))
    incomplete_a = manifest_a, [r for r in records_a if r.episode not in {"e000", "e009"}]
    incomplete_b = manifest_b, [r for r in records_b if r.episode not in {"e000", "e004"}]
    comparison = compare(incomplete_a, incomplete_b, TASKS)
    panel = only_panel(comparison)
    assert (panel.missing_a, panel.missing_b, panel.episodes, panel.alone) == (2, 2, 7, 2)
    assert (panel.only_a, panel.only_b) == (0, 3)
    assert panel.success.difference == newcombe_paired(3, 3, 0, 1)
    text = comparison_text(comparison)
    assert "  note: incomplete: A lacks 2 plays, B 2; run the same `eval` commands again" in text
    assert "  note: left out: 2 episodes that only one of the runs" in text
    assert "note" not in comparison_text(compare(*runs_of((4, 1, 3, 2)), TASKS))


def test_other_numbers_of_repeats_are_compared_with_all_plays() -> None:
    """A greedy and a sampled run: repeat 0 would be only a part of the latter."""
    sampled = make_protocol(episodes=2, repeats=4, sampling=Sampling(temperature=1.0))
    run_a = make_manifest(make_protocol(episodes=2)), [make_record("e0"), make_record("e1", False)]
    solved = {"e0": (True, True, False, False), "e1": (False, True, True, True)}
    records = [
        make_record(e, won, repeat=n) for e, plays in solved.items() for n, won in enumerate(plays)
    ]
    run_b = make_manifest(sampled), records
    comparison = compare(run_a, run_b, TASKS, across_protocols=True)
    panel = only_panel(comparison)
    assert (panel.success.a, panel.success.b) == (0.5, 5 / 8)
    assert panel.success.difference == difference(
        Side.of(list(solved.values())), Side.of([[True], [False]])
    )
    assert panel.score.difference.value == 1 / 8
    text = comparison_text(comparison)
    assert "2 paired episodes, 2 plays of A and 8 of B (1 solved by B alone in any repeat" in text
    assert "incomplete" not in text
    back = only_panel(compare(run_b, run_a, TASKS, across_protocols=True))
    assert back.success.difference.value == -panel.success.difference.value


def test_a_quick_look_is_complete() -> None:
    run_a, (manifest, records) = runs_of((4, 1, 3, 2))
    look = manifest.model_copy(update={"limit": 4}), records[:4]
    text = comparison_text(compare(run_a, look, TASKS))
    assert "incomplete" not in text
    assert "note: left out: 6 episodes that only one of the runs" in text


def test_errors_are_failures_and_shown() -> None:
    manifest = make_manifest(make_protocol(episodes=2))
    fine = [make_record("e0"), make_record("e1")]
    forged = make_record("e1", error="EngineError: gone").model_copy(update={"success": True})
    assert (fine[1].solved, forged.solved) == (True, False)
    comparison = compare((manifest, fine), (manifest, [fine[0], forged]), TASKS)
    panel = only_panel(comparison)
    assert (panel.errors_a, panel.errors_b) == (0, 1)
    assert (panel.success.b, panel.score.b, panel.only_a) == (0.5, 0.5, 1)
    assert "0 of A's plays and 1 of B's ended in an error" in comparison_text(comparison)


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(st.tuples(*[st.integers(0, 12)] * 4).filter(any), st.randoms(use_true_random=False))
def test_swapped_runs_give_the_negated_difference(table: Table, order: random.Random) -> None:
    run_a, run_b = runs_of(table)
    shuffled = run_a[0], order.sample(run_a[1], len(run_a[1]))
    there = only_panel(compare(shuffled, run_b, TASKS))
    back = only_panel(compare(run_b, run_a, TASKS))
    assert (there.only_a, there.only_b) == (back.only_b, back.only_a)
    assert there.success.p_value == back.success.p_value == mcnemar_exact(table[1], table[2])
    for one, other in ((there.success, back.success), (there.score, back.score)):
        assert (one.a, one.b, one.p_value) == (other.b, other.a, other.p_value)
        assert one.difference.value == -other.difference.value
        assert one.difference.low == pytest.approx(-other.difference.high, abs=1e-12)
        assert one.difference.high == pytest.approx(-other.difference.low, abs=1e-12)


def test_a_run_does_not_differ_from_itself() -> None:
    run, _ = runs_of((5, 4, 0, 3))
    panel = only_panel(compare(run, run, TASKS))
    assert (panel.success.difference.value, panel.success.p_value) == (0, 1)
    assert panel.success.difference.low < 0 < panel.success.difference.high
    assert (panel.score.difference.low, panel.score.difference.high) == (0, 0)


def test_only_common_panels_are_compared() -> None:
    shop, rooms = make_protocol("webshop", "small", 1), make_protocol(episodes=1)
    unseen = make_protocol("webshop", "unseen", 1)
    record = make_record("p0", task="webshop", panel="small", score=25.0)
    run_a = make_manifest(rooms, shop), [make_record("e0"), record]
    run_b = make_manifest(unseen, shop), [record]
    comparison = compare(run_a, run_b, TASKS)
    panel = only_panel(comparison)
    assert (panel.task, panel.panel, panel.score_name) == ("webshop", "small", "match")
    assert comparison.left_out == ("sokoban/builtin", "webshop/unseen")
    text = comparison_text(comparison)
    assert "not compared (no common episode): sokoban/builtin, webshop/unseen" in text
    assert "match: A 25.000, B 25.000%: difference +0.000 [+0.000, +0.000]" in text


def test_runs_without_a_common_panel_are_refused() -> None:
    run_a = make_manifest(make_protocol()), [make_record("e0")]
    run_b = make_manifest(make_protocol("webshop", "small")), list[EpisodeRecord]()
    message = "no common panel: A played sokoban/builtin, B webshop/small"
    with pytest.raises(UserError, match=message):
        compare(run_a, run_b, TASKS)


def test_runs_without_a_common_play_are_refused() -> None:
    manifest = make_manifest(make_protocol())
    with pytest.raises(UserError, match="no common episode on sokoban/builtin"):
        compare((manifest, [make_record("e0")]), (manifest, [make_record("e1")]), TASKS)


@pytest.mark.parametrize(
    ("changes", "differing"),
    [
        ({"max_turns": 30}, "max_turns (15 in A, 30 in B)"),
        (
            {"sampling": Sampling(temperature=0.7), "seed": 3},
            "sampling.temperature (0.0 in A, 0.7 in B), seed (0 in A, 3 in B)",
        ),
        (
            {"packages": {"alfworld": "0.4.2"}},
            "packages.alfworld (absent in A, 0.4.2 in B)",
        ),
        (
            {"prompt_sha256": "ab" * 32},
            "prompt_sha256 (cf2c39e0e903... in A, abababababab... in B)",
        ),
    ],
)
def test_different_protocols_are_refused_by_field(changes: dict[str, Any], differing: str) -> None:
    protocol = replace(make_protocol(), prompt_sha256="cf2c39e0e903" + "0" * 52)
    run_a = make_manifest(protocol), [make_record("e0")]
    run_b = make_manifest(replace(protocol, **changes)), [make_record("e0")]
    with pytest.raises(UserError) as refusal:
        compare(run_a, run_b, TASKS)
    assert str(refusal.value) == (
        "sokoban/builtin was played under different protocols, which differ in "
        f"{differing}; only runs of the same protocol can be compared; "
        "--across-protocols compares the same episodes anyway"
    )
    anyway = compare(run_a, run_b, TASKS, across_protocols=True)
    (panel,) = anyway.panels
    assert panel.plays_b == 1
    assert (
        f"  note: the protocols differ, which may explain the difference: {differing}"
        in comparison_text(anyway).splitlines()
    )


def test_other_panels_are_never_compared() -> None:
    protocol = make_protocol()
    other = replace(protocol, panel_sha256="ab" * 32)
    run_a, run_b = ((make_manifest(one), [make_record("e0")]) for one in (protocol, other))
    with pytest.raises(UserError, match="only runs of the same panel can be compared$"):
        compare(run_a, run_b, TASKS, across_protocols=True)


def test_records_of_another_run_are_refused() -> None:
    run, _ = runs_of((1, 1, 1, 1))
    with pytest.raises(UserError, match="the run does not play it"):
        compare(run, (run[0], [make_record("e000", repeat=4)]), TASKS)


def test_the_text_can_be_pasted() -> None:
    comparison = compare(*runs_of((122, 17, 36, 81), "bc", "gspo"), TASKS)
    text = comparison_text(comparison, "runs/1", "runs/2")
    lines = text.splitlines()
    assert lines[0].startswith("A: runs/1: bc (folder, SHA-256 ")
    assert lines[1].startswith("B: runs/2: gspo (folder, SHA-256 ")
    assert lines[1].endswith("...), transformers float32")
    assert lines[3] == "sokoban/builtin"
    # By hand: limits 0.01860 and 0.12893, p = 2 sum(C(53, k), k <= 17) / 2^53 = 0.01266.
    assert lines[4] == (
        "  success: A 54.3%, B 61.7%: difference +7.4 points [+1.9, +12.9], "
        "McNemar exact p = 0.013, 256 paired episodes (36 only B, 17 only A)"
    )
    assert lines[5].startswith("  reward: A 0.543, B 0.617 points: difference +0.074 [+0.0")
    assert lines[-2] == (
        "Differences are B minus A, with 95% intervals. Success: paired over episodes (Newcombe). "
        "Scores: BCa bootstrap over episodes."
    )
    assert lines[-1].startswith("These intervals are for these two checkpoints. Comparing")


def test_different_engines_are_pointed_out() -> None:
    (manifest_a, records_a), run_b = runs_of((1, 1, 1, 1))
    assert "engines differ" not in comparison_text(compare((manifest_a, records_a), run_b, TASKS))
    engine = {**manifest_a.engine, "dtype": "bfloat16"}
    other = manifest_a.model_copy(update={"engine": engine}), records_a
    assert "note: the engines differ" in comparison_text(compare(other, run_b, TASKS))


def test_small_p_values_and_single_episodes_are_told_as_they_are() -> None:
    text = comparison_text(compare(*runs_of((0, 0, 40, 0)), TASKS))
    assert "difference +100.0 points [+87.6, +100.0], McNemar exact p < 0.001, 40 paired" in text
    text = comparison_text(compare(*runs_of((0, 1, 0, 0)), TASKS))
    assert "difference -100.0 points" in text
    assert "1 paired episode (0 only B, 1 only A)" in text


def test_a_difference_that_rounds_to_nothing_keeps_its_sign() -> None:
    protocol = make_protocol(episodes=1)
    run_a = make_manifest(protocol), [make_record("e0", score=0.5)]
    run_b = make_manifest(protocol), [make_record("e0", score=0.49999)]
    assert "difference -0.000 [-0.000, -0.000]" in comparison_text(compare(run_a, run_b, TASKS))
