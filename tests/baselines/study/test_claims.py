"""Claims: rules, verdicts and numbers, from cells with invented numbers."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pytest
from scipy.stats import fisher_exact

from baselines.study.cells import Finished, init_cell
from baselines.study.claims import Claim
from baselines.study.current_tracks import CurrentTrack
from baselines.study.methods import (
    TrackResults,
    results_of,
)
from baselines.study.schema import Cell
from baselines.study.verdicts import ClaimVerdict, points, verdicts
from benchmark.stats.paired import difference, mean_success
from tests.support.training.study_cells import finish

FALLS = (6, 0, 0)
"""Means .75 .375 .25 of eight: half of the best is lost at the second validation, update 2."""
EVERY = range(8)
PANEL = ("sokoban", "builtin")
Methods = Mapping[str, Sequence[Collection[int]]]


def track_results(
    folder: Path, current_track: CurrentTrack, methods: Methods, init: Collection[int]
) -> TrackResults:
    """Each method's seeds with the episodes they solve; those without any are unfinished."""
    cells, finished = [], []
    for recipe, seeds in methods.items():
        for seed, solved in enumerate(seeds):
            cells.append(Cell("fixed", recipe, seed))
            if solved:
                finished.append(finish(folder / "results", cells[-1], current_track, solved))
    finished.append(finish(folder / "results", init_cell("fixed"), current_track, init))
    return results_of("fixed", [PANEL], cells, finished)


def judge(results: TrackResults, **rule: object) -> ClaimVerdict:
    claim = Claim.model_validate({"claim": "So it is.", "track": "fixed", **rule})
    (verdict,) = verdicts([claim], {"fixed": results})
    return verdict


def test_a_method_is_better_if_the_interval_says_so(
    tmp_path: Path, current_track: CurrentTrack
) -> None:
    results = track_results(
        tmp_path,
        current_track,
        {"gspo": [EVERY, EVERY, EVERY], "grpo": [[0], [0], [0]], "ppo": [[0, 1], [0], [1]]},
        init=[0],
    )
    better = judge(results, better=["gspo", "grpo"])
    assert better.outcome == "reproduced"
    assert better.numbers.startswith("gspo minus grpo: +87.5 [")
    assert judge(results, better=["grpo", "gspo"]).outcome == "contradicted"
    assert judge(results, better=["ppo", "grpo"]).outcome == "not decided"
    assert judge(results, best="gspo").outcome == "reproduced"
    assert judge(results, best="grpo").outcome == "contradicted"
    gspo, grpo = (results.methods[name].sides([PANEL]) for name in ("gspo", "grpo"))
    assert gspo is not None
    assert grpo is not None
    assert results.between("gspo", "grpo", [PANEL]) == difference(*gspo, *grpo)


def test_a_method_learns_if_its_gain_is_large_enough(
    tmp_path: Path, current_track: CurrentTrack
) -> None:
    methods: Methods = {"gspo": [EVERY] * 3, "grpo": [[0]] * 3}
    results = track_results(tmp_path, current_track, methods, init=[0])
    learns = judge(results, learns=["gspo"])
    assert learns.outcome == "reproduced"
    assert learns.numbers.startswith("gspo minus its init: +87.5 [")
    gain = results.gain("gspo", [PANEL])
    assert gain is not None
    assert judge(results, learns=["gspo"], by=gain.low + 0.01).outcome == "not decided"
    none = judge(results, learns=["grpo"])
    assert none.outcome == "not decided"
    # There is no gain of that size: the interval ends below it, whatever `by` is.
    bare = results.gain("grpo", [PANEL])
    assert bare is not None
    assert judge(results, learns=["grpo"], gain=bare.high - 0.01).outcome == "not decided"
    assert judge(results, learns=["grpo"], gain=bare.high + 0.01).outcome == "contradicted"
    # The method with the largest gain is judged, also by the gain itself.
    both = judge(results, learns=["grpo", "gspo"], gain=0.8)
    assert (both.outcome, both.numbers) == ("reproduced", learns.numbers)
    assert judge(results, learns=["grpo", "gspo"], gain=0.9).outcome == "not decided"


