"""Checks that an entry's training runs are on the track that their logs claim."""

from collections.abc import Iterator
from typing import Final

from benchmark.logs.training_log import TrainingLog
from benchmark.submissions.checks.context import Context
from benchmark.submissions.format.findings import Finding
from benchmark.submissions.reading.entry import Entry
from benchmark.submissions.training_logs.counts import AS_WRITTEN
from benchmark.track_schema import OPEN, TrackClaim, deviations
from tasks.errors import suggestion
from tasks.texts import digest_text

MAX_SHOWN: Final = 10
"""Maximum number of a log's deviations to list; the others are counted."""
_FIELD: Final = "line 1, track"


def track_of(entry: Entry) -> TrackClaim | None:
    """The track of an entry; None for an open one.

    Entries are open if they have no log, or if their logs do not all claim the same track.
    """
    claims = {point.log.start.track if point.log else None for point in entry.checkpoints}
    return claims.pop() if len(claims) == 1 else None


def check_tracks(entry: Entry, context: Context) -> Iterator[Finding]:
    """Compare every log with the track and the recipe that it claims."""
    logs = [point.log for point in entry.checkpoints if point.log is not None]
    for log in logs:
        claim, first = log.start.track, logs[0]
        if claim is not None:
            yield from _check_claim(log, claim, context)
        if claim != first.start.track:
            problem = f"is on track {_name(log)}, but {first.path} is on {_name(first)}"
            fix = "send only seeds of one track in an entry"
            yield Finding(str(log.path), _FIELD, problem, fix)


def _check_claim(
    log: TrainingLog,
    claim: TrackClaim,
    context: Context,
) -> Iterator[Finding]:
    tracks = context.tracks
    file, track = str(log.path), tracks.get(claim.name)
    if track is None:
        problem = (
            f"claims track {claim.name}, which does not exist{suggestion(claim.name, (*tracks,))}"
        )
        yield Finding(file, _FIELD, problem, "train on a track listed by `arlarena-bench tracks`")
        return
    if track.sha256 != claim.sha256:
        problem = (
            f"claims track {claim.name} with SHA-256 {digest_text(claim.sha256)}, but the "
            f"current one has {digest_text(track.sha256)}: it has changed since"
        )
        yield Finding(file, _FIELD, problem, "train on the current version of the track")
        return
    found = deviations(track, log.start)
    for text in found[:MAX_SHOWN]:
        problem = f"claims track {claim.name}, but {text}"
        yield Finding(file, "line 1, configuration", problem, AS_WRITTEN)
    if len(found) > MAX_SHOWN:
        problem = f"claims track {claim.name}, but {len(found)} settings differ from it"
        yield Finding(file, "line 1, configuration", problem, AS_WRITTEN)
    if found:
        return
    for look in (context.method_fault, context.rate_fault):
        if look is not None and (fault := look(track, log.start)) is not None:
            fix = "train the recipe as the track does, under its name; another method needs another"
            yield Finding(file, "line 1, recipe", fault, fix)
            return


def _name(log: TrainingLog) -> str:
    claim = log.start.track
    return OPEN if claim is None else f"{claim.name} ({digest_text(claim.sha256)})"
