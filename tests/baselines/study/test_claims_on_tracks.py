"""Claims about several tracks or tasks, from cells with invented numbers."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path

import pytest

from baselines.study.cells import init_cell
from baselines.study.chance import Counts, chance_of_more
from baselines.study.claims import Claim, Pilot
from baselines.study.current_tracks import current_tracks_of
from baselines.study.methods import (
    TrackResults,
    across_tracks,
    across_tracks_at_equal_seconds,
    results_of,
    sides_on,
)
from baselines.study.pages.collapse_counts import CollapseCounts, MethodCounts, collapse_text
from baselines.study.pages.headlines import headlines
from baselines.study.pages.track_pages import beside_other_tracks
from baselines.study.pages.watched import watched_runs
from baselines.study.schema import Cell
from baselines.study.verdicts import points, verdicts
from benchmark.stats.formatting import points_text
from benchmark.stats.paired import mean_success
from tests.support.training.study_cells import finish
from tests.support.training.tiny_study import MIXED

EVERY = range(8)
SECONDS = {"fixed": 5.0, "tuned": 10.0, "math": 5.0, "mixed": 5.0}
"""Duration of an update, by track."""
PANEL = ("sokoban", "builtin")
Tracks = dict[str, TrackResults]


def on_tracks(folder: Path, solved: Mapping[str, Mapping[int, Collection[int]]]) -> Tracks:
    """GRPO with the episodes of eight that its seeds solve, by track; each plans three seeds.

    On `mixed`, both tasks are solved equally. The curve has 2, 4 and 6 of eight at the validations
    at updates 0, 2 and 4.
    """
    found = {}
    for name, seeds in solved.items():
        cells = [Cell(name, "grpo", seed) for seed in range(3)]
        track = current_tracks_of(cells, "study.yaml")[name]
        panels = [(each.protocol.task, "builtin") for each in track.validation.panels]
        made = [
            finish(
                folder / "results",
                Cell(name, "grpo", seed),
                track,
                each,
                (2, 4, 6),
                other=each,
                seconds=SECONDS[name],
            )
            for seed, each in seeds.items()
        ]
        found[name] = results_of(name, panels, cells, made)
    return found


def compare(found: Tracks, track: str, *others: str, **rule: object) -> tuple[str, str]:
    whole = {"claim": "So.", "track": track, "compared": "grpo", "against": others, **rule}
    (verdict,) = verdicts([Claim.model_validate(whole)], found)
    return verdict.outcome, verdict.numbers


def test_a_method_is_compared_with_itself_on_another_track(
    tmp_path: Path, tiny_tracks: Path
) -> None:
    """All of eight on one track, half of them on the other: 50 points more."""
    found = on_tracks(
        tmp_path,
        {"fixed": dict.fromkeys(range(3), EVERY), "tuned": dict.fromkeys(range(3), range(4))},
    )
    margin = across_tracks("grpo", found["fixed"], [found["tuned"]], [PANEL])
    assert margin is not None
    assert margin.value == 0.5
    assert compare(found, "fixed", "tuned") == ("reproduced", f"grpo: {points(margin)}")
    assert compare(found, "tuned", "fixed")[0] == "contradicted"
    # Below 0, and on both sides of the allowed limit.
    outcome, numbers = compare(found, "tuned", "fixed", above=-0.6)
    assert outcome == "not decided"
    assert numbers.endswith("; a loss, of which it is open whether it is smaller than claimed")
    assert "a loss" not in compare(found, "tuned", "fixed")[1]
    assert compare(found, "tuned", "fixed", above=-0.99)[0] == "reproduced"
    assert compare(found, "fixed", "mixed") == ("incomplete", "the study has no grpo on mixed")


def collapsing(folder: Path, counts: Mapping[str, Mapping[str, tuple[int, int]]]) -> Tracks:
    """The number of a method's runs that collapsed, by track and recipe."""
    found = {}
    for name, methods in counts.items():
        cells = [
            Cell(name, recipe, n) for recipe, (_, runs) in methods.items() for n in range(runs)
        ]
        track = current_tracks_of(cells, "study.yaml")[name]
        made = []
        for cell in cells:
            fell = cell.seed < methods[cell.recipe][0]
            curve = (6, 0, 0) if fell else (6, 6, 6, 6, 6)
            made.append(finish(folder / "results", cell, track, [0], curve))
        found[name] = results_of(name, [PANEL], cells, made)
    return found


