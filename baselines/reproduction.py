"""Turns a training log into the command that reproduces it.

The first line of a log contains the whole configuration. A run on a track needs only a short
command; any other run becomes a recipe at the shipped scale that needs the fewest `--set`. Every
command is checked before it is returned: it must resolve to the logged configuration.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import yaml
from pydantic import TypeAdapter, ValidationError

from baselines.algorithms.part import NOTHING_INSTALLED
from baselines.algorithms.plugins import Plugin
from baselines.config.layers import RECIPES, SCALES, Settings, names, resolve
from baselines.config.schema import TrainConfig
from baselines.inits.registry import find_model, read_registry
from baselines.tracks.registry import load_track, read_rates, resolve_on_track, track_names
from benchmark.commands_of_entry import TrainCommand, Words
from benchmark.engines.core.names import FLOATS, LOADING
from benchmark.evaluation.replay import refuse_dangerous
from benchmark.flat import flat
from benchmark.logs.lines import Start, TrackClaim
from benchmark.logs.training_log import TrainingLog
from benchmark.models import ModelIdentity
from benchmark.stability.run_end import divergence, early_stop
from benchmark.track_schema import FREE, METHOD, RateGrid, deviations
from benchmark.versions import PROGRAM
from tasks.errors import UserError, suggestion
from tasks.options import parse_settings
from tasks.registry import load_task
from tasks.strict import first_fault
from tasks.texts import digest_text

_NO_PLUGINS: Final[Mapping[str, Plugin]] = MappingProxyType({})
_TASKS: Final = TypeAdapter(dict[str, dict[str, dict[str, Any]]])
"""The settings of tasks in a log's configuration, below their key."""
UNKNOWN_CHOICE: Final = "union_tag_invalid"
"""The fault of a choice whose class is not here."""
_DEPTH: Final = 4
"""Maximum rounds of searching for settings: a choice's name brings its own defaults."""


def train_command(
    log: TrainingLog,
    folder: str,
    plugins: Mapping[str, Plugin] = _NO_PLUGINS,
    installed: bool = True,
) -> TrainCommand:
    """The training command that wrote a log, without `--out`.

    Args:
        log: The log; its configuration is not trusted.
        folder: Folder for files that the command needs.
        plugins: The loaded plug-ins, by name.
        installed: See `logged_configuration`.

    Raises:
        UserError: This version cannot repeat the run: its configuration, track or task is unknown,
            or the track has changed; or a plug-in is not loaded, or its code differs.
    """
    start = log.start
    code = _plugin_words(start, plugins)
    config, tasks = logged_configuration(start, installed)
    recipe, files = _recipe(start.recipe, config, folder)
    # Non-finite steps end a run without this option.
    stopped = early_stop(log) is not None and divergence(log) is None
    stop = ("--stop-on-collapse",) if stopped else ()
    if start.track is None:
        words = _open_words(start, config, tasks, recipe, files)
        return TrainCommand((*words, *code, *stop), files)
    track_words, note = _track_words(start, start.track, config, recipe, files)
    if track_words is None:
        track_words = _open_words(start, config, tasks, recipe, files)
    return TrainCommand((*track_words, *code, *stop), files, note)


def _method(config: TrainConfig) -> dict[str, Any]:
    """A recipe's choices; with a learner only if it is a custom one."""
    return config.model_dump(mode="json", include=set(METHOD))


def _plugin_words(start: Start, plugins: Mapping[str, Plugin]) -> Words:
    """The options that load the plug-ins of a run.

    Raises:
        UserError: A plug-in is not loaded, or its code is not that of the run.
    """
    lacking = [
        f"{name} (SHA-256 {sha256})"
        for name, sha256 in start.plugins.items()
        if name not in plugins
    ]
    if lacking:
        raise UserError(
            f"training needs the code of its plug-ins, {', '.join(lacking)}: ask the authors "
            "for it, and name it with `reproduce --plugin`"
        )
    for name, sha256 in start.plugins.items():
        check_code(plugins[name], [sha256])
    return tuple(word for name in start.plugins for word in ("--plugin", plugins[name].given))


def check_code(plugin: Plugin, known: Collection[str]) -> None:
    """Check that a plug-in's code is that of a run.

    Args:
        plugin: The plug-in; it need not have been run.
        known: SHA-256 of the code in the logs of the runs, at least one.

    Raises:
        UserError: It is other code.
    """
    if plugin.sha256 not in known:
        raise UserError(
            f"--plugin {plugin.given} has SHA-256 {digest_text(plugin.sha256)}, "
            f"but the original {plugin.name} has {digest_text(min(known))}: name the original code"
        )