def test_one_method_with_all_its_seeds_shows_that_a_track_can_be_learned(
    tmp_path: Path, current_track: CurrentTrack
) -> None:
    methods: Methods = {"gspo": [EVERY] * 3, "grpo": [[0], [0], []], "ppo": [EVERY, EVERY]}
    results = track_results(tmp_path, current_track, methods, init=[0])
    learned = judge(results, learns=["grpo", "gspo"])
    assert learned.outcome == "reproduced"
    assert learned.numbers.endswith(" points; 5 of 6 runs; grpo lacks seed 2")
    assert judge(results, learns=["grpo"]).outcome == "incomplete"
    assert judge(results, learns=["grpo", "gspo"], gain=0.9).outcome == "incomplete"
    assert judge(results, learns=["grpo", "ppo"]).outcome == "incomplete"


def test_a_claim_of_which_a_seed_is_missing_is_incomplete(
    tmp_path: Path, current_track: CurrentTrack
) -> None:
    methods: Methods = {"gspo": [EVERY, EVERY, []], "grpo": [[0], [], []]}
    results = track_results(tmp_path, current_track, methods, init=[0])
    verdict = judge(results, better=["gspo", "grpo"])
    assert verdict.outcome == "incomplete"
    assert verdict.numbers == "3 of 6 runs; gspo lacks seed 2; grpo lacks seeds 1, 2"
    assert judge(results, best="gspo").outcome == "incomplete"
    assert judge(results, best="gspo", among=["grpo"]).outcome == "incomplete"


def test_the_best_of_those_that_are_finished_is_shown(
    tmp_path: Path, current_track: CurrentTrack
) -> None:
    methods: Methods = {"gspo": [EVERY] * 3, "grpo": [[0]] * 3, "ppo": [[0], [], []]}
    results = track_results(tmp_path, current_track, methods, init=[0])
    said = judge(results, best="gspo").numbers
    start = "7 of 9 runs; ppo lacks seeds 1, 2; so far, of 1 method with three seeds: gspo minus"
    assert said.startswith(f"{start} the nearest of 1 method: grpo +87.5 [")


def test_numbers_of_an_undecided_claim_are_shown_from_three_seeds(
    tmp_path: Path, current_track: CurrentTrack
) -> None:
    methods: Methods = {"gspo": [EVERY, EVERY, EVERY, []], "grpo": [[0], [0], [0]]}
    results = track_results(tmp_path, current_track, methods, init=[0])
    verdict = judge(results, better=["gspo", "grpo"])
    assert verdict.outcome == "incomplete"
    assert verdict.numbers.startswith(
        "6 of 7 runs; gspo lacks seed 3; so far: gspo minus grpo: +87.5 ["
    )
    learns = judge(results, learns=["gspo"]).numbers
    assert learns.startswith("3 of 4 runs; gspo lacks seed 3; so far: gspo minus its init: +87.5 [")


def test_two_seeds_decide_nothing(tmp_path: Path, current_track: CurrentTrack) -> None:
    methods: Methods = {"gspo": [EVERY] * 3, "grpo": [[0]] * 2}
    results = track_results(tmp_path, current_track, methods, init=[0])
    for rule in ({"better": ["gspo", "grpo"]}, {"best": "gspo"}):
        verdict = judge(results, **rule)
        assert verdict.outcome == "not decided"
        assert verdict.numbers.endswith("; 3 seeds of each are needed, available: grpo 2")
    verdict = judge(results, holds="gspo")
    assert verdict.outcome == "not decided"
    assert verdict.numbers.endswith("; 6 seeds of each are needed, available: gspo 3")
    verdict = judge(results, collapses="grpo", holds="gspo")
    assert verdict.outcome == "not decided"
    assert verdict.numbers.endswith("; 4 seeds of each are needed, available: grpo 2, gspo 3")
    assert judge(results, learns=["gspo"]).outcome == "reproduced"


def test_the_best_among_some_does_not_wait_for_the_others(
    tmp_path: Path, current_track: CurrentTrack
) -> None:
    methods: Methods = {"gspo": [EVERY] * 3, "grpo": [[0]] * 3, "ppo": [[]] * 3}
    results = track_results(tmp_path, current_track, methods, init=[0])
    assert judge(results, best="gspo").outcome == "incomplete"
    assert judge(results, best="gspo", among=["grpo"]).outcome == "reproduced"


