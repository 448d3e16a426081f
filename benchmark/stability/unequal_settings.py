"""Settings other than the method's in which compared training runs differ."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from benchmark.flat import flat
from benchmark.logs.lines import Start
from benchmark.track_schema import FREE, LEARNING_RATE, METHOD
from tasks.seeding import canonical_json
from tasks.texts import ELLIPSIS, counted, cut, digest_text, printable

_APART: Final = (*METHOD, "recipe", "seed", "validation")
"""Settings that may differ: the method, and how often a run was validated."""
_UPDATES: Final = "optimization.updates"
_SCHEDULE: Final = "optimization.schedule"
_SHOWN: Final = 12
"""Maximum settings shown on the terminal."""
_VALUES: Final = 3
"""Maximum values shown of one setting."""
_MAX_TEXT: Final = 24
"""Maximum characters of a value: a log may come from somebody else."""
_UNSET: Final = "not set"


@dataclass(frozen=True, slots=True)
class UnequalSettings:
    """Settings that do not have the same value in all runs.

    Attributes:
        beside_methods: The methods differ as well.
        values: Values of each, such as `1 or 2`, by dotted name. Settings that some logs lack come
            last, since logs omit defaults. Names and values are untrusted text.
    """

    beside_methods: bool
    values: Mapping[str, str]

    @property
    def head(self) -> str:
        """The heading of the settings."""
        return "not only the method differs" if self.beside_methods else "settings that differ"

    @property
    def text(self) -> str:
        """The heading and the first settings for the terminal, one per line."""
        shown = [(printable(name), printable(value)) for name, value in self.values.items()]
        width = max(len(name) for name, _ in shown[:_SHOWN])
        lines = [f"    {name:<{width}}  {value}" for name, value in shown[:_SHOWN]]
        if more := len(shown) - len(lines):
            lines.append(f"    and {counted(more, 'more setting')}")
        return "\n".join([f"{self.head}:", *lines])


def unequal_settings(starts: Sequence[Start]) -> UnequalSettings | None:
    """Settings other than the method that may explain a difference between runs.

    Args:
        starts: First lines of their logs.

    Returns:
        The settings; None if there are none, and for runs on one track, where only the method and a
        tuned learning rate can differ.
    """
    tracks = {start.track.sha256 if start.track else None for start in starts}
    if len(tracks) == 1 and None not in tracks:
        return None
    runs = [_settings(start) for start in starts]
    names = dict.fromkeys(name for run in runs for name in run)
    by_weight = sorted(names, key=lambda name: (name != LEARNING_RATE, not _in_all(name, runs)))
    values = {
        name: _values(name, runs)
        for name in by_weight
        if len({canonical_json(run.get(name)) for run in runs}) > 1
    }
    inits = {(start.init.name, start.init.sha256): None for start in starts}
    if len(inits) > 1:
        same_name = len({name for name, _ in inits}) == 1
        texts = [digest_text(sha256) if same_name else name for name, sha256 in inits]
        values = {"init": _alternatives(texts), **values}
    methods = {canonical_json(_method(start)) for start in starts}
    return UnequalSettings(len(methods) > 1, values) if values else None


def _method(start: Start) -> list[Any]:
    chosen = [start.configuration.get(name) for name in METHOD]
    return [start.recipe, dict(start.plugins or {}), *chosen]


def _settings(start: Start) -> dict[str, Any]:
    """All settings that can affect a result and are not the method's, by dotted name."""
    found = flat(start.configuration)
    # A run's length affects its learning rates only with a schedule that ends with it.
    apart = (*_APART, _UPDATES) if found.get(_SCHEDULE, "constant") == "constant" else _APART
    return {
        name: value
        for name, value in found.items()
        if name not in FREE and not any(f"{name}.".startswith(f"{each}.") for each in apart)
    }


def _in_all(name: str, runs: Iterable[dict[str, Any]]) -> bool:
    return all(name in run for run in runs)


def _values(name: str, runs: Iterable[dict[str, Any]]) -> str:
    return _alternatives(_text(run[name]) if name in run else _UNSET for run in runs)


def _alternatives(texts: Iterable[str]) -> str:
    """Distinct texts, each once, limited to the first ones."""
    shown = list(dict.fromkeys(texts))
    more = [ELLIPSIS] if len(shown) > _VALUES else []
    return " or ".join([*(cut(text, _MAX_TEXT) for text in shown[:_VALUES]), *more])


def _text(value: Any) -> str:
    return value if isinstance(value, str) else canonical_json(value)
