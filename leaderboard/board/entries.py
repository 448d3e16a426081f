"""Computes the row of an accepted submission; every number is computed here, none is read."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import fmean

from benchmark.commands_of_entry import (
    TrainCommandOf,
    commands_of,
    plugins_of,
    reproduction_folder,
)
from benchmark.evaluation.manifest import ENGINE_FACTS, Manifest
from benchmark.evaluation.records import EpisodeRecord
from benchmark.evaluation.summary import PanelKey as Key
from benchmark.evaluation.summary import PanelSummary
from benchmark.logs.curves import run_curves_of
from benchmark.logs.lines import track_name
from benchmark.logs.training_log import TrainingLog
from benchmark.models import ModelIdentity
from benchmark.stability.runs import RunStability
from benchmark.stability.seeds import EventSummary, RecipeStability, SeedSummary
from benchmark.stats.dependable import dependable_success
from benchmark.stats.intervals import Interval, clustered_wilson
from benchmark.stats.paired import Side, mean_success
from benchmark.stats.survival import SurvivalCurve
from benchmark.submissions.badges import Badges
from benchmark.submissions.checks.results import (
    PanelResult,
    TrainingResult,
    early_stops,
    foreign_stability_of,
    panel_results,
    stability_of,
)
from benchmark.submissions.checks.tracks import track_of
from benchmark.submissions.format.schema import SUBMISSION
from benchmark.submissions.reading.entry import Entry, ReadCheckpoint, plays_of
from benchmark.submissions.reading.reruns import Rerun
from benchmark.submissions.report_rows import agreement_text
from leaderboard.board.curves import seed_curves, spark_of
from leaderboard.board.protocols import PanelFacts
from leaderboard.board.recipe_choices import choices_of
from leaderboard.board.rows import (
    BoardBadges,
    BoardCheckpoint,
    CategorySuccess,
    DeclaredData,
    DependableSuccess,
    FullRow,
    Model,
    Outcomes,
    PanelNumbers,
    SeedSuccess,
)
from leaderboard.board.training_rows import (
    EventCount,
    NamedValue,
    ReachedLevel,
    SeedCurves,
    SeedNumbers,
    Stability,
    Survival,
)
from tasks.registry import load_task
from tasks.seeding import canonical_json
from tasks.texts import on_one_line

MAX_COMMAND = 2_000
"""Maximum stored characters of a command line."""


def row_of(
    entry: Entry,
    proven: Badges,
    reruns: Sequence[Rerun],
    train_command: TrainCommandOf | None = None,
) -> FullRow:
    """Compute everything that the board shows about an entry.

    Args:
        entry: The accepted submission.
        proven: Its badges.
        reruns: The maintainers' reruns of it.
        train_command: Function from a training log to its command; None to show none.
    """
    submission, method = entry.submission, entry.submission.method
    stability, curves = _trainings(entry)
    foreign = foreign_stability_of(entry)
    data = submission.training_data
    note = "; ".join(f"{each.date}, {each.by}: {each.note}" for each in reruns) or None
    return FullRow(
        protocol=entry.protocol,
        id=entry.folder.name,
        name=submission.name,
        date=submission.date,
        authors=submission.authors,
        contact=submission.contact,
        kind=method.kind,
        recipe=method.recipe,
        track=track_name(track_of(entry)),
        description=method.description,
        code=method.code,
        paper=method.paper,
        base_model=submission.base_model,
        parameters=submission.parameters,
        init=_model(submission.init) if submission.init else None,
        training_data=DeclaredData(data.statement, data.training_streams, data.other)
        if data
        else None,
        choices=choices_of([point.log for point in entry.checkpoints if point.log]),
        badges=BoardBadges(**asdict(proven), rerun_note=note),
        checkpoints=tuple(_checkpoint(entry, point, train_command) for point in entry.checkpoints),
        panels=tuple(
            _numbers(entry, key, each, curves) for key, each in panel_results(entry).items()
        ),
        stability=stability,
        submission_sha256=hashlib.sha256((entry.folder / SUBMISSION).read_bytes()).hexdigest(),
        sparks=tuple(map(spark_of, curves)),
        foreign=stability_row(foreign) if foreign else None,
        plugins=plugins_of(point.log for point in entry.checkpoints),
        curves=curves,
        outcomes=tuple(_outcomes(entry, key) for key in entry.checkpoints[0].panels),
    )


def facts_of(entry: Entry) -> list[PanelFacts]:
    """Facts about the panels that an entry has played."""
    found = []
    for run in entry.checkpoints[0].runs:
        for protocol in run.manifest.panels:
            key = protocol.task, protocol.panel
            categories = {record.episode: record.category for record in _records(entry, key)}
            info = load_task(protocol.task).info
            found.append(
                PanelFacts(
                    task=protocol.task,
                    panel=protocol.panel,
                    title=info.presentation.title,
                    field=protocol.panel == (info.field_panel or "builtin"),
                    fingerprint=protocol.fingerprint,
                    protocol=canonical_json(protocol.facts),
                    category_name=info.presentation.category_name,
                    score_name=info.presentation.score_name,
                    score_unit=info.presentation.score_unit,
                    episodes=tuple(sorted(categories)),
                    categories=tuple(categories[episode] for episode in sorted(categories)),
                )
            )
    return found


def _records(entry: Entry, key: Key) -> list[EpisodeRecord]:
    """All records of a panel, over all checkpoints."""
    records = (record for run in entry.runs for record in run.records)
    return [record for record in records if (record.task, record.panel) == key]


def _model(model: ModelIdentity) -> Model:
    return Model(model.name, model.kind, model.revision, model.sha256)


def _checkpoint(
    entry: Entry, point: ReadCheckpoint, train_command: TrainCommandOf | None
) -> BoardCheckpoint:
    manifests = [run.manifest for run in point.runs]
    hashes = {file.path: file.sha256 for file in entry.submission.files}
    log = point.checkpoint.training_log
    seed, out = point.checkpoint.seed, reproduction_folder(entry.folder.name)
    commands = commands_of(seed, manifests, point.log, train_command, out)
    return BoardCheckpoint(
        seed=seed,
        model=_model(point.checkpoint.model),
        engines=tuple(dict.fromkeys(map(_engine, manifests))),
        commands=tuple(on_one_line(line, MAX_COMMAND) for line in commands.lines),
        log_sha256=hashes[log] if log is not None else None,
        agrees=agreement_text(TrainingResult.of(point, point.log).agreement) if point.log else None,
    )


def _engine(manifest: Manifest) -> str:
    facts = (manifest.engine.get(fact) for fact in ENGINE_FACTS)
    return on_one_line(" ".join(str(fact) for fact in facts if fact is not None))


def _numbers(
    entry: Entry, key: Key, result: PanelResult, curves: Sequence[SeedCurves]
) -> PanelNumbers:
    points = {point.checkpoint.seed: point.panels[key] for point in entry.checkpoints}
    summaries = list(points.values())
    plays = entry.plays(key)
    return PanelNumbers(
        task=key[0],
        panel=key[1],
        fingerprint=result.fingerprint,
        success=result.success.value,
        low=result.over_episodes.low,
        high=result.over_episodes.high,
        episodes=result.success.episodes,
        plays=len(next(iter(plays.values()))),
        seeds=tuple(
            SeedSuccess(seed, panel.success.value, panel.success.low, panel.success.high)
            for seed, panel in points.items()
        ),
        categories=tuple(_categories(entry, key, summaries[0])),
        score=fmean([panel.score.value for panel in summaries]),
        format_valid=result.format_valid,
        action_valid=fmean([panel.action_valid for panel in summaries]),
        turns=result.turns,
        errors=result.errors,
        dependable=_dependable(entry, key, curves),
    )


def _dependable(entry: Entry, key: Key, curves: Sequence[SeedCurves]) -> DependableSuccess | None:
    collapsed = {each.seed: each.collapsed for each in curves}
    known, holding = [], []
    for point in entry.checkpoints:
        lost = collapsed.get(point.checkpoint.seed)
        if lost is None:
            return None
        known.append(lost)
        if not lost:
            holding.append(plays_of(point.runs, key))
    found = dependable_success(known, _mean_success(holding) if holding else None)
    if found is None or found.low is None or found.high is None:
        return None
    return DependableSuccess(found.value, found.low, found.high)


def _mean_success(seeds: Sequence[Mapping[str, Sequence[bool]]]) -> Interval:
    """Mean success of checkpoints over episodes and seeds, from the plays of each."""
    plays = [[each for own in seeds for each in own[episode]] for episode in sorted(seeds[0])]
    rates = [fmean([fmean(own[episode]) for episode in own]) for own in seeds]
    return mean_success([Side.of(plays, rates if len(seeds) > 1 else ())])


def _categories(entry: Entry, key: Key, summary: PanelSummary) -> list[CategorySuccess]:
    """Success by category, over all checkpoints, with the same interval method as the panel."""
    plays: dict[str, dict[str, list[bool]]] = {each.category: {} for each in summary.categories}
    for record in _records(entry, key):
        plays[record.category].setdefault(record.episode, []).append(record.solved)
    found = []
    for category, episodes in plays.items():
        each = list(episodes.values())
        interval = clustered_wilson([sum(play) for play in each], [len(play) for play in each])
        found.append(
            CategorySuccess(category, interval.value, interval.low, interval.high, len(each))
        )
    return found


def _outcomes(entry: Entry, key: Key) -> Outcomes:
    plays = entry.plays(key)
    return Outcomes(*key, solved=tuple(sum(plays[episode]) for episode in sorted(plays)))


def _trainings(entry: Entry) -> tuple[Stability | None, tuple[SeedCurves, ...]]:
    """Stability and curves; neither unless every training run has a log."""
    found = stability_of(entry)
    if found is None:
        return None, ()
    logs = {point.log.start.seed: point.log for point in entry.checkpoints if point.log}
    stops = early_stops(entry)
    curves = [
        seed_curves(
            run_curves_of(logs[seed]), single, _validated(logs[seed], single), stops.get(seed)
        )
        for seed, single in zip(sorted(logs), found.runs, strict=True)
    ]
    return stability_row(found), tuple(curves)


def _validated(log: TrainingLog, stability: RunStability) -> str | None:
    """The panel of a log's success curve; with several tasks, all panels that it averages."""
    if stability.success_curve is None:
        return None
    if log.several_tasks:
        return f"mean of {', '.join(log.panels)}"
    panel = stability.success_curve.partition("@")[2] or log.panels[0]
    return f"{log.start.task}/{panel}"


