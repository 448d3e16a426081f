"""Sweeps: variants of a track with other learning rates, and other settings."""

from collections.abc import Iterable

from benchmark.track_schema import FixedRate, Track


def sweeps_of(tracks: Iterable[Track]) -> dict[str, tuple[Track, ...]]:
    """The sweeps among some tracks: each base track with its variants, by the base's name.

    A sweep has several learning rates, each fixed. Model and episodes are the same on all of its
    tracks, so only settings can affect success.
    """
    tracks = list(tracks)
    families = {
        base.name: (base, *(track for track in tracks if _is_point(track, base)))
        for base in tracks
        if base.base is None
    }
    return {
        name: family
        for name, family in families.items()
        if len({track.learning_rate.rates for track in family}) > 1
    }


def points_of_sweeps(tracks: Iterable[Track]) -> set[str]:
    """Names of the tracks that exist to add a point to a sweep's curve."""
    return {track.name for _, *points in sweeps_of(tracks).values() for track in points}


def _is_point(track: Track, base: Track) -> bool:
    """Whether a track is a variant that is comparable with its base."""
    rates = all(isinstance(each.learning_rate, FixedRate) for each in (track, base))
    parts = [
        (each.init, each.tasks, each.task_settings, each.settings["validation"])
        for each in (track, base)
    ]
    return track.base == base.name and rates and parts[0] == parts[1]