def test_collapses_on_several_tracks_decide_together(tmp_path: Path, tiny_tracks: Path) -> None:
    """Three of three on one track happen 1 time in 20, on two tracks 1 time in 400."""
    all_or_none = {"cispo": (3, 3), "cispo_sm": (0, 3)}
    found = collapsing(tmp_path, {"fixed": all_or_none, "tuned": all_or_none})
    rule = {"claim": "So.", "track": "fixed", "collapses": "cispo", "holds": "cispo_sm"}
    pooled = Claim.model_validate({**rule, "also": ["tuned"]})
    alone, together = verdicts([Claim.model_validate(rule), pooled], found)
    assert (alone.outcome, together.outcome) == ("not decided", "reproduced")
    assert (alone.chance, together.chance) == (Fraction(1, 20), Fraction(1, 400))
    assert together.numbers == (
        "fixed: cispo 3 of 3, cispo_sm 0 of 3; tuned: cispo 3 of 3, cispo_sm 0 of 3; "
        "by chance 1 in 400"
    )
    other = pooled.model_copy(update={"collapses": "cispo_sm", "holds": "cispo"})
    assert verdicts([other], found)[0].outcome == "contradicted"
    (short,) = verdicts([pooled], {"fixed": found["fixed"]})
    assert short.outcome == "incomplete"
    assert short.numbers == "the study does not run cispo, cispo_sm on tuned"


def test_claims_about_collapses_are_judged_without_pilot_runs(
    tmp_path: Path, tiny_tracks: Path
) -> None:
    fell = {"cispo": (5, 5), "cispo_sm": (0, 4)}
    found = collapsing(tmp_path, {"fixed": fell, "tuned": fell})
    rule = {"claim": "So.", "track": "fixed", "collapses": "cispo", "holds": "cispo_sm"}
    claim = Claim.model_validate(rule)
    better = Claim(claim="So.", track="fixed", better=("cispo", "cispo_sm"))
    pilot = Pilot(track="fixed", recipe="cispo", seed=1, why="It fell.")
    plain = verdicts([claim, better], found)
    judged, unchanged = verdicts([claim, better], found, [pilot])
    assert (plain[0].chance, judged.chance) == (Fraction(1, 126), Fraction(1, 70))
    assert judged.numbers.startswith("cispo 4 of 4 after update 2, 2, 2, 2 ")
    assert judged.numbers.endswith("; left out: cispo seed 1 on fixed, a pilot run")
    assert unchanged == plain[1]
    twice = [pilot, pilot.model_copy(update={"seed": 4})]
    assert verdicts([claim], found, twice)[0].outcome == "not decided", "three seeds are left"
    nowhere = pilot.model_copy(update={"seed": 9})
    assert verdicts([claim], found, [nowhere]) == plain[:1]
    pooled = claim.model_copy(update={"also": ("tuned",)})
    together = verdicts([pooled], found, [pilot])[0]
    assert together.numbers.startswith("fixed: cispo 4 of 4, cispo_sm 0 of 4; tuned: cispo 5 of 5")
    elsewhere = pilot.model_copy(update={"track": "tuned", "recipe": "grpo"})
    assert verdicts([claim, pooled], found, [elsewhere]) == verdicts([claim, pooled], found)


def test_a_pilot_run_is_not_missing(tmp_path: Path, tiny_tracks: Path) -> None:
    found = collapsing(tmp_path, {"fixed": {"cispo": (4, 4), "cispo_sm": (0, 4)}})
    (method, other) = found["fixed"].methods.values()
    planned = replace(method, planned=(0, 1, 2, 3, 4))
    results = {"fixed": replace(found["fixed"], methods={"cispo": planned, "cispo_sm": other})}
    rule = {"claim": "So.", "track": "fixed", "collapses": "cispo", "holds": "cispo_sm"}
    claim, pilot = Claim.model_validate(rule), Pilot(track="fixed", recipe="cispo", seed=4, why="-")
    assert verdicts([claim], results)[0].outcome == "incomplete"
    (verdict,) = verdicts([claim], results, [pilot])
    assert verdict.outcome == "reproduced"
    assert "left out" not in verdict.numbers


def test_a_method_of_pilot_runs_alone_is_not_there(tmp_path: Path, tiny_tracks: Path) -> None:
    fell = {"cispo": (1, 1), "cispo_sm": (0, 4)}
    found = collapsing(tmp_path, {"fixed": fell, "tuned": {"cispo": (4, 4), "cispo_sm": (0, 4)}})
    pilot = Pilot(track="fixed", recipe="cispo", seed=0, why="It fell.")
    rule = {"claim": "So.", "track": "fixed", "collapses": "cispo"}
    for more in ({}, {"holds": "cispo_sm"}, {"holds": "cispo_sm", "also": ["tuned"]}):
        (verdict,) = verdicts([Claim.model_validate({**rule, **more})], found, [pilot])
        assert verdict.outcome == "incomplete"
        assert verdict.numbers.startswith("the study does not run cispo ")


