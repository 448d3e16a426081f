"""Compares two runs on their common panels: paired difference, interval, p-value.

Both runs played the same episodes, so the difference is taken per episode and the difficulty of an
episode cancels out. Only episodes that both runs played are compared, with all plays of each run.
Differences are B minus A: positive if B is better.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from benchmark.evaluation.manifest import ENGINE_FACTS, Manifest
from benchmark.evaluation.protocol import PanelProtocol, differing_fields
from benchmark.evaluation.records import EpisodeRecord
from benchmark.evaluation.summarize import checked_records, expected_records
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
"""A run as returned by `benchmark.evaluation.run_folder.read_run`."""


BOOTSTRAP = "BCa bootstrap over episodes"


@dataclass(frozen=True, slots=True)
class Difference:
    """One quantity of both runs on the same episodes.

    Attributes:
        a: Mean of run A over episodes (of the mean over each episode's plays).
        b: The same of run B.
        difference: B minus A, with its 95% interval.
        p_value: Two-sided p-value for no difference.
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
"""Protocol fields that determine a panel's episodes."""


@dataclass(frozen=True, slots=True)
class PanelComparison:
    """Two runs on one panel.

    Attributes:
        task: Task name.
        panel: Panel name.
        fingerprint: The panel's protocol fingerprint in run A; the same in B if nothing differs.
        differing: Fields in which the protocols differ, with their values in A and B.
        missing_a: Plays that run A still lacks.
        missing_b: The same for run B.
        alone: Episodes that only one run played; they are left out.
        episodes: Compared episodes, which both runs played.
        plays_a: Run A's plays of these episodes.
        plays_b: The same for run B.
        errors_a: Plays among `plays_a` that ended in an error; they count as failures.
        errors_b: The same for run B.
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
    missing_a: int
    missing_b: int
    alone: int
    episodes: int
    plays_a: int
    plays_b: int
    errors_a: int
    errors_b: int
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
        manifest_a: Manifest of run A.
        manifest_b: Manifest of run B.
        panels: One comparison per common panel with episodes in common, in A's order.
        left_out: Panels (`task/panel`) without episodes in common, and those of one run only.
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


_Plays = dict[str, list[_Play]]
"""Plays by episode, at least one each."""
_Pair = tuple[list[_Play], list[_Play]]
"""An episode's plays in A and in B."""


def compare(
    run_a: Run,
    run_b: Run,
    tasks: Mapping[str, Presentation] | None = None,
    across_protocols: bool = False,
) -> RunComparison:
    """Compare two runs, panel by panel.

    Args:
        run_a: Manifest and records of the reference run.
        run_b: Manifest and records of the other run.
        tasks: Names and units of the tasks, by task name; None for the installed ones.
        across_protocols: Also compare different protocols, such as text with images. The panels
            must be the same.

    Raises:
        UserError: The runs have no panel or no episode in common, played a common panel under
            different protocols without `across_protocols`, or contain records of other runs.
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
    wanted_a, wanted_b = expected_records(manifest_a), expected_records(manifest_b)
    compared, left_out = [], []
    panels = {
        (panel.task, panel.panel): panel for panel in (*manifest_a.panels, *manifest_b.panels)
    }
    for key, panel in panels.items():
        if plays_a.get(key, {}).keys() & plays_b.get(key, {}).keys():
            shown = (
                tasks[panel.task] if tasks is not None else load_task(panel.task).info.presentation
            )
            sides = (plays_a[key], wanted_a[key]), (plays_b[key], wanted_b[key])
            compared.append(_compare_panel(panel, differing[key], shown, *sides))
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
        play = _Play(record.solved, record.score, error)
        of_panel = plays.setdefault((record.task, record.panel), {})
        of_panel.setdefault(record.episode, []).append(play)
    return plays


def _compare_panel(
    panel: PanelProtocol,
    differing: Mapping[str, tuple[str, str]],
    shown: Presentation,
    side_a: tuple[_Plays, int],
    side_b: tuple[_Plays, int],
) -> PanelComparison:
    """Compare two runs on a panel, given each one's plays and expected number of plays."""
    (plays_a, wanted_a), (plays_b, wanted_b) = side_a, side_b
    common = sorted(plays_a.keys() & plays_b.keys())
    pairs = [(plays_a[episode], plays_b[episode]) for episode in common]
    solved = [(any(one.solved for one in a), any(one.solved for one in b)) for a, b in pairs]
    return PanelComparison(
        task=panel.task,
        panel=panel.panel,
        fingerprint=panel.fingerprint,
        differing=differing,
        missing_a=wanted_a - sum(map(len, plays_a.values())),
        missing_b=wanted_b - sum(map(len, plays_b.values())),
        alone=len(plays_a.keys() ^ plays_b.keys()),
        episodes=len(pairs),
        plays_a=sum(len(a) for a, _ in pairs),
        plays_b=sum(len(b) for _, b in pairs),
        errors_a=sum(one.error for a, _ in pairs for one in a),
        errors_b=sum(one.error for _, b in pairs for one in b),
        only_a=solved.count((True, False)),
        only_b=solved.count((False, True)),
        success=_success(pairs),
        score=_scores(pairs),
        score_name=shown.score_name,
        score_unit=shown.score_unit,
    )


def _success(pairs: Sequence[_Pair]) -> Difference:
    a = Side.of([[one.solved for one in plays] for plays, _ in pairs])
    b = Side.of([[one.solved for one in plays] for _, plays in pairs])
    found = PairedDifference.of(b, a)
    return Difference(
        a=a.success.value,
        b=b.success.value,
        difference=found.difference,
        p_value=found.p_value,
        interval=found.method,
        test=found.test,
    )


def _scores(pairs: Sequence[_Pair]) -> Difference:
    a, b = ([fmean([one.score for one in pair[side]]) for pair in pairs] for side in (0, 1))
    differences = [there - here for here, there in zip(a, b, strict=True)]
    return Difference(
        a=fmean(a),
        b=fmean(b),
        difference=bootstrap_mean(differences),
        p_value=sign_flip(differences),
        interval=BOOTSTRAP,
        test=SIGN_FLIP,
    )


def _differing(
    a: PanelProtocol, b: PanelProtocol, across_protocols: bool
) -> dict[str, tuple[str, str]]:
    """Fields in which two protocols of one panel differ; see `differing_fields`.

    Raises:
        UserError: They differ without `across_protocols`, or the panels are not the same.
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
    """Describe a comparison in plain sentences, one per line, ready to paste.

    Args:
        comparison: The comparison.
        name_a: Name of run A, such as its folder.
        name_b: Name of run B.
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
    # Names and notes come from the runs, so escape them.
    return "\n".join(map(printable, lines))


def _engine_text(manifest: Manifest) -> str:
    named = {"context": "context ", "opened": "prompt ends in ", "model_args": "with "}
    facts = {fact: manifest.engine.get(fact) for fact in ENGINE_FACTS}
    return " ".join(
        f"{named.get(name, '')}{value}" for name, value in facts.items() if value is not None
    )


def _success_text(panel: PanelComparison) -> str:
    success = panel.success
    single = panel.plays_a == panel.plays_b == panel.episodes
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
    if panel.plays_a != panel.plays_b:
        return f"{episodes}, {counted(panel.plays_a, 'play')} of A and {panel.plays_b} of B"
    return episodes if panel.plays_a == panel.episodes else f"{episodes} in {panel.plays_a} plays"


def _notes(panel: PanelComparison) -> list[str]:
    notes = []
    if panel.differing:
        differing = _differing_text(panel.differing)
        notes.append(f"the protocols differ, which may explain the difference: {differing}")
    if panel.missing_a or panel.missing_b:
        notes.append(
            f"incomplete: A lacks {counted(panel.missing_a, 'play')}, B {panel.missing_b}; run "
            "the same `eval` commands again to play them"
        )
    if panel.alone:
        episodes = counted(panel.alone, "episode")
        notes.append(f"left out: {episodes} that only one of the runs has played")
    if panel.errors_a or panel.errors_b:
        notes.append(
            f"{panel.errors_a} of A's plays and {panel.errors_b} of B's ended in an error; they "
            "count as failures with the worst score"
        )
    return notes
