"""The four choices of a recipe, from the start line of its training log and from nothing else."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from benchmark.training_log import TrainingLog
from leaderboard.rows import Choices

UNKNOWN: Final = Choices(None, None, None, None)
PLAIN: Final = "plain"
"""Sampling without anything beyond drawing groups."""
_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+@-]{0,39}")


def choices_of(logs: Sequence[TrainingLog]) -> Choices:
    """What the logs of an entry say; what they do not say, or not alike, is unknown.

    The form is that of this project's configurations: `advantage` and `clipping` are mappings with
    a `name`, `aggregation` is a word, `sampling` names what is beyond plain sampling with its
    settings, or null where it is off. A clipping's `sequence_mask` is named with it: the two
    make different losses.

    Args:
        logs: Of all checkpoints.
    """
    found = {_choices(log.start.configuration) for log in logs}
    return found.pop() if len(found) == 1 else UNKNOWN


def _choices(configuration: Mapping[str, Any]) -> Choices:
    return Choices(
        advantage=_named(configuration.get("advantage")),
        clipping=_clipping(configuration.get("clipping")),
        aggregation=_word(configuration.get("aggregation")),
        sampling=_sampling(configuration.get("sampling")),
    )


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) and _WORD.fullmatch(value) else None


def _named(part: Any) -> str | None:
    return _word(part.get("name")) if isinstance(part, Mapping) else None


def _clipping(part: Any) -> str | None:
    name = _named(part)
    if name is None or "sequence_mask" not in part:
        # Whether there was a mask is not said: half a name would be a guess.
        return None
    return name if part["sequence_mask"] is None else f"{name} + sequence mask"


def _sampling(part: Any) -> str | None:
    if not isinstance(part, Mapping) or not part:
        return None
    names = [_word(name) for name, settings in part.items() if settings is not None]
    if None in names:
        return None
    return " + ".join(sorted(name for name in names if name)) or PLAIN
