"""Flattens nested settings to dotted names."""

from collections.abc import Mapping
from typing import Any


def flat(fields: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested mappings: `{"a": {"b": 1}}` gives `{"a.b": 1}`; an empty one gives nothing."""
    found: dict[str, Any] = {}
    for name, value in fields.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = value
    return found


def tracker_values(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Flat settings as trackers take them: lists as text, null as `none`."""
    return {
        name: str(value) if isinstance(value, list | tuple) else "none" if value is None else value
        for name, value in flat(fields).items()
    }