def stability_row(found: RecipeStability) -> Stability:
    """The stability of a recipe whose runs all have seeds."""
    return Stability(
        seeds=tuple(run.seed for run in found.runs if run.seed is not None),
        columns=tuple(NamedValue(name, value) for name, value in found.columns.items()),
        numbers=tuple(_seed_numbers(name, each) for name, each in found.numbers.items()),
        events=tuple(_event_count(name, each) for name, each in found.events.items()),
        reached=tuple(ReachedLevel(**asdict(each)) for each in found.reached),
        dispersion_across_runs=found.dispersion_across_runs,
        survival=_survival(found.survival) if found.survival else None,
        halved=tuple(run.seed for run in found.runs if run.halved and run.seed is not None),
    )


def _event_count(name: str, summary: EventSummary) -> EventCount:
    rate = summary.rate
    return EventCount(
        name=name,
        happened=summary.happened,
        known=summary.known,
        rate=rate.value if rate else None,
        low=rate.low if rate else None,
        high=rate.high if rate else None,
    )


def _seed_numbers(name: str, summary: SeedSummary) -> SeedNumbers:
    median = summary.median
    return SeedNumbers(
        name=name,
        values=tuple(None if value is None else float(value) for value in summary.values),
        median=median.value if median else None,
        median_low=median.low if median else None,
        median_high=median.high if median else None,
        iqm=summary.iqm.value if summary.iqm else None,
        worst=None if summary.worst is None else float(summary.worst),
    )


def _survival(curve: SurvivalCurve) -> Survival:
    def bounded(values: Sequence[float]) -> tuple[float | None, ...]:
        return tuple(None if math.isnan(value) else value for value in values)

    return Survival(
        steps=tuple(curve.steps.tolist()),
        share=tuple(curve.survival.tolist()),
        low=bounded(curve.low.tolist()),
        high=bounded(curve.high.tolist()),
        at_risk=tuple(curve.at_risk.tolist()),
        happened=tuple(curve.happened.tolist()),
    )
