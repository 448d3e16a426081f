"""The page on early warning: which signal predicts a collapse, over the runs of all tracks."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from baselines.study.methods import TrackResults
from baselines.study.pages.halves import (
    NOTHING,
    Half,
    half_of,
    halves_of,
    lead_text,
    limit_text,
    share_text,
    testable,
)
from baselines.study.pages.markdown import fill, markdown_table, write_page
from baselines.study.pages.warning_answer import answer
from baselines.study.pages.watched import halved_runs, watched_runs
from benchmark.stability import precursors
from benchmark.stability.early_warning import (
    SIGNALS,
    SUCCESS,
    Rule,
    WatchedRun,
    alarms,
    comparable,
    first_moves,
    outcome,
    warning_at,
)
from benchmark.stats.formatting import count_text
from tasks.errors import os_error_as
from tasks.texts import counted

TEMPLATE: Final = Path(__file__).with_name("early_warning.md.j2")
PAGE: Final = "early_warning.md"
NUMBERS: Final = (
    "alarm",
    "warned there",
    "false alarms there",
    "warned, other half",
    "lead",
    "false alarms, other half",
)
"""Columns with a rule's results on the half that selects it, and on the other one."""
RUNS: Final = (
    "track",
    "recipe",
    "seed",
    "half",
    "collapse",
    "fall",
    "moved first",
    "ahead",
    "warning",
)
"""Columns of the collapsed runs."""


@dataclass(frozen=True, slots=True)
class FallenRun:
    """A collapsed run, judged by the rules of the other half.

    Attributes:
        run: The run.
        half: The run's half.
        first: Signals that were the first to leave the range of all healthy runs of the other half.
        ahead: Updates from that to the fall; None if no signal did.
        warning: Updates from the alarm of the rule chosen on the other half to the fall; None
            without a warning.
    """

    run: WatchedRun
    half: str
    first: tuple[str, ...]
    ahead: int | None
    warning: int | None


def write_early_warning(found: Mapping[str, TrackResults], results: Path) -> Path:
    """Write the page to a results folder.

    Args:
        found: Finished results by track (`without_sweeps`).
        results: The folder.

    Returns:
        The page.

    Raises:
        UserError: It cannot be written.
    """
    path = results / PAGE
    with os_error_as(f"{path} cannot be written"):
        page = early_warning_page(watched_runs(found), halved_runs(found))
        write_page(path, page, results)
    return path


def early_warning_page(
    runs: Sequence[WatchedRun], halved: Collection[tuple[str, str, int]] = ()
) -> str:
    """The page, as Markdown.

    Args:
        runs: Runs of all tracks, in any order.
        halved: Track, recipe and seed of runs that lost half without a collapse.
    """
    compared = comparable(runs)
    first, second = halves_of(compared)
    fallen = sorted(
        (*_fallen(first, second), *_fallen(second, first)),
        key=lambda each: (each.run.track, each.run.recipe, each.run.seed),
    )
    tracks = {run.track for run in compared}
    others = [run for run in runs if run.track not in tracks]
    blind = precursors.FIRST + precursors.PATIENCE
    return fill(
        TEMPLATE,
        answer=answer(first, second, others),
        tracks=_by_track(first, second),
        collapsed=len(fallen),
        rules=_rules(first, second),
        tried=[sum(len(half.rules[signal]) for signal in SIGNALS) for half in (first, second)],
        elsewhere=_elsewhere(first, others),
        signals=_signals(first, second),
        runs=_runs(fallen),
        first=_often(fallen),
        spread=_spread(first, second),
        without_halved=_without_halved(first, second, halved),
        early=sum((each.run.fall or 0) <= blind for each in fallen),
        blind=blind,
    )


def _fallen(half: Half, other: Half) -> Iterator[FallenRun]:
    farthest = [rules[0] for signal, rules in other.rules.items() if rules and signal != SUCCESS]
    for run in half.runs:
        if run.fall is not None:
            at = None if other.chosen is None else warning_at(run, other.chosen)
            warning = None if at is None else run.fall - at
            yield FallenRun(run, half.name, *first_moves(run, farthest), warning)


def _by_track(first: Half, second: Half) -> str:
    """Results of the tested rule on each track of the other half."""
    if (rule := first.chosen) is None:
        return ""
    rows = []
    for track in dict.fromkeys(run.track for run in second.runs):
        done = outcome(rule, [run for run in second.runs if run.track == track])
        rows.append(
            [
                track,
                share_text(len(done.leads), done.collapsed),
                share_text(done.false_alarms, done.healthy),
            ]
        )
    return markdown_table(("track, second half", "warned", "false alarms"), rows)