def logged_configuration(
    start: Start, installed: bool = True
) -> tuple[TrainConfig, Mapping[str, Mapping[str, str]]]:
    """The configuration of a log's first line, and the settings of each task.

    Settings that were added since the log was written get their defaults, which preserve the
    earlier behavior.

    Args:
        start: The log's first line.
        installed: Whether a choice may be one of an installed package, which is then imported: not
            to judge a submission, whose verdict must not depend on the machine.

    Raises:
        UserError: It has a setting or value that this version does not know, or a dangerous one.
    """
    given = {k: v for k, v in start.configuration.items() if k not in ("tasks", "seed")}
    try:
        # In JSON mode, because tuples are lists in a log.
        config = TrainConfig.model_validate(given, context=None if installed else NOTHING_INSTALLED)
        stated = _TASKS.validate_python({"tasks": start.configuration.get("tasks", {})})["tasks"]
    except ValidationError as error:
        version = start.versions.get("arlarena-bench", "unknown")
        advice = f"use the version that wrote it ({version})"
        if any(fault["type"] == UNKNOWN_CHOICE for fault in error.errors()):
            advice += ", with the code of its author if this project never had it"
        raise UserError(
            f"the log's configuration is not valid in this version ({first_fault(error)}): {advice}"
        ) from error
    tasks = {}
    for name in start.task.split("+"):
        chosen = {key: str(value) for key, value in stated.get(name, {}).items()}
        task = load_task(name).configured(chosen)
        refuse_dangerous(task, f"{name} was trained", "reproduction")
        tasks[name] = dict(task.settings())
    return config, tasks


def check_init(start: Start) -> None:
    """Check that the initial weights of a training run are available here, with the same hash.

    Raises:
        UserError: They are not.
    """
    init = start.init
    found = find_model(_init_word(init)).identity
    if init.sha256 is not None and found.sha256 != init.sha256:
        raise UserError(
            f"training started from the init {init.name} with SHA-256 "
            f"{digest_text(init.sha256)}, but here it has {digest_text(found.sha256)}: the "
            "shipped init has changed; check out the version of this project that "
            "ships the old one"
        )


def _init_word(init: ModelIdentity) -> str:
    """The value of `--init`.

    Raises:
        UserError: The weights were a custom folder.
    """
    if init.kind == "init":
        registry = read_registry()
        if init.name not in registry:
            raise UserError(
                f"training started from the init {init.name!r}, which is no "
                f"longer in the registry{suggestion(init.name, tuple(registry))}"
            )
        return init.name
    if init.kind == "hub":
        return f"{init.name}@{init.revision}" if init.revision else init.name
    same = [n for n, each in read_registry().items() if each.sha256 and each.sha256 == init.sha256]
    if not same:
        raise UserError(f"training started from weights that are not public ({init.text})")
    return same[0]


def _recipe(name: str, config: TrainConfig, folder: str) -> tuple[str, dict[str, str]]:
    """The value of `--recipe`; a custom recipe is written to a file from the log."""
    if name in names(RECIPES):
        return name, {}
    path = f"{folder}/{name}.yaml"
    return path, {path: yaml.safe_dump(_method(config), sort_keys=False)}


def _track_words(
    start: Start,
    claim: TrackClaim,
    config: TrainConfig,
    recipe: str,
    files: Mapping[str, str],
) -> tuple[Words | None, str]:
    """The short command of a run on a track; None, with a reason, if it would use another rate.

    Raises:
        UserError: The track is gone or has changed, or the run is not on it.
    """
    name, known = claim.name, track_names()
    if name not in known:
        raise UserError(
            f"the log is of track {name!r}, which no longer exists{suggestion(name, known)}"
        )
    track = load_track(name)
    if track.sha256 != claim.sha256:
        raise UserError(
            f"the log is on track {name} with SHA-256 {digest_text(claim.sha256)}, but "
            f"here it has {digest_text(track.sha256)}: the track has changed"
        )
    if found := deviations(track, start):
        raise UserError(f"the log claims track {name} but has another configuration: {found[0]}")
    rate = config.optimization.learning_rate
    if not files:
        _check_same(resolve_on_track(track, recipe, rate), config, recipe, FREE)
    if isinstance(track.learning_rate, RateGrid):
        tuned = read_rates(track).get(start.recipe)
        if tuned is None:
            return None, (
                f"no study here has tuned {start.recipe} on track {name}, so this "
                "command lists all settings instead of the track"
            )
    else:
        tuned = rate
    if tuned != rate:
        return None, (
            f"track {name} has since tuned the learning rate of {start.recipe} to "
            f"{tuned:g}, so this command lists all settings instead of the track"
        )
    words = (PROGRAM, "train", "--track", name, "--recipe", recipe, "--seed", str(start.seed))
    return (*words, *_engine(start.engine)), ""