def test_tracks_whose_runs_show_only_collapses_are_counted_apart(
    tmp_path: Path, tiny_tracks: Path
) -> None:
    fell = {"cispo": (2, 2), "cispo_sm": (0, 2)}
    long = collapsing(tmp_path / "a", {"fixed": fell})
    short = collapsing(tmp_path / "b", {"tuned": {"cispo": (1, 1)}})
    assert [run.track for run in watched_runs({**long, **short})] == ["fixed"] * 4
    said = " ".join(headlines({**long, **short}, {}, [], 0, "", "").split())
    assert "Where any run collapsed, sweeps aside: no method has 6 runs there. [All" in said
    assert "Not counted: tuned (`cispo` 1 of 1), where runs have too few" in said
    assert "Collapsed: tuned (`cispo` 1 of 1), where" in headlines(short, {}, [], 0, "", "")


@pytest.mark.parametrize(
    "tracks", [[(3, 4, 1, 5), (2, 3, 0, 3)], [(1, 4, 1, 4), (0, 2, 2, 2), (3, 3, 1, 3)]]
)
def test_the_stratified_chance_is_that_of_all_ways_to_deal_the_collapses(
    tracks: Sequence[tuple[int, int, int, int]],
) -> None:
    """Compared with an enumeration of all choices of collapsed runs on each track."""
    ways = []
    for collapsed, runs, other_collapsed, other_runs in tracks:
        dealt = combinations(range(runs + other_runs), collapsed + other_collapsed)
        ways.append([sum(run < runs for run in fallen) for fallen in dealt])
    sums = [sum(own) for own in product(*ways)]
    least = sum(collapsed for collapsed, *_ in tracks)
    expected = Fraction(sum(each >= least for each in sums), len(sums))
    assert chance_of_more(*(Counts(*each) for each in tracks)) == expected


def test_at_equal_seconds_a_slower_track_is_behind(tmp_path: Path, tiny_tracks: Path) -> None:
    """5 s an update on `fixed`, 10 on `tuned`: after 20 s that is 6 of eight and 4 of eight."""
    solved = dict.fromkeys(range(3), EVERY)
    found = on_tracks(tmp_path, {"fixed": solved, "tuned": solved})
    equal = across_tracks_at_equal_seconds("grpo", found["fixed"], found["tuned"])
    assert equal is not None
    assert (equal[0], equal[1].value) == (20, 0.25)
    said = compare(found, "fixed", "tuned", at="seconds")[1]
    assert said == f"grpo after 20 s: {points(equal[1])}"
    # Seconds are not comparable if runs waited for a core.
    found["tuned"].methods["grpo"].runs[0].facts.cpu_seconds["train"] = 5.0
    outcome, said = compare(found, "fixed", "tuned", at="seconds")
    assert outcome == "not decided"
    assert said.endswith(
        "; not judged, since the machine was shared: a run on tuned had 0.25 cores, 0.9 are needed"
    )


def test_a_comparison_with_another_track_needs_all_seeds(tmp_path: Path, tiny_tracks: Path) -> None:
    found = on_tracks(
        tmp_path, {"fixed": dict.fromkeys(range(3), EVERY), "tuned": {0: EVERY, 1: EVERY}}
    )
    assert compare(found, "fixed", "tuned") == (
        "incomplete",
        "5 of 6 runs; tuned: grpo lacks seed 2",
    )


def test_one_policy_for_all_is_compared_with_one_for_each(
    tmp_path: Path, tiny_tracks: Path
) -> None:
    """Sokoban alone: 4 of eight, 50 points less; TIR Math alone: 6, 25 less; mean: 37.5."""
    found = on_tracks(
        tmp_path,
        {
            "mixed": dict.fromkeys(range(3), EVERY),
            "fixed": dict.fromkeys(range(3), range(4)),
            "math": dict.fromkeys(range(3), range(6)),
        },
    )
    panels = found["mixed"].panels
    alone = [found["fixed"], found["math"]]
    mean, one, other = (
        across_tracks("grpo", found["mixed"], alone, each)
        for each in (panels, panels[:1], panels[1:])
    )
    assert mean is not None and one is not None and other is not None
    assert (mean.value, one.value, other.value) == (0.375, 0.5, 0.25)
    outcome, numbers = compare(found, "mixed", "fixed", "math")
    assert outcome == "reproduced"
    assert numbers == (
        f"grpo: {points(mean)}, sokoban {points_text(one)}, tir_math {points_text(other)}"
    )
    claim = Claim(claim="So.", track="mixed", compared="grpo", against=("fixed", "math"))
    (table,) = beside_other_tracks(found["mixed"], found, [claim])
    head, _, *rows = table.split("\n")
    assert head == "| task | init | grpo: each task alone | grpo: mixed | difference |"
    assert [row.split(" | ")[0] for row in rows] == ["| sokoban", "| tir_math", "| mean"]
    assert rows[0].startswith("| sokoban | - | 50.0 [")
    assert rows[2].endswith(f" | {points_text(mean)} |")
    assert list(beside_other_tracks(found["fixed"], found, [])) == []
    # No run plays TIR Math alone, so there is no mean.
    assert across_tracks("grpo", found["mixed"], alone[:1], panels) is None
    outcome, numbers = compare(found, "mixed", "fixed")
    assert outcome == "not decided"
    assert numbers == "fixed: no runs on the same panels to compare with"


