"""The four choices of a recipe, only from the start line of its training log."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from benchmark.logs.lines import Start
from benchmark.logs.training_log import TrainingLog
from benchmark.track_schema import DIMENSIONS
from leaderboard.board.rows import RecipeChoices
from tasks.seeding import canonical_json, sha256_text
from tasks.texts import counted

UNKNOWN: Final = RecipeChoices(None, None, None, None, None)
PLAIN: Final = "plain"
"""Sampling that only draws groups."""
MASKED: Final = " + sequence mask"
"""Suffix of the name of a clipping with a sequence mask."""
SHIPPED: Final = {
    "advantage": ("empg", "gae", "gigpo", "grpo", "reinforce_pp", "rloo"),
    "clipping": ("cispo", "gspo", "ppo", "sapo"),
}
"""Choices of the dimensions that plug-ins can add to; a plug-in cannot take their names."""
_NOT_SETTING: Final = (*DIMENSIONS, "validation", "checkpoint_every", "seed")
_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+@-]{0,39}")


def choices_of(logs: Sequence[TrainingLog]) -> RecipeChoices:
    """The choices in an entry's logs; a choice that is missing, or differs, is unknown.

    The format is that of this project's configurations: `advantage` and `clipping` are mappings
    with a `name`, `aggregation` is a word, `sampling` maps additions to plain sampling to their
    settings, or to null if off. A clipping's `sequence_mask` is part of its name, because it
    changes the loss. The setting is what `rollout`, `optimization` and `kl` contribute. The
    learning rate is in no hash, since it may be tuned for each choice; neither are settings that
    only observe or save: `validation`, `checkpoint_every`. A custom learner is part of the setting.
    The code of plug-ins is part of the choices that are not shipped.

    Args:
        logs: Logs of all checkpoints.
    """
    found = {_choices(log.start) for log in logs}
    return found.pop() if len(found) == 1 else UNKNOWN


def _choices(start: Start) -> RecipeChoices:
    configuration = start.configuration
    named = RecipeChoices(
        advantage=_named(configuration.get("advantage")),
        clipping=_clipping(configuration.get("clipping")),
        aggregation=_word(configuration.get("aggregation")),
        sampling=_sampling(configuration.get("sampling")),
        setting=_setting(configuration),
    )
    known = (named.advantage, named.clipping, named.aggregation, named.sampling, named.setting)
    return named if None in known else replace(named, hashes=_hashes(start))


def _hashes(start: Start) -> tuple[str, ...]:
    configuration = start.configuration
    rest = {name: part for name, part in configuration.items() if name not in _NOT_SETTING}
    optimization = dict(rest["optimization"])
    optimization.pop("learning_rate", None)
    parts = [configuration[name] for name in DIMENSIONS]
    parts.append([start.task, rest | {"optimization": optimization}])
    # A log does not say which plug-in brings which choice.
    if code := sorted(start.plugins.values()):
        own = [not _is_shipped(configuration, name) for name in DIMENSIONS]
        own.append(configuration.get("learner") is not None or not any(own))
        parts = [[part, code] if of_it else part for part, of_it in zip(parts, own, strict=True)]
    return tuple(sha256_text(canonical_json(part)) for part in parts)


def _is_shipped(configuration: Mapping[str, Any], dimension: str) -> bool:
    known = SHIPPED.get(dimension)
    return known is None or _named(configuration[dimension]) in known


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) and _WORD.fullmatch(value) else None


def _named(part: Any) -> str | None:
    return _word(part.get("name")) if isinstance(part, Mapping) else None


def _clipping(part: Any) -> str | None:
    name = _named(part)
    if name is None or "sequence_mask" not in part:
        # It is unknown whether there was a mask, so any name would be a guess.
        return None
    return name if part["sequence_mask"] is None else name + MASKED


def _sampling(part: Any) -> str | None:
    if not isinstance(part, Mapping) or not part:
        return None
    names = [_word(name) for name, settings in part.items() if settings is not None]
    if None in names:
        return None
    return " + ".join(sorted(name for name in names if name)) or PLAIN


def _setting(configuration: Mapping[str, Any]) -> str | None:
    rollout, optimization = configuration.get("rollout"), configuration.get("optimization")
    if not isinstance(rollout, Mapping) or not isinstance(optimization, Mapping):
        return None
    groups, plays = _count(rollout.get("groups")), _count(rollout.get("group_size"))
    updates, epochs = _count(optimization.get("updates")), _count(optimization.get("epochs"))
    kl = _kl(configuration)
    custom = configuration.get("learner")
    learner = "" if custom is None else _named(custom)
    if groups is None or plays is None or updates is None or epochs is None:
        return None
    if kl is None or learner is None:
        return None
    return (
        f"{groups} \u00d7 {plays} episodes, {counted(updates, 'update')}, "
        f"{counted(epochs, 'epoch')}, {kl}{learner and f', learner {learner}'}"
    )


def _count(value: Any) -> int | None:
    known = isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**9
    return value if known else None


def _kl(configuration: Mapping[str, Any]) -> str | None:
    """The KL penalty; null means none, and a missing one means unknown."""
    if "kl" not in configuration:
        return None
    part = configuration["kl"]
    if part is None:
        return "no KL"
    coefficient = part.get("coef") if isinstance(part, Mapping) else None
    if not isinstance(coefficient, int | float) or isinstance(coefficient, bool):
        return None
    return f"KL {coefficient:g}" if coefficient else "no KL"