def _open_words(
    start: Start,
    config: TrainConfig,
    tasks: Mapping[str, Mapping[str, str]],
    recipe: str,
    files: Mapping[str, str],
) -> Words:
    """The command with recipe, init, tasks, scale and all settings that differ.

    Raises:
        UserError: There is no such command.
    """
    target = flat(config.model_dump(mode="json"))
    # A custom recipe's file does not exist yet; it is GRPO with the four choices replaced.
    known = "grpo" if files else recipe
    method = _as_settings(_method(config)) if files else ()
    found = {scale: _needed(known, scale, list(tasks), target, method) for scale in names(SCALES)}
    scale = min(found, key=lambda name: (len(found[name]), name != "tiny"))
    own = found[scale]
    _check_same(resolve(known, scale, list(tasks), [*method, *own]), config, recipe)
    foreign = start.engine.get("kind") != "transformers" or config.rollout.max_staleness is not None
    if config.tis_cap is None and foreign:
        own = (*own, "tis_cap=null")  # because `train` would turn it on automatically
    of_tasks = [
        f"{name}.{key}={value}"
        for name, settings in tasks.items()
        for key, value in settings.items()
        if value != load_task(name).info.settings[key].default
    ]
    parse_settings(of_tasks)  # refuses values that `--set` cannot express
    words = [PROGRAM, "train", "--recipe", recipe, "--init", _init_word(start.init)]
    words += [word for name in tasks for word in ("--task", name)]
    words += ["--scale", scale, "--seed", str(start.seed)]
    words += [word for setting in (*own, *of_tasks) for word in ("--set", setting)]
    return (*words, *_engine(start.engine))


def _engine(engine: Mapping[str, Any]) -> Words:
    """The options that select the rollout engine, if it ran in process."""
    kind, dtype = engine.get("kind"), engine.get("dtype")
    if kind not in LOADING:
        return ()
    known = isinstance(dtype, str) and dtype in FLOATS
    return ("--engine", str(kind), *(("--dtype", str(dtype)) if known else ()))


def _needed(
    recipe: str, scale: str, tasks: list[str], target: Mapping[str, Any], method: Sequence[str]
) -> tuple[str, ...]:
    """The minimal settings that turn a recipe at a scale into a configuration.

    Parts that are off are turned on first, and a choice's name comes before its constants, since
    both bring defaults. Settings with a value come before those without: setting one of two
    alternatives removes the other.
    """
    own: list[str] = []
    for _ in range(_DEPTH):
        here = flat(resolve(recipe, scale, tasks, [*method, *own]).model_dump(mode="json"))
        # A part that is off has no settings of its own.
        differing = {k: v for k, v in target.items() if k not in here or not _same(here[k], v)}
        if not differing:
            break
        parts: Settings = {key.rpartition(".")[0]: {} for key in differing}
        off = {part: empty for part, empty in parts.items() if part in here and here[part] is None}
        named = {k: v for k, v in differing.items() if k.endswith(".name")}
        given = {k: v for k, v in differing.items() if v is not None}
        own += _as_settings(off or named or given or differing)
    return tuple(dict.fromkeys(own))


def _as_settings(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Format settings for `--set`."""
    return tuple(f"{key}={_as_value(value)}" for key, value in settings.items())


def _as_value(value: Any) -> str:
    """Format a value as one line of YAML in flow style; numbers keep all digits."""
    text = yaml.safe_dump(value, default_flow_style=True, width=10**6, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...").strip()


def _same(one: Any, other: Any) -> bool:
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _check_same(
    found: TrainConfig, wanted: TrainConfig, recipe: str, free: frozenset[str] = frozenset()
) -> None:
    """Check that a command resolves to the logged configuration.

    Raises:
        UserError: It does not, and no settings can change that.
    """
    differs = first_setting(found, wanted, lambda name: name not in free)
    if differs is not None:
        name, here, there = differs
        raise UserError(
            f"no command of this version gives the logged configuration: {name} is "
            f"{there} in the log, but {here} in recipe {recipe}"
        )


def first_setting(
    found: TrainConfig, wanted: TrainConfig, counts: Callable[[str], bool]
) -> tuple[str, object, object] | None:
    """The first difference in a setting that counts, with the found and the wanted value."""
    here, there = (flat(each.model_dump(mode="json")) for each in (found, wanted))
    for name in dict.fromkeys((*there, *here)):
        if counts(name) and not _same(here.get(name), there.get(name)):
            return name, here.get(name), there.get(name)
    return None