def _rules(first: Half, second: Half) -> str:
    rows = []
    for half, other in ((first, second), (second, first)):
        for rule, about in ((half.chosen, ""), (half.best(SUCCESS), ", training success")):
            name = NOTHING if rule is None else f"`{rule.signal.label}`"
            rows.append([f"{half.name} half{about}", name, *_cells(rule, half, other)])
    return markdown_table(("chosen on", "signal", *NUMBERS), rows)


def _signals(first: Half, second: Half) -> str:
    return markdown_table(
        ("signal", "of", *NUMBERS),
        [
            [
                f"`{signal.label}`",
                "behavior" if signal.behavior else "policy",
                *_cells(first.best(signal), first, second),
            ]
            for signal in SIGNALS
        ],
    )


def _cells(rule: Rule | None, half: Half, other: Half) -> list[str]:
    """A rule with its results on both halves."""
    if rule is None:
        return ["none", *[NOTHING] * 5]
    known, done = outcome(rule, half.runs), outcome(rule, other.runs)
    return [
        limit_text(rule),
        f"{len(known.leads)} of {known.collapsed}",
        count_text(known.false_alarms, known.healthy),
        share_text(len(done.leads), done.collapsed),
        lead_text(done.leads),
        share_text(done.false_alarms, done.healthy),
    ]


def _runs(fallen: Sequence[FallenRun]) -> str:
    rows = [
        [
            each.run.track, each.run.recipe, str(each.run.seed), each.half,
            str(each.run.collapse), str(each.run.fall),
            ", ".join(f"`{label}`" for label in each.first) or "none",
            NOTHING if each.ahead is None else str(each.ahead),
            NOTHING if each.warning is None else str(each.warning),
        ]
        for each in fallen
    ]  # fmt: skip
    return markdown_table(RUNS, rows)


def _often(fallen: Sequence[FallenRun]) -> str:
    """Which signals moved first most often."""
    counts = Counter(label for each in fallen for label in each.first)
    if not counts:
        return "No signal moved in any run."
    ahead = sum(each.ahead is not None and each.ahead >= 1 for each in fallen)
    still = sum(not each.first for each in fallen)
    most = max(counts.values())
    names = ", ".join(f"`{label}`" for label in sorted(counts) if counts[label] == most)
    return (
        f"In {still} of {counted(len(fallen), 'run')} none moved, in {ahead} one did at least 1 "
        f"update ahead. Most often: {names}, in {most}."
    )


def _elsewhere(first: Half, others: Sequence[WatchedRun]) -> str:
    if not others or first.chosen is None:
        return "Runs on other tracks do not count."
    return (
        "On the other tracks the rule of the first half gave a false alarm until their end in "
        f"{alarms(first.chosen, others)} of {counted(len(others), 'run')}."
    )


def _spread(first: Half, second: Half) -> str:
    """Number of runs by track."""
    runs = (*first.runs, *second.runs)
    tracks = Counter(run.track for run in runs if run.fall is not None)
    recipes = len({(run.track, run.recipe) for run in runs if run.fall is not None})
    parts = (
        f"{sum(run.fall is not None for run in half.runs)} of the {counted(len(half.runs), 'run')}"
        f" of the {half.name} half"
        for half in (first, second)
    )
    where = ", ".join(f"{number} on {track}" for track, number in sorted(tracks.items()))
    return (
        f"{' and '.join(parts)} collapsed: {where}; {counted(recipes, 'pair')} of recipe and track."
    )


def _without_halved(first: Half, second: Half, halved: Collection[tuple[str, str, int]]) -> str:
    """The chosen rule and its results without runs that lost half without a collapse."""
    kept = [
        tuple(run for run in half.runs if (run.track, run.recipe, run.seed) not in halved)
        for half in (first, second)
    ]
    lost = len(first.runs) + len(second.runs) - sum(map(len, kept))
    if not lost or not testable(kept):
        return ""
    runs = "Of the runs that count as not collapsed"
    said = f"{runs}, {lost} ended at half of {'their' if lost > 1 else 'its'} best."
    rule = half_of(first.name, kept[0]).chosen
    if rule is None:
        return f"{said} Without {'them' if lost > 1 else 'it'} no rule is chosen."
    done = outcome(rule, kept[1])
    return (
        f"{said} Without {'them' if lost > 1 else 'it'} the first half chooses "
        f"`{rule.signal.name}` {limit_text(rule)}, which warned of {len(done.leads)} of "
        f"{done.collapsed} in the second, with {count_text(done.false_alarms, done.healthy)} "
        "false alarms."
    )
