"""Tracks and methods in an overview: kinds of tracks by task, and methods with the most runs."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from baselines.study.current_tracks import CurrentTrack
from baselines.study.methods import TrackResults
from baselines.tracks.sweeps import points_of_sweeps
from benchmark.track_schema import Track

MOST_METHODS: Final = 6
"""Maximum methods in a figure and on a first page: more could not be distinguished."""


def most_run(found: Mapping[str, TrackResults], tracks: Iterable[str]) -> list[str]:
    """The `MOST_METHODS` methods with runs on the most tracks, in the order of the study."""
    counts = Counter(
        method.recipe
        for track in dict.fromkeys(tracks)
        if track in found
        for method in found[track].methods.values()
        if method.runs
    )
    # Ties follow the study's order, which `most_common` keeps.
    most = {recipe for recipe, _ in counts.most_common(MOST_METHODS)}
    return [recipe for recipe in counts if recipe in most]


def axes_of(current_tracks: Mapping[str, CurrentTrack]) -> tuple[list[str], list[str]]:
    """Kinds of tracks (`standard`, `stress`) and tasks, in the order of the study."""
    tracks = [current_track.track for current_track in _shown(current_tracks).values()]
    kinds = dict.fromkeys(map(_kind, tracks))
    tasks = dict.fromkeys(task for track in tracks for task in track.tasks)
    return list(kinds), list(tasks)


def grid_of(
    current_tracks: Mapping[str, CurrentTrack], kinds: Sequence[str]
) -> dict[str, dict[str, str]]:
    """Names of the tracks of each kind by task, in the order of the tasks.

    A track with several tasks is listed at each of them.
    """
    _, tasks = axes_of(current_tracks)
    names = {
        (_kind(each.track), task): name
        for name, each in current_tracks.items()
        for task in each.track.tasks
    }
    return {
        kind: {task: names[kind, task] for task in tasks if (kind, task) in names} for kind in kinds
    }


def _shown(current_tracks: Mapping[str, CurrentTrack]) -> Mapping[str, CurrentTrack]:
    """All tracks except those that only add a point to a curve over learning rates."""
    points = points_of_sweeps(each.track for each in current_tracks.values())
    return {name: each for name, each in current_tracks.items() if name not in points}


def _kind(track: Track) -> str:
    """A track's name without its task; the full name for several tasks."""
    return track.name if len(track.tasks) > 1 else track.name.removeprefix(f"{track.tasks[0]}-")
