"""Past and future cost of a study, from measured runs; unmeasured costs are estimates."""

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from baselines.config.layers import RECIPES, names, read_recipe
from baselines.study.cells import Finished
from baselines.study.current_tracks import CurrentTrack
from baselines.study.custom import SHIPPED_ONLY, CustomMethods
from baselines.study.schema import INIT, Cell
from benchmark.logs.training_log import TrainingLog
from benchmark.track_schema import RateGrid
from tasks.texts import counted

RESAMPLED = 2.0
"""Assumed ratio of episodes with dynamic sampling to those without, if not measured: 34 to 17 CPU
seconds per update were measured for SAMPO and GSPO on Sokoban."""


@dataclass(frozen=True, slots=True)
class TimeLeft:
    """Remaining cost.

    Attributes:
        cpu_seconds: CPU time.
        measured: Number of cells whose cost comes from a finished cell or the track's measurement.
        unknown: Number of cells with unknown cost, which are not in the sum.
    """

    cpu_seconds: float
    measured: int
    unknown: int

    def text(self, jobs: int) -> str:
        """One human-readable line.

        Args:
            jobs: Number of concurrent runs.
        """
        if not self.measured and not self.unknown:
            return "only inits are left to be played, which takes minutes"
        if not self.measured:
            return "the remaining time cannot be estimated yet: no similar run has finished"
        text = f"about {duration(self.cpu_seconds)} of CPU time left"
        if jobs > 1:
            text += f", {duration(self.cpu_seconds / jobs)} at {jobs} jobs"
        if self.unknown:
            text += f", and {counted(self.unknown, 'run')} of unknown cost"
        return text


def estimate(
    cells: Sequence[Cell],
    finished: Sequence[Finished],
    current_tracks: Mapping[str, CurrentTrack],
    cpu_minutes: Mapping[str, float | None],
    custom: CustomMethods = SHIPPED_ONLY,
) -> TimeLeft:
    """Estimate the cost of cells.

    Args:
        cells: Remaining cells; playing a panel with an init costs almost nothing.
        finished: Measured cells.
        current_tracks: The tracks.
        cpu_minutes: Measured cost of one run of each track, from the index.
        custom: Methods that are not shipped.
    """
    tuned = {(each.cell.track, each.cell.recipe) for each in finished}
    total, known = 0.0, 0
    trained = [cell for cell in cells if cell.recipe != INIT]
    for cell in trained:
        seconds = cost(cell, finished, current_tracks, cpu_minutes, custom)
        if seconds is None:
            continue
        method = cell.track, cell.recipe
        if method not in tuned:
            seconds *= 1 + _tuning_share(current_tracks[cell.track])
            tuned.add(method)
        total, known = total + seconds, known + 1
    return TimeLeft(total, known, len(trained) - known)


def spent(
    finished: Sequence[Finished], current_tracks: Mapping[str, CurrentTrack]
) -> dict[str, float]:
    """CPU seconds of finished cells by training tasks, including tuning and evaluation.

    Args:
        finished: The finished cells.
        current_tracks: The tracks; a track with several tasks counts for all of them together.
    """
    seconds: dict[str, float] = defaultdict(float)
    for each in finished:
        tasks = current_tracks[each.cell.track].track.tasks
        seconds[" + ".join(tasks)] += sum(each.facts.cpu_seconds.values())
    return dict(seconds)


def cost(
    cell: Cell,
    finished: Sequence[Finished],
    current_tracks: Mapping[str, CurrentTrack],
    cpu_minutes: Mapping[str, float | None],
    custom: CustomMethods = SHIPPED_ONLY,
) -> float | None:
    """CPU seconds that a cell will take, without tuning; None if unknown.

    Estimated from the track's finished cells of the recipe; else from its other cells, or else from
    the index, scaled by the recipe's relative number of episodes.
    """
    own = [each for each in finished if each.cell.track == cell.track]
    same = [each for each in own if each.cell.recipe == cell.recipe]
    if same:
        return statistics.fmean(each.facts.own_seconds for each in same)
    relative = partial(
        relative_episodes, finished=finished, current_tracks=current_tracks, custom=custom
    )
    mine = relative(cell.recipe)
    if others := [each for each in own if each.cell.recipe != INIT]:
        plain = (each.facts.own_seconds / relative(each.cell.recipe) for each in others)
        return statistics.fmean(plain) * mine
    minutes = cpu_minutes.get(cell.track)
    return None if minutes is None else 60 * minutes * mine


def relative_episodes(
    recipe: str,
    finished: Sequence[Finished],
    current_tracks: Mapping[str, CurrentTrack],
    custom: CustomMethods = SHIPPED_ONLY,
) -> float:
    """A recipe's episodes relative to its track's plan without dynamic sampling."""
    ratios = [
        episodes_of(each.log)
        / (len(each.log.updates) * current_tracks[each.cell.track].episodes_per_update)
        for each in finished
        if each.log is not None and each.cell.recipe == recipe and each.cell.track in current_tracks
    ]
    if ratios:
        return statistics.fmean(ratios)
    resamples = recipe in _dynamic(custom)
    return RESAMPLED if resamples else 1.0


def episodes_of(log: TrainingLog) -> int:
    """Number of training episodes that a run has played."""
    return round(sum(line.values.get("rollout/episodes", 0.0) for line in log.updates))


def duration(seconds: float) -> str:
    """`45 s`, `12 min`, `3.4 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _tuning_share(current_track: CurrentTrack) -> float:
    """Updates of the tuning runs relative to those of a run."""
    rule = current_track.track.learning_rate
    return (
        len(rule.grid) * rule.updates / current_track.updates if isinstance(rule, RateGrid) else 0.0
    )


def _dynamic(custom: CustomMethods) -> frozenset[str]:
    """Recipes with dynamic sampling."""
    given = {name: custom.recipe(name) for name in (*names(RECIPES), *custom.methods)}
    found = {name: read_recipe(each).get("sampling") or {} for name, each in given.items()}
    return frozenset(name for name, sampling in found.items() if "dynamic" in sampling)
