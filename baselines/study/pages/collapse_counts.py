"""Collapsed and halved runs of each method: a table, and a sentence for a first page."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from baselines.study.claims import LEAST_OF_ONE
from baselines.study.methods import TrackResults
from baselines.study.pages.markdown import markdown_table, wrapped

HEADING: Final = "Collapses"


@dataclass(frozen=True, slots=True)
class MethodCounts:
    """A method's runs.

    Attributes:
        recipe: Its name.
        runs: Number of runs.
        collapsed: Number of these that collapsed.
        halved: Number of the others that ended at half of their best validation or below.
    """

    recipe: str
    runs: int
    collapsed: int
    halved: int


@dataclass(frozen=True, slots=True)
class CollapseCounts:
    """Collapses in a study, over the tracks on which any run collapsed.

    Attributes:
        methods: Methods that ran there, sorted by most collapses, then by most runs.
        apart: Collapsed runs, and all runs of the methods with such a run, by track, for tracks on
            which runs are too short to show that they have not collapsed.
    """

    methods: tuple[MethodCounts, ...]
    apart: Mapping[str, Mapping[str, tuple[int, int]]]


def collapse_counts(found: Mapping[str, TrackResults]) -> CollapseCounts:
    """Count over all tracks.

    Args:
        found: Finished results by track.
    """
    counts: dict[str, MethodCounts] = {}
    apart = {}
    for track, results in found.items():
        methods = [method for method in results.methods.values() if method.runs]
        fallen = [method for method in methods if method.collapsed]
        if fallen and not results.shows_collapses:
            apart[track] = {each.recipe: (len(each.collapsed), len(each.runs)) for each in fallen}
        elif fallen:
            for each in methods:
                old = counts.get(each.recipe, MethodCounts(each.recipe, 0, 0, 0))
                counts[each.recipe] = MethodCounts(
                    each.recipe,
                    old.runs + len(each.runs),
                    old.collapsed + len(each.collapsed),
                    old.halved + len(each.halved),
                )
    order = sorted(counts.values(), key=lambda each: (-each.collapsed / each.runs, -each.runs))
    return CollapseCounts(tuple(order), apart)


def collapse_table(counts: CollapseCounts) -> str:
    """Every method, and uncounted runs, as Markdown; empty if nothing collapsed."""
    rows = [
        [each.recipe, str(each.runs), str(each.collapsed), str(each.halved)]
        for each in counts.methods
    ]
    table = markdown_table(("recipe", "runs", "collapsed", "halved"), rows) if rows else ""
    return "\n\n".join(filter(None, (table, wrapped(_not_counted(counts)))))


def collapse_text(counts: CollapseCounts, page: str) -> str:
    """Methods with enough runs, and uncounted runs, as a sentence.

    Args:
        counts: The counts.
        page: Link to the table.
    """
    known = [each for each in counts.methods if each.runs >= LEAST_OF_ONE]
    said = "; ".join(_groups(known)) or f"no method has {LEAST_OF_ONE} runs there"
    points = []
    if counts.methods:
        points.append(
            f"Where any run collapsed, sweeps aside: {said}. [All methods]({page}), with those of "
            f"fewer than {LEAST_OF_ONE} runs; not every method ran on each track."
        )
    return " ".join(filter(None, (*points, _not_counted(counts))))


def _groups(methods: Sequence[MethodCounts]) -> Iterator[str]:
    every = [f"`{each.recipe}` ({each.runs})" for each in methods if each.collapsed == each.runs]
    some = [
        f"`{each.recipe}` {each.collapsed} of {each.runs}"
        + (f" ({each.halved} more halved)" if each.halved else "")
        for each in methods
        if each.collapsed < each.runs and each.collapsed + each.halved
    ]
    none = [
        f"`{each.recipe}` ({each.runs})" for each in methods if not each.collapsed + each.halved
    ]
    for words, names in {"every run of ": every, "": some, "none of ": none}.items():
        if names:
            yield f"{words}{', '.join(names)}"


def _not_counted(counts: CollapseCounts) -> str:
    if not counts.apart:
        return ""
    tracks = []
    for track, own in counts.apart.items():
        fallen = (f"`{name}` {some} of {runs}" for name, (some, runs) in own.items())
        tracks.append(f"{track} ({', '.join(fallen)})")
    return (
        f"{'Not counted' if counts.methods else 'Collapsed'}: {', '.join(tracks)}, where runs have "
        "too few validations to show that they have not collapsed."
    )
