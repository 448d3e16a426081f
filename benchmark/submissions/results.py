"""The numbers of a submission: success on every panel, stability, and differences to others."""

from collections.abc import Mapping
from dataclasses import dataclass

from benchmark.metrics import Estimate, PanelKey
from benchmark.run_curves import run_curves_of
from benchmark.stability.seeds import RecipeStability, recipe_stability
from benchmark.statistics import Interval, bootstrap_mean, clustered_wilson, sign_flip
from benchmark.submissions.entry import Entry


@dataclass(frozen=True, slots=True)
class PanelResult:
    """A submission on one panel.

    Attributes:
        fingerprint: The panel's protocol.
        success: Mean over the checkpoints, with an interval over the panel's episodes: it says
            which levels the panel happens to have, not which seeds training happened to have.
        seeds: Success of every checkpoint, by seed.
        format_valid: Share of valid responses, mean over the checkpoints.
        turns: Mean number of turns of an episode.
        errors: Episodes that ended in an error, of all checkpoints; they count as failures.
    """

    fingerprint: str
    success: Estimate
    seeds: Mapping[int, float]
    format_valid: float
    turns: float
    errors: int


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """One submission minus another on the episodes of a panel.

    Attributes:
        difference: Of success, with a bootstrap interval over episodes.
        p_value: Of no difference, sign-flip test over episodes.
        episodes: That both have played.
    """

    difference: Interval
    p_value: float
    episodes: int


def panel_results(entry: Entry) -> dict[PanelKey, PanelResult]:
    """The numbers of all panels, over all checkpoints."""
    results = {}
    for key, first in entry.checkpoints[0].panels.items():
        panels = {point.checkpoint.seed: point.panels[key] for point in entry.checkpoints}
        plays = list(entry.plays(key).values())
        interval = clustered_wilson([sum(each) for each in plays], [len(each) for each in plays])
        count = len(panels)
        results[key] = PanelResult(
            fingerprint=first.fingerprint,
            success=Estimate(interval.value, interval.low, interval.high, len(plays)),
            seeds={seed: panel.success.value for seed, panel in panels.items()},
            format_valid=sum(panel.format_valid for panel in panels.values()) / count,
            turns=sum(panel.turns for panel in panels.values()) / count,
            errors=sum(panel.errors for panel in panels.values()),
        )
    return results


def stability_of(entry: Entry) -> RecipeStability | None:
    """The stability of the trainings behind a submission; None without logs."""
    logs = [point.log for point in entry.checkpoints]
    if not logs or None in logs:
        return None
    return recipe_stability([run_curves_of(log) for log in logs if log is not None])


def paired_difference(entry: Entry, other: Entry, key: PanelKey) -> PairedDifference | None:
    """Compare two submissions episode by episode; None if they have not played the same panel."""
    fingerprints = [e.checkpoints[0].panels.get(key) for e in (entry, other)]
    if None in fingerprints or len({p.fingerprint for p in fingerprints if p}) > 1:
        return None
    mine, theirs = entry.plays(key), other.plays(key)
    common = sorted(mine.keys() & theirs.keys())
    differences = [
        sum(mine[name]) / len(mine[name]) - sum(theirs[name]) / len(theirs[name]) for name in common
    ]
    return PairedDifference(bootstrap_mean(differences), sign_flip(differences), len(common))
