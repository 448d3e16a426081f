"""Rewrites baselines/tracks/index.yaml from the tracks as their files are now.

    python scripts/pin_tracks.py

Run it after a track was edited on purpose. It fails on a track that leaves a setting of the trainer
out. Measured CPU minutes stay with tracks that did not change; those of the others become null, to
be measured again and written into the index by hand.
"""

import sys

from baselines.tracks import registry as tracks
from benchmark.files import write_atomically
from tasks.errors import UserError


def main() -> int:
    """Rewrite the index."""
    try:
        index = tracks.pinned_index()
    except UserError as error:
        print(f"pin_tracks: {error}", file=sys.stderr)
        return 2
    write_atomically(tracks.TRACKS / tracks.INDEX, tracks.index_text(index).encode())
    unmeasured = [name for name, pin in index.items() if pin.cpu_minutes is None]
    print(f"{len(index)} tracks pinned; without measured CPU minutes: {', '.join(unmeasured)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
