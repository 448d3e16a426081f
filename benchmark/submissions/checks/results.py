"""The results of a submission: success per panel, stability, and differences from others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from benchmark.evaluation.summary import MeanInterval, PanelKey
from benchmark.logs.curves import run_curves_of
from benchmark.logs.lines import TrackClaim
from benchmark.logs.training_log import TrainingLog
from benchmark.models import ModelIdentity
from benchmark.stability.run_end import early_stop, schedule_of
from benchmark.stability.seeds import RecipeStability, recipe_stability, with_early_stops
from benchmark.stats.intervals import Interval
from benchmark.stats.paired import PairedDifference, Side, mean_success
from benchmark.submissions.checks.tracks import track_of
from benchmark.submissions.reading.entry import Entry, ReadCheckpoint
from benchmark.submissions.training_logs.panels import matched_panels

_SAME: Final = 1e-9
"""Success rates closer than this are equal, because they are counts of the same episodes."""


@dataclass(frozen=True, slots=True)
class PanelResult:
    """A submission's results on one panel.

    Attributes:
        fingerprint: Fingerprint of the panel's protocol.
        success: Mean over the checkpoints, with an interval over the panel's episodes and, if there
            are several checkpoints, over seeds.
        over_episodes: The same with an interval over episodes only, for exactly these checkpoints.
        seeds: Success of every checkpoint, by seed.
        format_valid: Share of valid responses, as a mean over the checkpoints.
        turns: Mean number of turns per episode; errors count as the maximum.
        errors: Number of episodes of all checkpoints that ended in an error; these count as
            failures.
    """

    fingerprint: str
    success: MeanInterval
    over_episodes: Interval
    seeds: Mapping[int, float]
    format_valid: float
    turns: float
    errors: int


@dataclass(frozen=True, slots=True)
class PeerPanel:
    """Another submission's results on one panel.

    Attributes:
        fingerprint: Fingerprint of the panel's protocol.
        success: Mean over the checkpoints.
        plays: Outcomes by episode, over all checkpoints and repeats.
        seeds: Success of every checkpoint.
    """

    fingerprint: str
    success: float
    plays: Mapping[str, Sequence[bool]]
    seeds: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Peer:
    """Summary of another submission for comparisons, without its records.

    Attributes:
        folder: Name of its folder.
        name: Its name on the leaderboard.
        trained: Whether its weights were trained.
        track: Name and hash of the track that it was trained on; None for an open one.
        model: The weights of its first checkpoint.
        protocol: Name of its runs' protocol.
        panels: Its results by panel.
    """

    folder: str
    name: str
    trained: bool
    track: TrackClaim | None
    model: ModelIdentity
    protocol: str
    panels: Mapping[PanelKey, PeerPanel]

    @classmethod
    def of(cls, entry: Entry) -> "Peer":
        """Summarize an entry."""
        panels = {}
        for key, first in entry.checkpoints[0].panels.items():
            seeds = _seeds(entry, key)
            success = sum(seeds) / len(seeds)
            panels[key] = PeerPanel(first.fingerprint, success, entry.plays(key), seeds)
        said = entry.submission
        model = entry.checkpoints[0].checkpoint.model
        trained = said.method.kind == "trained"
        return cls(
            folder=entry.folder.name,
            name=said.name,
            trained=trained,
            track=track_of(entry),
            model=model,
            protocol=entry.protocol,
            panels=panels,
        )


@dataclass(frozen=True, slots=True)
class Agreement:
    """The validations of a training run that agree with the evaluated checkpoint's success.

    Attributes:
        updates: Updates of these validations, ascending; the nearest ones if none is equal.
        last: Update of the last validation.
        gap: Success of the checkpoint minus that of the validations; 0.0 if they are equal.
        panels: Panels that both have played, as `task/panel`.
    """

    updates: tuple[int, ...]
    last: int
    gap: float
    panels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """Facts about a training run from its log.

    Attributes:
        recipe: Name of the recipe in the log.
        updates: Last update.
        planned: Number of updates in the configuration; None if it is missing or unreadable.
        validations: Number of updates with a validation, including the init's.
        agreement: Agreement with the evaluated checkpoint; None without a common panel on which
            both sampled tokens in the same way.
    """

    recipe: str
    updates: int
    planned: int | None
    validations: int
    agreement: Agreement | None

    @classmethod
    def of(cls, point: ReadCheckpoint, log: TrainingLog) -> "TrainingResult":
        """Collect the facts from a log."""
        schedule = schedule_of(log)
        return cls(
            recipe=log.start.recipe,
            updates=log.updates[-1].update if log.updates else 0,
            planned=None if schedule is None else schedule.updates,
            validations=len({line.update for line in log.validations}),
            agreement=_agreement(point, log),
        )


def panel_results(entry: Entry) -> dict[PanelKey, PanelResult]:
    """Compute the results on all panels, over all checkpoints."""
    results = {}
    for key, first in entry.checkpoints[0].panels.items():
        panels = {point.checkpoint.seed: point.panels[key] for point in entry.checkpoints}
        plays = list(entry.plays(key).values())
        side = Side.of(plays, _seeds(entry, key))
        success = mean_success([side])
        count = len(panels)
        results[key] = PanelResult(
            fingerprint=first.fingerprint,
            success=MeanInterval(success.value, success.low, success.high, len(plays)),
            over_episodes=side.success,
            seeds={seed: panel.success.value for seed, panel in panels.items()},
            format_valid=sum(panel.format_valid for panel in panels.values()) / count,
            turns=sum(_turns(point, key) for point in entry.checkpoints) / count,
            errors=sum(panel.errors for panel in panels.values()),
        )
    return results


def _turns(point: ReadCheckpoint, key: PanelKey) -> float:
    """Mean turns per episode; an episode that ended in an error counts as the maximum.

    Otherwise errors in place of long failures would make an entry look quicker.
    """
    panel = point.panels[key]
    if not panel.errors:
        return panel.turns
    (limit,) = (
        protocol.max_turns
        for run in point.runs
        for protocol in run.manifest.panels
        if (protocol.task, protocol.panel) == key
    )
    records = [
        record for run in point.runs for record in run.records if (record.task, record.panel) == key
    ]
    turns = [limit if record.error is not None else len(record.turns) for record in records]
    return sum(turns) / len(turns)


def _agreement(point: ReadCheckpoint, log: TrainingLog) -> Agreement | None:
    """Compare every validation with the evaluation; the panel with the largest gap counts."""
    gaps: dict[int, list[float]] = {}
    ties = {panel: tie for panel, tie in matched_panels(point, log).items() if tie.comparable}
    for panel, tie in ties.items():
        for line in log.of_panel(panel):
            gaps.setdefault(line.update, []).append(tie.summary.success.value - line.success)
    widest = {
        update: max(of, key=abs) for update, of in gaps.items() if len(of) == len(ties)
    }  # fmt: skip
    if not widest:
        return None
    nearest = min(map(abs, widest.values()))
    updates = sorted(update for update, gap in widest.items() if abs(gap) <= nearest + _SAME)
    return Agreement(
        updates=tuple(updates),
        last=max(widest),
        gap=0.0 if nearest <= _SAME else widest[updates[0]],
        panels=tuple(f"{tie.protocol.task}/{tie.protocol.panel}" for tie in ties.values()),
    )


def stability_of(entry: Entry) -> RecipeStability | None:
    """The stability of the training runs behind a submission; None without logs.

    A training run that was stopped early counts as collapsed, whatever the reason, because its
    further course is unknown.
    """
    logs = [point.log for point in entry.checkpoints if point.log is not None]
    if not logs or len(logs) < len(entry.checkpoints):
        return None
    stability = recipe_stability([run_curves_of(log) for log in logs])
    stops = early_stops(entry)
    ends = {log.start.seed: log.updates[-1].update for log in logs if log.start.seed in stops}
    return with_early_stops(stability, [ends.get(run.seed or 0) for run in stability.runs])


def foreign_stability_of(entry: Entry) -> RecipeStability | None:
    """Like `stability_of`, from logs of another trainer; None unless every training has one.

    The two are never shown side by side: these logs do not contain what was validated, nor the
    planned length.
    """
    found = [point.foreign for point in entry.checkpoints if point.foreign is not None]
    if len(found) < len(entry.checkpoints):
        return None
    resolutions = [reading.resolution for reading in found]
    return recipe_stability([reading.run for reading in found], resolutions=resolutions)


def early_stops(entry: Entry) -> dict[int, str]:
    """Reasons why training runs ended before the configured number of updates, by seed."""
    logs = [point.log for point in entry.checkpoints if point.log is not None]
    found = {log.start.seed: early_stop(log) for log in logs}
    return {seed: reason for seed, reason in found.items() if reason is not None}


def paired_difference(
    entry: Entry | Peer, other: Entry | Peer, key: PanelKey
) -> PairedDifference | None:
    """Compare two submissions episode by episode; None if they have not played the same panel."""
    mine, theirs = _played(entry, key), _played(other, key)
    if mine is None or theirs is None or mine[0] != theirs[0]:
        return None
    common = sorted(mine[1].keys() & theirs[1].keys())
    one, another = (
        Side.of([plays[name] for name in common], seeds) for _, plays, seeds in (mine, theirs)
    )
    return PairedDifference.of(one, another)


def _played(
    entry: Entry | Peer, key: PanelKey
) -> tuple[str, Mapping[str, Sequence[bool]], tuple[float, ...]] | None:
    """A panel's protocol, its plays and the checkpoints' success; None if it was not played."""
    if isinstance(entry, Peer):
        kept = entry.panels.get(key)
        return None if kept is None else (kept.fingerprint, kept.plays, kept.seeds)
    panel = entry.checkpoints[0].panels.get(key)
    return None if panel is None else (panel.fingerprint, entry.plays(key), _seeds(entry, key))


def _seeds(entry: Entry, key: PanelKey) -> tuple[float, ...]:
    points = entry.checkpoints
    return tuple(point.panels[key].success.value for point in points if key in point.panels)
