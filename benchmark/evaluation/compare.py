"""Compares two runs on their common panels: paired difference, interval, p-value.

Both played the same episodes, so the difference is taken episode by episode: what makes one
problem harder than another cancels out. Only plays (episode and repeat) that both runs hold are
compared. Differences are B minus A: positive where B is better.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from benchmark.evaluation.manifest import ENGINE_FACTS, Manifest
from benchmark.evaluation.protocol import PanelProtocol, differing_fields
from benchmark.evaluation.records import EpisodeRecord
from benchmark.evaluation.summarize import checked_records
from benchmark.evaluation.summary import PanelKey
from benchmark.stats.formatting import p_text, percent_text, points_text, signed_text, with_unit
from benchmark.stats.intervals import (
    Interval,
    bootstrap_mean,
    sign_flip,
)
from benchmark.stats.paired import SIGN_FLIP, PairedDifference, Side
from tasks.errors import UserError
from tasks.presentation import Presentation
from tasks.registry import load_task
from tasks.texts import counted, printable

Run = tuple[Manifest, Iterable[EpisodeRecord]]
"""A run as `benchmark.evaluation.run_folder.read_run` gives it."""


BOOTSTRAP = "BCa bootstrap over episodes"


@dataclass(frozen=True, slots=True)
class Difference:
    """One quantity of both runs on the same plays.

    Attributes:
        a: Mean of run A over episodes (of the mean over each episode's plays).
        b: The same of run B.
        difference: B minus A, with its 95% interval.
        p_value: Two-sided, of no difference.
        interval: Name of the interval's method.
        test: Name of the test.
    """

    a: float
    b: float
    difference: Interval
    p_value: float
    interval: str
    test: str


OF_PANELS: Final = frozenset({"panel_sha256", "task_version"})
"""Fields of a protocol that say which episodes a panel has."""


@dataclass(frozen=True, slots=True)
class PanelComparison:
    """Two runs on one panel.

    Attributes:
        task: Task name.
        panel: Panel name.
        fingerprint: The panel's protocol fingerprint in run A; the same in B if nothing differs.
        differing: In what the protocols differ, by field: its values in A and in B.
        expected: Plays of a complete run.
        plays: Plays that both runs hold; what is compared.
        plays_a: Plays that run A holds.
        plays_b: Plays that run B holds.
        errors_a: Plays of A, of those compared, that ended in an error; they are failures.
        errors_b: The same of run B.
        episodes: Episodes of the compared plays.
        only_a: Episodes that A solved at least once and B never.
        only_b: Episodes that B solved at least once and A never.
        success: Success rates, with interval and test of `benchmark.stats.paired`.
        score: Mean scores, with sign-flip test and bootstrap over episodes.
        score_name: What the score measures.
        score_unit: Its unit.
    """

    task: str
    panel: str
    fingerprint: str
    differing: Mapping[str, tuple[str, str]]
    expected: int
    plays: int
    plays_a: int
    plays_b: int
    errors_a: int
    errors_b: int
    episodes: int
    only_a: int
    only_b: int
    success: Difference
    score: Difference
    score_name: str
    score_unit: str


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Two runs on all panels that both played.

    Attributes:
        manifest_a: What run A says of itself.
        manifest_b: The same of run B.
        panels: One comparison per common panel with plays in common, in A's order.
        left_out: Panels (`task/panel`) without plays in common, and those of one run only.
    """

    manifest_a: Manifest
    manifest_b: Manifest
    panels: tuple[PanelComparison, ...]
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Play:
    solved: bool
    score: float
    error: bool


_Plays = dict[tuple[str, int], _Play]


def compare(
    run_a: Run,
    run_b: Run,
    tasks: Mapping[str, Presentation] | None = None,
    across_protocols: bool = False,
) -> RunComparison:
    """Compare two runs, panel by panel.

    Args:
        run_a: Manifest and records of the run that differences are measured from.
        run_b: Manifest and records of the other.
        tasks: Names and units of the tasks, by task name; None for those installed.
        across_protocols: Compare different protocols, too, such as text with images. The panels
            must be the same.

    Raises:
        UserError: The runs have no panel or no play in common, played a common panel under
            different protocols that are not to be compared, or hold records that are not theirs.
    """
    (manifest_a, records_a), (manifest_b, records_b) = run_a, run_b
    protocols_b = {(panel.task, panel.panel): panel for panel in manifest_b.panels}
    common = [panel for panel in manifest_a.panels if (panel.task, panel.panel) in protocols_b]
    if not common:
        raise UserError(
            f"the runs have no common panel: A played {_names(manifest_a.panels)}, B "
            f"{_names(manifest_b.panels)}"
        )
    differing = {
        (panel.task, panel.panel): _differing(
            panel, protocols_b[panel.task, panel.panel], across_protocols
        )
        for panel in common
    }
    plays_a, plays_b = _plays(manifest_a, records_a), _plays(manifest_b, records_b)
    compared, left_out = [], []
    panels = {
        (panel.task, panel.panel): panel for panel in (*manifest_a.panels, *manifest_b.panels)
    }
    for key, panel in panels.items():
        if plays_a.get(key, {}).keys() & plays_b.get(key, {}).keys():
            shown = (
                tasks[panel.task] if tasks is not None else load_task(panel.task).info.presentation
            )
            plays = plays_a[key], plays_b[key]
            compared.append(_compare_panel(panel, differing[key], shown, *plays))
        else:
            left_out.append("/".join(key))
    if not compared:
        raise UserError(
            f"the runs have no common episode on {_names(common)}; run the same "
            "`arlarena-bench eval` commands again to finish them"
        )
    return RunComparison(manifest_a, manifest_b, tuple(compared), tuple(left_out))


def _plays(manifest: Manifest, records: Iterable[EpisodeRecord]) -> dict[PanelKey, _Plays]:
    plays: dict[PanelKey, _Plays] = {}
    for record in checked_records(manifest, records):
        error = record.error is not None
        play = _Play(record.success and not error, record.score, error)
        plays.setdefault((record.task, record.panel), {})[record.episode, record.repeat] = play
    return plays


def _compare_panel(
    panel: PanelProtocol,
    differing: Mapping[str, tuple[str, str]],
    shown: Presentation,
    plays_a: _Plays,
    plays_b: _Plays,
) -> PanelComparison:
    common = sorted(plays_a.keys() & plays_b.keys())
    pairs: dict[str, list[tuple[_Play, _Play]]] = {}
    for key in common:
        pairs.setdefault(key[0], []).append((plays_a[key], plays_b[key]))
    solved = [
        (any(a.solved for a, _ in plays), any(b.solved for _, b in plays))
        for plays in pairs.values()
    ]
    scores = [[(a.score, b.score) for a, b in plays] for plays in pairs.values()]
    return PanelComparison(
        task=panel.task,
        panel=panel.panel,
        fingerprint=panel.fingerprint,
        differing=differing,
        expected=panel.episodes * panel.repeats,
        plays=len(common),
        plays_a=len(plays_a),
        plays_b=len(plays_b),
        errors_a=sum(plays_a[key].error for key in common),
        errors_b=sum(plays_b[key].error for key in common),
        episodes=len(pairs),
        only_a=solved.count((True, False)),
        only_b=solved.count((False, True)),
        success=_success(list(pairs.values())),
        score=_paired_means(scores),
        score_name=shown.score_name,
        score_unit=shown.score_unit,
    )


def _success(episodes: Sequence[Sequence[tuple[_Play, _Play]]]) -> Difference:
    """Compare success, given the plays (of A, of B) of each episode."""
    a = Side.of([[one.solved for one, _ in plays] for plays in episodes])
    b = Side.of([[other.solved for _, other in plays] for plays in episodes])
    found = PairedDifference.of(b, a)
    return Difference(
        a=a.success.value,
        b=b.success.value,
        difference=found.difference,
        p_value=found.p_value,
        interval=found.method,
        test=found.test,
    )


def _paired_means(episodes: Sequence[Sequence[tuple[float, float]]]) -> Difference:
    """Compare episodes, each given as the values (of A, of B) of its plays."""
    differences = [math.fsum(b - a for a, b in plays) / len(plays) for plays in episodes]
    return Difference(
        a=_mean_of_means([[a for a, _ in plays] for plays in episodes]),
        b=_mean_of_means([[b for _, b in plays] for plays in episodes]),
        difference=bootstrap_mean(differences),
        p_value=sign_flip(differences),
        interval=BOOTSTRAP,
        test=SIGN_FLIP,
    )


def _mean_of_means(episodes: Sequence[Sequence[float]]) -> float:
    return math.fsum(math.fsum(plays) / len(plays) for plays in episodes) / len(episodes)


def _differing(
    a: PanelProtocol, b: PanelProtocol, across_protocols: bool
) -> dict[str, tuple[str, str]]:
    """In what two protocols of one panel differ; see `differing_fields`.

    Raises:
        UserError: They do, and are not to be compared; or the panels are not the same.
    """
    differing = differing_fields(a, b)
    if not differing or (across_protocols and differing.keys().isdisjoint(OF_PANELS)):
        return differing
    wish = "" if across_protocols else "; --across-protocols compares the same episodes anyway"
    needed = "panel" if across_protocols else "protocol"
    raise UserError(
        f"{a.task}/{a.panel} was played under different protocols, which differ in "
        f"{_differing_text(differing)}; only runs of the same {needed} can be compared{wish}"
    )


def _differing_text(differing: Mapping[str, tuple[str, str]]) -> str:
    return ", ".join(f"{name} ({a} in A, {b} in B)" for name, (a, b) in differing.items())


def _names(panels: Sequence[PanelProtocol]) -> str:
    return ", ".join(f"{panel.task}/{panel.panel}" for panel in panels)


def comparison_text(comparison: RunComparison, name_a: str = "A", name_b: str = "B") -> str:
    """Tell a comparison in plain sentences, one line each, ready to be pasted.

    Args:
        comparison: What was found.
        name_a: What run A is called, such as its folder.
        name_b: The same of run B.
    """
    manifests = {"A": comparison.manifest_a, "B": comparison.manifest_b}
    names = {"A": name_a, "B": name_b}
    lines = [
        f"{side}: {names[side]}: {manifest.model.text}, {_engine_text(manifest)}"
        for side, manifest in manifests.items()
    ]
    if len({_engine_text(manifest) for manifest in manifests.values()}) > 1:
        lines += ["note: the engines differ, which may explain part of the difference"]
    for panel in comparison.panels:
        lines += ["", f"{panel.task}/{panel.panel}", f"  success: {_success_text(panel)}"]
        lines += [f"  {panel.score_name}: {_score_text(panel)}"]
        lines += [f"  note: {note}" for note in _notes(panel)]
    if comparison.left_out:
        lines += ["", f"not compared (no common episode): {', '.join(comparison.left_out)}"]
    success = dict.fromkeys(panel.success.interval for panel in comparison.panels)
    scores = dict.fromkeys(panel.score.interval for panel in comparison.panels)
    lines += [
        "",
        f"Differences are B minus A, with 95% intervals. Success: {', '.join(success)}. "
        f"Scores: {', '.join(scores)}.",
    ]
    if all(manifest.model.kind in ("folder", "hub") for manifest in manifests.values()):
        lines += [
            "These intervals are for these two checkpoints. Comparing the methods behind them also "
            "requires the variation between training seeds, which no interval here includes.",
        ]
    # Names and notes are a run's own words.
    return "\n".join(map(printable, lines))


def _engine_text(manifest: Manifest) -> str:
    named = {"context": "context ", "opened": "prompt ends in ", "model_args": "with "}
    facts = {fact: manifest.engine.get(fact) for fact in ENGINE_FACTS}
    return " ".join(
        f"{named.get(name, '')}{value}" for name, value in facts.items() if value is not None
    )


def _success_text(panel: PanelComparison) -> str:
    success = panel.success
    single = panel.plays == panel.episodes
    only_b, only_a = (
        (f"{panel.only_b} only B", f"{panel.only_a} only A")
        if single
        else (f"{panel.only_b} solved by B alone in any repeat", f"{panel.only_a} by A alone")
    )
    return (
        f"A {percent_text(success.a)}, B {percent_text(success.b)}: "
        f"difference {points_text(success.difference, ' points')}, "
        f"{success.test} {p_text(success.p_value)}, {_pairs(panel)} ({only_b}, {only_a})"
    )


def _score_text(panel: PanelComparison) -> str:
    score, places = panel.score, 3
    return (
        f"A {score.a:.{places}f}, B {with_unit(f'{score.b:.{places}f}', panel.score_unit)}: "
        f"difference {signed_text(score.difference, places)}, "
        f"{score.test} {p_text(score.p_value)}, {_pairs(panel)}"
    )


def _pairs(panel: PanelComparison) -> str:
    episodes = counted(panel.episodes, "paired episode")
    return episodes if panel.plays == panel.episodes else f"{episodes} in {panel.plays} plays"


def _notes(panel: PanelComparison) -> list[str]:
    notes = []
    if panel.differing:
        differing = _differing_text(panel.differing)
        notes.append(f"the protocols differ, which may explain the difference: {differing}")
    if panel.plays < panel.expected:
        notes.append(
            f"incomplete: A has {panel.plays_a} and B {panel.plays_b} of "
            f"{panel.expected} plays; only the {panel.plays} that both hold are "
            "compared"
        )
    if panel.errors_a or panel.errors_b:
        notes.append(
            f"{panel.errors_a} of A's plays and {panel.errors_b} of B's ended in an error; they "
            "count as the worst failures"
        )
    return notes
