"""Rewrites baselines/tracks/index.yaml from the current files of the tracks.

    python scripts/pin_tracks.py

Run it after intentionally editing a track, and after adding cells to baselines/results. It fails if
a track omits a setting of the trainer. CPU minutes are the median over a track's finished runs,
including evaluation but not tuning. Without such runs the value stays, or becomes null if the track
has changed.
"""

import statistics
import sys

from baselines.study.cells import cells_there, read_cell
from baselines.tracks import registry as tracks
from benchmark.files import write_atomically
from tasks.errors import UserError


def measured_minutes(track: str, sha256: str) -> float | None:
    """Median CPU time of a track's finished runs, in minutes; None if there are none.

    Args:
        track: Its name.
        sha256: Its hash; cells of another version do not count.

    Raises:
        UserError: A cell is damaged.
    """
    cells = (read_cell(tracks.RESULTS, cell) for cell in cells_there(tracks.RESULTS, track))
    facts = [cell.facts for cell in cells if cell is not None]
    seconds = [each.own_seconds for each in facts if each.track.sha256 == sha256]
    return round(statistics.median(seconds) / 60, 1) if seconds else None


def main() -> int:
    """Rewrite the index."""
    try:
        index = {}
        for name, pin in tracks.pinned_index().items():
            minutes = measured_minutes(name, pin.sha256)
            index[name] = (
                pin if minutes is None else pin.model_copy(update={"cpu_minutes": minutes})
            )
    except UserError as error:
        print(f"pin_tracks: {error}", file=sys.stderr)
        return 2
    write_atomically(tracks.TRACKS / tracks.INDEX, tracks.index_text(index).encode())
    unmeasured = [name for name, pin in index.items() if pin.cpu_minutes is None]
    print(f"{len(index)} tracks pinned; without measured CPU minutes: {', '.join(unmeasured)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