def collapsing(
    folder: Path, current_track: CurrentTrack, counts: dict[str, tuple[int, int]]
) -> TrackResults:
    """Methods with these numbers of seeds and of collapsed ones."""
    finished: list[Finished] = []
    for recipe, (fallen, seeds) in counts.items():
        for seed in range(seeds):
            curve = FALLS if seed < fallen else (6,) * 5
            cell = Cell("fixed", recipe, seed)
            finished.append(finish(folder / "results", cell, current_track, [0], curve))
    return results_of("fixed", [PANEL], [each.cell for each in finished], finished)


def test_collapses_of_one_method_are_held_to_a_half(
    tmp_path: Path, current_track: CurrentTrack
) -> None:
    counts = {"cispo": (6, 6), "gspo": (0, 6), "sapo": (1, 6), "sampo": (0, 5), "ppo": (1, 8)}
    results = collapsing(tmp_path, current_track, counts)
    verdict = judge(results, collapses="cispo")
    assert verdict.outcome == "reproduced"
    # (1/2)^6; exact: 6 of 6 is 54 to 100%.
    assert verdict.numbers == (
        "cispo 6 of 6 after update 2, 2, 2, 2, 2, 2 (54 to 100%); by chance 1 in 64"
    )
    assert judge(results, holds="cispo").outcome == "contradicted"
    assert judge(results, holds="gspo").outcome == "reproduced"
    assert judge(results, collapses="gspo").outcome == "contradicted"
    # 1 of 6 or none: 7 of 64. 1 of 8 or none: 9 of 256.
    sapo, ppo = (judge(results, holds=name) for name in ("sapo", "ppo"))
    assert sapo.outcome == ppo.outcome == "not decided"
    assert sapo.numbers.endswith("; by chance 1 in 9.1")
    assert ppo.numbers.endswith("; by chance 1 in 28")
    few = judge(results, holds="sampo")
    assert few.outcome == "not decided"
    assert "sampo 0 of 5 (0 to 52%); by chance 1 in 32; 6 seeds" in few.numbers


def test_collapses_of_two_methods_are_held_against_each_other(
    tmp_path: Path, current_track: CurrentTrack
) -> None:
    counts = {"cispo": (4, 4), "cispo_sm": (0, 4), "sapo": (1, 4), "gspo": (4, 4), "grpo": (5, 5)}
    results = collapsing(tmp_path, current_track, counts)
    verdict = judge(results, collapses="cispo", holds="cispo_sm")
    assert verdict.outcome == "reproduced"
    # Of the 70 ways to choose the 4 collapsed of 8, one; exact: 4 of 4 is 40 to 100%.
    assert verdict.numbers == (
        "cispo 4 of 4 after update 2, 2, 2, 2 (40 to 100%); cispo_sm 0 of 4 (0 to 60%); "
        "by chance 1 in 70"
    )
    opposite = judge(results, collapses="cispo_sm", holds="cispo")
    assert opposite.outcome == "contradicted" and opposite.numbers.endswith("; by chance 1 in 70")
    # Of the 56 ways to choose 5 of 8, 4 have all of one method's.
    almost = judge(results, collapses="cispo", holds="sapo")
    assert almost.outcome == "not decided" and almost.numbers.endswith("; by chance 1 in 14")
    none = judge(results, collapses="cispo_sm", holds="cispo_sm")
    assert none.outcome == "not decided" and none.numbers.endswith("; by chance in 100% of cases")
    alike = judge(results, collapses="cispo", holds="gspo")
    assert alike.outcome == "not decided" and alike.numbers.endswith("; by chance in 100% of cases")
    for first, second in (("grpo", "sapo"), ("sapo", "cispo_sm"), ("grpo", "cispo_sm")):
        one, other = (results.methods[name] for name in (first, second))
        table = [[len(m.collapsed), len(m.runs) - len(m.collapsed)] for m in (one, other)]
        rare = fisher_exact(table, alternative="greater").pvalue <= 1 / 40
        assert (judge(results, collapses=first, holds=second).outcome == "reproduced") == rare
    # They are also listed next to a difference.
    better = judge(results, better=["cispo_sm", "cispo"]).numbers
    assert (
        "; collapsed: cispo_sm 0 of 4 (0 to 60%); cispo 4 of 4 after update 2, 2, 2, 2 (" in better
    )
    assert "collapsed" not in judge(results, better=["cispo_sm", "cispo_sm"]).numbers


