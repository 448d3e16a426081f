"""The page on early warning, from runs with invented numbers."""

import re

import numpy as np

from baselines.study.pages.early_warning import early_warning_page
from benchmark.logs.curves import Points
from benchmark.stability.early_warning import WatchedRun
from tests.baselines.study.pages.test_pages import check_markdown

KL, RATIO = "kl_old/clipped_mean", "ratio/p99"


def run(recipe: str, seed: int, kl: float, fall: int | None, track: str = "stress") -> WatchedRun:
    """A run with this divergence at update 2 and 0.1 elsewhere; it collapses after its fall."""
    steps = np.arange(1, 6)
    curves = {
        KL: Points(steps, np.array([0.1, kl, 0.1, 0.1, 0.1])),
        RATIO: Points(steps, np.full(5, 1.2)),
    }
    if fall is None:
        return WatchedRun(track, recipe, seed, curves)
    return WatchedRun(track, recipe, seed, curves, fall + 1, fall, unfallen=1 + seed % 2)


def runs(seeds: int, kl: float) -> list[WatchedRun]:
    """Two recipes that collapse at update 5 and two that do not, with a divergence of 0.1.

    Each half has one of either kind: b and c are in the second, together with e, i and j.
    """
    fallen = [run(recipe, seed, kl, 4) for recipe in "ab" for seed in range(seeds)]
    return fallen + [run(recipe, seed, 0.1, None) for recipe in "cd" for seed in range(seeds)]


def row(text: str, *first: str) -> list[str]:
    """Remaining cells of the only table row that starts with these cells."""
    begin = f"| {' | '.join(first)} | "
    (line,) = (line for line in text.splitlines() if line.startswith(begin))
    return line.removeprefix(begin).removesuffix(" |").split(" | ")


def unwrapped(page: str) -> str:
    """The page with each list item on one line."""
    return page.replace("\n  ", " ")


def test_a_rule_of_one_half_is_counted_on_the_other() -> None:
    harmless = [run("grpo", 0, 0.5, None, "standard"), run("grpo", 1, 0.1, None, "standard")]
    page = early_warning_page([*runs(1, 0.5), *harmless])
    check_markdown(page)
    text = unwrapped(page)
    # The alarm at 2 is 2 ahead of the fall at 4. One of one: 21 to 100% by Wilson.
    warned = ["above 0.1", "1 of 1", "0 of 1", "1 of 1 (21 to 100%)", "2", "0 of 1 (0 to 79%)"]
    assert row(text, "first half") == [f"`{KL}`", *warned]
    assert row(text, "second half") == [f"`{KL}`", *warned]
    assert row(text, f"`{KL}`", "policy") == warned
    assert row(text, f"`{RATIO}`", "policy") == ["none", "-", "-", "-", "-", "-"]
    assert row(text, "stress", "a", "0")[1:] == ["5", "4", f"`{KL}`", "2", "2"]
    assert "In 0 of 2 runs none moved, in 2 one did at least 1 update ahead." in text
    assert f"Most often: `{KL}`, in 2." in text
    assert "the rule of the first half gave a false alarm until their end in 1 of 2 runs." in text
    assert (
        "- **No signal has been shown to warn of a collapse: the interval of "
        "warnings minus false alarms is not above 0.** A rule" in text
    )
    # One run of each recipe does not count as "all runs".
    assert "The recipe alone" not in text
    assert "\n| stress | 1 of 1 (21 to 100%) | 0 of 1 (0 to 79%) |\n" in text
    # The board's rule compares with 5 earlier updates and needs 2 that agree.
    assert "2 of 2 runs fell by update 7" in text
    assert "makes 2 rules on the first half" in " ".join(text.split())


def test_enough_runs_show_a_warning() -> None:
    text = unwrapped(early_warning_page(runs(5, 0.5)))
    # Five of five: 57 to 100% by Wilson; none of five: 0 to 43%.
    assert (
        "warned of 5 of 5 (57 to 100%) collapsed runs of the second half, 2 updates ahead" in text
    )
    assert "a false alarm in 0 of 5 (0 to 43%) runs" in text
    # 100 points between shares of five: Newcombe's lower bound is 1 - sqrt(.43^2 + .43^2).
    assert (
        "- **Warnings are more frequent than false alarms, but within recipes these runs do not "
        "show it.** A rule is chosen" in text
    )
    assert (
        "The share of warnings minus that of false alarms is +100.0 [+38.6, +100.0] points." in text
    )
    assert "+100.0 in the median, 90% of them lie between +100.0 and +100.0, 100 are" in text
    # The alarm at 2 is before or at the last validation before the fall only in seeds 1 and 3.
    assert "- Of 5 warnings, 2 came before a validation that was still healthy" in text
    assert "; 5 of 5 collapsed runs had such a validation." in text
    assert "0 of 5 (0 to 43%) runs of the second half that did not collapse have an" in text
    assert "5 of the 10 runs of the first half and 5 of the 10 runs of the second half" in text
    # If the recipe is known, no signal is needed.
    assert (
        "all runs of `a` or `b` on these tracks collapsed. They are 10 of the 10 collapsed "
        "runs, at no" in text
    )
    assert "Of the other recipes no run of the second half collapsed: nothing is known" in text
    assert unwrapped(early_warning_page(runs(5, 0.5)[::-1])) == text


