"""Sweeps: tracks that vary one of them in its learning rate, and in other settings."""

from collections.abc import Iterable

from benchmark.track_schema import FixedRate, Track


def sweeps_of(tracks: Iterable[Track]) -> dict[str, tuple[Track, ...]]:
    """The sweeps among some tracks: each track that others vary, and these, by its name.

    A sweep has several learning rates, each fixed. What trains and what is played is the same on
    all of its tracks, so that only settings can move success.
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
    """Names of the tracks that are there to add a point to a sweep's curve."""
    return {track.name for _, *points in sweeps_of(tracks).values() for track in points}


def _is_point(track: Track, base: Track) -> bool:
    """Whether a track varies another one so that both are comparable."""
    rates = all(isinstance(each.learning_rate, FixedRate) for each in (track, base))
    parts = [
        (each.init, each.tasks, each.task_settings, each.settings["validation"])
        for each in (track, base)
    ]
    return track.base == base.name and rates and parts[0] == parts[1]
