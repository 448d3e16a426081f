"""The runs of a study as input for early warning."""

from collections.abc import Mapping

from baselines.study.methods import TrackResults, collapse_of, shows_collapse
from benchmark.logs.curves import run_curves_of
from benchmark.logs.equal_progress import SUCCESS
from benchmark.stability.collapse import fall_update
from benchmark.stability.early_warning import WatchedRun


def watched_runs(found: Mapping[str, TrackResults]) -> tuple[WatchedRun, ...]:
    """The finished runs of all tracks.

    A run that ended early fell at its end, unless its curve shows where. Tracks with too few
    validations to show that a run has not collapsed are left out, including their collapsed runs.
    """
    runs = []
    for track, results in found.items():
        if not results.shows_collapses:
            continue
        for method in results.methods.values():
            for log in filter(shows_collapse, method.logs):
                collapse, fall = collapse_of(log), fall_update(log)
                fall = collapse if fall is None else fall
                curves = run_curves_of(log).curves
                played = curves[SUCCESS].steps.tolist()
                before = [at for at in played if fall is not None and at < fall]
                unfallen = max(before, default=None)
                runs.append(
                    WatchedRun(
                        track, method.recipe, log.start.seed, curves, collapse, fall, unfallen
                    )
                )
    return tuple(runs)


def halved_runs(found: Mapping[str, TrackResults]) -> frozenset[tuple[str, str, int]]:
    """Track, recipe and seed of runs that lost half without a collapse (`RecipeRuns.halved`)."""
    return frozenset(
        (track, method.recipe, seed)
        for track, results in found.items()
        for method in results.methods.values()
        for seed in method.halved
    )