def test_a_late_loss_is_told_apart_from_a_collapse(
    tmp_path: Path, current_track: CurrentTrack
) -> None:
    """6, 6 and 2 of eight: the mean of three stays above half of the best; the last does not."""
    finished = [
        finish(tmp_path / "results", Cell("fixed", "grpo", seed), current_track, [0], curve)
        for seed, curve in enumerate((FALLS, (6, 6, 2), (6, 6, 4)))
    ]
    results = results_of("fixed", [PANEL], [each.cell for each in finished], finished)
    assert results.methods["grpo"].collapsed == (2,)
    assert results.methods["grpo"].halved == {1: ("mean",)}
    # Three validations can show only a collapse.
    assert results.methods["grpo"].unknown == 2
    unknown = judge(results, holds="grpo")
    assert unknown.outcome == "not decided"
    assert unknown.numbers.startswith(
        "grpo 1 after update 2, 2 unknown, 1 more at half of their best; validations too few to "
        "show a collapse: grpo 2 of 3"
    )
    longer = finish(
        tmp_path / "results", Cell("fixed", "gspo", 0), current_track, [0], (6, 6, 6, 6, 6)
    )
    known = results_of("fixed", [PANEL], [longer.cell], [longer])
    assert known.methods["gspo"].unknown == 0


def test_a_claim_about_what_the_study_does_not_run_is_incomplete(
    tmp_path: Path, current_track: CurrentTrack
) -> None:
    results = track_results(tmp_path, current_track, {"gspo": [EVERY]}, init=[0])
    verdict = judge(results, better=["sampo", "gspo"])
    assert (verdict.outcome, verdict.numbers) == ("incomplete", "the study does not run sampo here")
    elsewhere = Claim(claim="Elsewhere.", track="other", learns=("gspo",))
    assert verdicts([elsewhere], {"fixed": results}) == []


def two_paces(folder: Path, current_track: CurrentTrack) -> TrackResults:
    """GRPO plays 8 episodes in each of 4 updates, SAMPO 16: 32 are 2 updates of SAMPO."""
    grpo = finish(folder / "results", Cell("fixed", "grpo", 0), current_track, [0], (2, 3, 4))
    sampo = finish(
        folder / "results", Cell("fixed", "sampo", 0), current_track, EVERY, (2, 6, 8), played=16
    )
    return results_of("fixed", [PANEL], [grpo.cell, sampo.cell], [grpo, sampo])


def test_success_at_equal_episodes_is_that_after_the_fewest(
    tmp_path: Path, current_track: CurrentTrack
) -> None:
    results = two_paces(tmp_path, current_track)
    equal = results.at_equal_episodes([PANEL])
    assert equal is not None
    assert equal.limit == 32
    values = {recipe: side.success.value for recipe, (side,) in equal.sides.items()}
    assert values == {"grpo": 4 / 8, "sampo": 6 / 8}
    assert results.methods["sampo"].episodes == 64


def test_the_interval_of_one_method_knows_of_its_seeds(
    tmp_path: Path, current_track: CurrentTrack
) -> None:
    methods = {"grpo": [range(4), range(4)], "gspo": [range(2), range(6)]}
    results = track_results(tmp_path, current_track, methods, init=[0])
    alike, apart = (mean_success(s) for m in results.methods.values() if (s := m.sides([PANEL])))
    assert alike.value == apart.value == 0.5
    assert apart.low < alike.low < 0.5 < alike.high < apart.high
    # Both seeds solved the same four episodes: Wilson's interval of 4 of 8.
    assert alike.low == pytest.approx(0.2152, abs=1e-4)


def test_methods_that_played_more_are_compared_at_equal_episodes_too(
    tmp_path: Path, current_track: CurrentTrack
) -> None:
    """At 32 episodes GRPO has solved 4 of 8, SAMPO 6."""
    results = two_paces(tmp_path, current_track)
    claim = Claim(claim="So.", track="fixed", better=("sampo", "grpo"))
    (verdict,) = verdicts([claim], {"fixed": results})
    equal = results.between_at_equal_episodes("sampo", "grpo", [PANEL])
    assert equal is not None
    assert (equal[0], equal[1].value) == (32, 0.25)
    assert f"(at 32 episodes each: {points(equal[1])})" in verdict.numbers
    assert results.between_at_equal_episodes("grpo", "grpo", [PANEL]) is None
