"""accelerate's trackers: which there are, and settings in the form that they want."""

from collections.abc import Sequence
from typing import Any

from accelerate.tracking import get_available_trackers

from tasks.errors import UserError, near


def check_trackers(names: Sequence[str]) -> None:
    """See that trackers can be used.

    Raises:
        UserError: One is not installed; near matches are named.
    """
    known = tuple(str(tracker) for tracker in get_available_trackers())
    for name in names:
        if name not in known:
            raise UserError(f"tracker {name!r} is not installed{near(name, known)}")


def flat(value: Any, prefix: str = "") -> dict[str, Any]:
    """Flatten nested settings: `{"a": {"b": 1}}` gives `{"a.b": 1}`."""
    if isinstance(value, list | tuple):
        return {prefix: str(value)}
    if not isinstance(value, dict):
        return {prefix: value if value is not None else "none"}
    return {
        key: leaf
        for name, part in value.items()
        for key, leaf in flat(part, f"{prefix}.{name}" if prefix else str(name)).items()
    }