def test_what_the_rule_does_within_recipes_is_told_apart() -> None:
    """All runs of e and f collapse; one of six of a and b does not, which the signal detects."""
    more = [run(recipe, seed, 0.5, 4) for recipe in "ef" for seed in range(5)]
    held = [run(recipe, 5, 0.1, None) for recipe in "ab"]
    text = unwrapped(early_warning_page([*runs(5, 0.5), *more, *held]))
    assert "- **Warnings are more frequent than false alarms.** A rule is chosen" in text
    assert "warned of 10 of 10 (72 to 100%) collapsed runs of the second half" in text
    assert "all runs of `e` or `f` on these tracks collapsed. They are 10 of the 20" in text
    # None of six: 0 to 39% by Wilson. Newcombe's lower bound is 1 - sqrt(.434^2 + .390^2).
    assert (
        "Of the other recipes, on the second half, the rule warned of 5 of 5 (57 to 100%) "
        "collapsed runs and gave a false alarm in 0 of 6 (0 to 39%) others. That is +100.0 "
        "[+41.6, +100.0] points from only 5 collapses, an interval above 0." in text
    )
    # One run each of a and b collapses without an alarm.
    few = [run(recipe, seed, 0.5, 4) for recipe in "efgij" for seed in range(5)]
    few += [run(recipe, 0, 0.1, 4) for recipe in "ab"]
    few += [run(recipe, seed, 0.1, None) for recipe in "abcd" for seed in range(1, 4)]
    text = unwrapped(early_warning_page(few))
    assert "- **Warnings are more frequent than false alarms, but within recipes these" in text
    assert "the rule warned of 0 of 1 (0 to 79%) collapsed runs and gave" in text
    assert "points from only 1 collapse, which does not show that it warns within recipes." in text


def test_one_fortunate_split_shows_no_warning() -> None:
    """Two of four recipes warn: a split with both in one half finds nothing in the other."""
    kinds = {"a": 0.5, "b": 0.5, "c": 0.1, "d": 0.1}
    fallen = [run(recipe, seed, kl, 4) for recipe, kl in kinds.items() for seed in range(5)]
    healthy = [run(recipe, seed, 0.1, None) for recipe in "efgi" for seed in range(5)]
    text = unwrapped(early_warning_page(fallen + healthy))
    # 24 to 76% against 0 to 28%: above 0 by Newcombe.
    assert "warned of 5 of 10 (24 to 76%) collapsed runs of the second half" in text
    assert "points. In 100 other splits into halves" in text
    assert "is +50.0 [+11.7, " in text
    assert "lie between +0.0 and " in text
    said = re.search(r"here, but in only (\d+) of 100 other splits of the runs, and 95 are", text)
    assert said
    assert 0 < int(said[1]) < 95
    assert f", {said[1]} are above 0, and that of this split is larger than in" in text


def test_alarms_after_a_fall_are_neither_warnings_nor_false_alarms() -> None:
    """Every alarm is at update 2, when one of three collapsed runs had already fallen."""
    fallen = [
        run(recipe, seed, 0.5, fall) for recipe in "ab" for seed, fall in enumerate((1, 4, 4))
    ]
    healthy = [
        run(recipe, seed, kl, None) for recipe in "cd" for seed, kl in enumerate((0.5, 0.1, 0.1))
    ]
    text = unwrapped(early_warning_page(fallen + healthy))
    assert "warned of 2 of 3 (" in text
    # One alarm of 2/3, as a rate of 2/9 of three runs: 3 to 73% by Wilson.
    assert "gave a false alarm in 0.7 of 3 (3 to 73%) runs that did not collapse" in text
    assert "it warned of 2 of 3, with 0.7 of 3 false alarms." in text
    assert row(text, "first half")[1:4] == ["above 0.1", "2 of 3", "0.7 of 3"]
    assert "sees more: 1 of 3 (6 to 79%) runs of the second half that did not collapse" in text


def test_no_rule_where_nothing_moves() -> None:
    text = early_warning_page(runs(1, 0.1))
    check_markdown(text)
    assert "On the first half of the runs no signal warns of collapses more often" in text
    assert row(text, "first half") == ["-", "none", "-", "-", "-", "-", "-"]
    assert row(text, "stress", "b", "0")[3:] == ["none", "-", "-"]
    assert "No signal moved in any run." in text


def test_too_few_runs_are_no_test() -> None:
    assert "No run has collapsed yet on a track" in early_warning_page([run("grpo", 0, 0.5, None)])
    assert "## " not in early_warning_page([])
    for few in (runs(1, 0.5)[:2], runs(1, 0.5)[1:], [run("grpo", 0, 0.5, 4)]):
        text = early_warning_page(few)
        check_markdown(text)
        assert "There are too few runs for a test" in text


def test_what_comes_of_it_without_runs_that_lost_half_is_said() -> None:
    """The second seed of c has a divergence of 0.7; 0.5 warns only if that run is excluded."""
    late = run("c", 1, 0.7, None)
    some = [each for each in runs(2, 0.5) if (each.recipe, each.seed) != ("c", 1)]
    assert "of its best" not in early_warning_page([*some, late])
    text = " ".join(early_warning_page([*some, late], {("stress", "c", 1)}).split())
    assert (
        "- Of the runs that count as not collapsed, 1 ended at half of its best. Without it the "
        f"first half chooses `{KL}` above 0.1, which warned of 2 of 2 in the second, with 0 of "
        in text
    )
