"""Settings, apart from those of the method, in which compared training runs differ."""

from collections.abc import Sequence
from typing import Any, Final

from benchmark.flat import flat
from benchmark.logs.lines import Start
from benchmark.track_schema import FREE, LEARNING_RATE, METHOD
from tasks.seeding import canonical_json
from tasks.texts import counted, cut

_APART: Final = (*METHOD, "recipe", "seed", "validation", "optimization.updates")
"""What may differ: the method, and how long and how often a run was looked at."""
_SHOWN: Final = 6
_MAX_TEXT: Final = 24
"""Characters of a value: a log may come from somebody else."""


def unequal_settings(starts: Sequence[Start]) -> str:
    """What else than the method may explain a difference between runs, in one sentence.

    Args:
        starts: First lines of their logs.

    Returns:
        The settings that all logs have, and not with one value; empty if there is none, and for
        runs on one track, which leaves nothing but the method and a tuned learning rate.
    """
    tracks = {start.track.sha256 if start.track else None for start in starts}
    if len(tracks) == 1 and None not in tracks:
        return ""
    runs = [_settings(start) for start in starts]
    parts = []
    for name in sorted(runs[0] if runs else (), key=lambda each: each != LEARNING_RATE):
        if all(name in run for run in runs):
            values = dict.fromkeys(cut(_text(run[name]), _MAX_TEXT) for run in runs)
            if len({canonical_json(run[name]) for run in runs}) > 1:
                parts.append(f"{name} ({' or '.join(values)})")
    if not parts:
        return ""
    more = f" and {counted(len(parts) - _SHOWN, 'more setting')}" if len(parts) > _SHOWN else ""
    return f"not only the method differs: {', '.join(parts[:_SHOWN])}{more}"


def _settings(start: Start) -> dict[str, Any]:
    """All that can move a result and is not the method's, by dotted name."""
    found = {"init": start.init.sha256 or start.init.name} | flat(start.configuration)
    return {
        name: value
        for name, value in found.items()
        if name not in FREE and not any(f"{name}.".startswith(f"{each}.") for each in _APART)
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else canonical_json(value)