def test_tasks_that_were_trained_apart_have_seeds_of_their_own(
    tmp_path: Path, tiny_tracks: Path
) -> None:
    """Seeds of Sokoban and TIR Math with equal numbers are not paired."""
    solved: dict[int, Sequence[int]] = {0: range(2), 1: range(6)}
    found, turned = (
        on_tracks(
            tmp_path / name,
            {
                "mixed": dict.fromkeys(range(3), EVERY),
                "fixed": solved,
                "math": {seed: solved[abs(seed - other)] for seed in solved},
            },
        )
        for name, other in (("as they are", 0), ("turned", 1))
    )
    panels = found["mixed"].panels
    sides, other = (
        sides_on("grpo", [each["fixed"], each["math"]], panels) for each in (found, turned)
    )
    assert sides is not None and other is not None
    assert [side.success.value for side in sides] == [0.5, 0.5]
    assert mean_success(sides) == mean_success(other)
    # All seeds count, even if their numbers differ.
    apart = on_tracks(tmp_path / "apart", {"fixed": {0: EVERY}, "math": {1: EVERY, 2: [0]}})
    sides = sides_on("grpo", list(apart.values()), panels)
    assert sides is not None
    assert [len(side.seeds) for side in sides] == [1, 2]
    assert sides_on("grpo", [apart["fixed"]], panels) is None


def test_the_score_of_several_tasks_is_the_mean_of_their_success(
    tmp_path: Path, tiny_tracks: Path
) -> None:
    """GRPO solves 1 and 3 of eight on both tasks, GSPO all of Sokoban and as much of TIR Math."""
    mixed = current_tracks_of([Cell("mixed", "grpo", 0)], "study.yaml")["mixed"]
    panels = [(task, "builtin") for task in MIXED]
    finished = []
    for seed, few in enumerate((range(1), range(3))):
        for recipe, first in (("grpo", few), ("gspo", EVERY)):
            cell = Cell("mixed", recipe, seed)
            finished.append(finish(tmp_path / "results", cell, mixed, first, other=few))
    init = finish(tmp_path / "results", init_cell("mixed"), mixed, [0], other=[0])
    cells = [each.cell for each in finished]
    results = results_of("mixed", panels, cells, [*finished, init])
    margin = results.between("gspo", "grpo", panels)
    one = results.between("gspo", "grpo", panels[:1])
    other = results.between("gspo", "grpo", panels[1:])
    gain = results.gain("grpo", panels)
    assert margin is not None
    assert one is not None
    assert other is not None
    assert gain is not None
    assert (one.value, other.value, margin.value) == (0.75, 0.0, 0.375)
    assert gain.value == pytest.approx(0.125)
    claim = Claim(claim="So.", track="mixed", better=("gspo", "grpo"))
    (verdict,) = verdicts([claim], {"mixed": results})
    assert verdict.numbers.startswith(f"gspo minus grpo: {points(margin)}")
    equal = results.at_equal_episodes(panels)
    assert equal is not None
    assert [len(sides) for sides in equal.sides.values()] == [2, 2]


def test_methods_with_enough_runs_are_named_by_what_became_of_them() -> None:
    methods = (
        MethodCounts("cispo", 7, 7, 0),
        MethodCounts("grpo", 10, 2, 1),
        MethodCounts("sapo_sm", 6, 1, 0),
        MethodCounts("rloo", 6, 0, 2),
        MethodCounts("gspo", 14, 0, 0),
        MethodCounts("sampo", 5, 0, 0),
    )
    said = collapse_text(CollapseCounts(methods, {"short": {"sampo": (1, 6)}}), "table.md")
    assert said == (
        "Where any run collapsed, sweeps aside: every run of `cispo` (7); `grpo` 2 of 10 (1 more "
        "halved), `sapo_sm` 1 of 6, `rloo` 0 of 6 (2 more halved); none of `gspo` (14). [All "
        "methods](table.md), with those of fewer than 6 runs; not every method ran on each track. "
        "Not counted: short (`sampo` 1 of 6), where runs have too few validations to show that "
        "they have not collapsed."
    )
