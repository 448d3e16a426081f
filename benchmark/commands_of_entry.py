"""Builds the exact commands that reproduce an entry, and compares training logs.

Every page and README that prints a command for an entry gets it from `commands_of`. Only
`baselines.reproduction` can convert a training log to a command; callers pass it in, because this
package does not import `baselines`.
"""

import math
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, zip_longest
from pathlib import PurePosixPath
from typing import Final

from benchmark.engines.core.devices import DETERMINISTIC, DEVICE_NAME, alike, as_on_text, obstacle
from benchmark.engines.core.names import LOADING
from benchmark.evaluation.manifest import Manifest
from benchmark.evaluation.protocol import NAME, OPTIONS, protocol_text
from benchmark.flat import flat
from benchmark.logs.lines import Resume, Start, Update, Validation
from benchmark.logs.training_log import TrainingLog
from benchmark.models import ModelIdentity
from benchmark.versions import PROGRAM
from tasks.errors import UserError

BEST, LAST = "best", "last"
"""Checkpoint folders of a training run."""
PLACEHOLDER: Final = re.compile(r"<weights of seed \d+, SHA-256 (?:[0-9a-f]{64}|None)>")
"""Placeholder in a command for weights that only the authors have."""
_MEASURED: Final = ("seconds", "memory", "speed")
"""Name prefixes of metrics that differ between machines."""
_BY_NUMPY: Final = ("kl_old/", "ratio/", "engine/")
"""Name prefixes of metrics whose last digits depend on NumPy's `exp` (see `devices`)."""

Words = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TrainCommand:
    """The command of a training run.

    Attributes:
        words: The command without `--out`.
        files: Files that it reads and that this project does not ship: content by path.
        note: What a reader must know about it, on one line; empty if nothing.
    """

    words: Words
    files: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


TrainCommandOf = Callable[[TrainingLog, str], TrainCommand]
"""Builds, from a log and a folder for files, the command that writes the log again. Raises
`UserError` if this version has no such command (`baselines.reproduction.train_command`)."""


@dataclass(frozen=True, slots=True)
class PlayCommand:
    """The command of an evaluation.

    Attributes:
        words: The whole command.
        out: Output folder.
        device: The device name that the engine recorded in the original run.
    """

    words: Words
    out: str
    device: object


@dataclass(frozen=True, slots=True)
class Commands:
    """The commands that train and evaluate one checkpoint of an entry again.

    Attributes:
        seed: Training seed.
        train: The training command; None without a log or if there is a `reason`.
        out: Output folder of the training.
        model: The evaluated model: a folder, a name, or a placeholder in angle brackets for weights
            that only the authors have; None for a policy.
        runs: The evaluation command of each run of the checkpoint.
        reason: Why the training has no command, on one line; empty if it has one or there is no
            log.
        device: The device name that the training's engine recorded; None without `train` or if the
            log does not contain it.
        varies: Why every repetition of the training differs, as the end of a sentence; empty if
            they do not.
        moves: Changes during the training; see `moves_of`.
    """

    seed: int
    train: TrainCommand | None
    out: str
    model: str | None
    runs: tuple[PlayCommand, ...]
    reason: str = ""
    device: object = None
    varies: str = ""
    moves: Mapping[int, tuple[str, ...]] = field(default_factory=dict)

    @property
    def obstacle(self) -> str | None:
        """Why the training cannot be repeated bit for bit here, as the end of a sentence."""
        return self.varies or obstacle(self.device)

    @property
    def moved(self) -> str:
        """What changed during the training, and when; empty if nothing changed."""
        parts = (f"{', '.join(names)} before update {at}" for at, names in self.moves.items())
        return "; ".join(parts)

    @property
    def train_words(self) -> Words | None:
        """The whole training command."""
        return None if self.train is None else (*self.train.words, "--out", self.out)

    @property
    def lines(self) -> tuple[str, ...]:
        """All commands as shell text, with notes after `#`."""
        found = [f"# seed {self.seed}: {self.reason}"] if self.reason else []
        if self.train is not None and self.train_words is not None:
            found += [f"# {self.train.note}"] if self.train.note else []
            for path, text in self.train.files.items():
                folder = shlex.quote(str(PurePosixPath(path).parent))
                found += [f"mkdir -p {folder}", f"cat > {shlex.quote(path)} <<'END'"]
                found += [*text.splitlines(), "END"]
            found.append(line_on(self.device, self.train_words))
        return (*found, *(line_on(run.device, run.words) for run in self.runs))


def line_on(device: object, words: Sequence[str]) -> str:
    """A shell command that makes this machine compute as another device did (`devices.as_on`)."""
    return f"{as_on_text(device)} {command_text(words)}".lstrip()


def command_text(words: Sequence[str]) -> str:
    """Join a command for a shell; placeholders of weights stay unquoted for people to replace."""
    return " ".join(each if PLACEHOLDER.fullmatch(each) else shlex.quote(each) for each in words)


def reproduction_folder(entry: str) -> str:
    """The default output folder of `arlarena-bench reproduce`."""
    return f"runs/reproduce-{entry}"


def reproduce_text(entry: str, plugins: Sequence[str]) -> str:
    """The command that reproduces an entry in a clone of this project.

    Args:
        entry: Name of its folder.
        plugins: Names of its plug-ins, as in its training logs.
    """
    code = (word for name in plugins for word in ("--plugin", name))
    return command_text((PROGRAM, "reproduce", f"submissions/{entry}", *code))


def plugins_of(logs: Iterable[TrainingLog | None]) -> tuple[str, ...]:
    """The names of plug-ins in training logs, without duplicates."""
    return tuple(dict.fromkeys(name for log in logs if log for name in log.start.plugins))


def eval_words(model: str | None, panels: Sequence[str], options: Sequence[str] = ()) -> Words:
    """The command that evaluates on panels.

    Args:
        model: Name of an init, a folder or a hub id; None if the options name a policy.
        panels: As `task/panel`.
        options: Further options.
    """
    chosen = () if model is None else ("--model", model)
    tasks = tuple(word for panel in panels for word in ("--task", panel))
    return (PROGRAM, "eval", *chosen, *options, *tasks)


def commands_of(
    seed: int,
    manifests: Sequence[Manifest],
    log: TrainingLog | None,
    train_command: TrainCommandOf | None,
    out: str,
) -> Commands:
    """The commands of one checkpoint: train it again if there is a log, and play its panels.

    Args:
        seed: Training seed.
        manifests: Manifests of its runs, at least one, all with the same weights.
        log: Training log, if any.
        train_command: See `TrainCommandOf`; None to leave training runs out.
        out: Folder for all output of the commands.
    """
    train, reason = None, ""
    if log is not None and train_command is not None:
        try:
            train = train_command(log, out)
        except UserError as error:
            reason = " ".join(str(error).split())
    folder = f"{out}/s{seed}"
    model = _model(manifests[0].model, seed, None if train is None else folder)
    runs = []
    for number, manifest in enumerate(manifests):
        panels = [f"{panel.task}/{panel.panel}" for panel in manifest.panels]
        at = f"{folder}-eval-{number}" if number else f"{folder}-eval"
        words = (*eval_words(model, panels, _options(manifest)), "--out", at)
        runs.append(PlayCommand(words, at, manifest.engine.get(DEVICE_NAME)))
    found = Commands(seed, train, folder, model, tuple(runs), reason)
    if log is None or train is None:
        return found
    device = _facts(log.sessions[1])[DEVICE_NAME]
    return replace(found, device=device, varies=_varies(log), moves=moves_of(log))


def devices_of(log: TrainingLog) -> str:
    """The devices of a training run, in order, with the first update on each."""
    sessions = log.sessions.items()
    names = {at: _facts(line)[DEVICE_NAME] or "an unknown device" for at, line in sessions}
    parts = [str(names[1])]
    for (_, before), (at, here) in pairwise(names.items()):
        parts += [f"from update {at} on {here}"] if here != before else []
    return "; ".join(parts)


def moves_of(log: TrainingLog) -> Mapping[int, tuple[str, ...]]:
    """Changes between the sessions of a training run that may change results in some bits.

    Args:
        log: The training log.

    Returns:
        By the first update after a change, the names of the changed packages and engine facts. The
        latter include the device unless both devices compute alike.
    """
    found = {}
    for (_, before), (at, here) in pairwise(log.sessions.items()):
        was, is_now = _facts(before), _facts(here)
        changed = [name for name in {**was, **is_now} if was.get(name) != is_now.get(name)]
        if alike(was[DEVICE_NAME], is_now[DEVICE_NAME]):
            changed = [name for name in changed if name != DEVICE_NAME]
        if changed:
            found[at] = tuple(changed)
    return found


def _facts(line: Start | Resume) -> dict[str, object]:
    """Engine and versions of a session, flat; always with a device."""
    # The engine repeats some of these package versions.
    engine = {name: value for name, value in line.engine.items() if name != "versions"}
    return {DEVICE_NAME: None, **flat(engine), **line.versions}


def _varies(log: TrainingLog) -> str:
    """See `Commands.varies`; engines with synchronous steps report that they are deterministic."""

    def has(section: str, name: str) -> bool:
        part = log.start.configuration.get(section)
        return isinstance(part, Mapping) and part.get(name) is not None

    if has("rollout", "max_staleness"):
        why = "asynchronous rollouts"
    elif has("sampling", "cross_policy") and log.start.engine.get(DETERMINISTIC) is not True:
        why = "cross-policy sampling"
    else:
        return ""
    return f"with {why}, where batches depend on timing"


def _model(model: ModelIdentity, seed: int, trained: str | None) -> str | None:
    """The value of `--model`; if trained again, the folder of the same checkpoint."""
    if model.kind == "policy":
        return None
    if trained is not None:
        return f"{trained}/{BEST if model.name == BEST else LAST}"
    if model.kind == "folder":
        return f"<weights of seed {seed}, SHA-256 {model.sha256}>"  # as in `PLACEHOLDER`
    if model.kind == "hub" and model.revision is not None:
        return f"{model.name}@{model.revision}"
    return model.name


def _options(manifest: Manifest) -> Words:
    """The options that select protocol and engine of a run."""
    protocol = protocol_text(manifest.panels)
    return (*(() if protocol == OPTIONS[NAME] else ("--protocol", protocol)), *_engine(manifest))


def _engine(manifest: Manifest) -> Words:
    """The options that select the engine of a run."""
    if manifest.model.kind == "policy":
        return ("--engine", manifest.model.name)
    kind, dtype = manifest.engine.get("kind"), manifest.engine.get("dtype")
    if kind not in LOADING:
        return ()
    return ("--engine", str(kind), *(("--dtype", dtype) if isinstance(dtype, str) else ()))


@dataclass(frozen=True, slots=True)
class LogDifference:
    """The first difference between two logs of the same configuration and seed.

    Attributes:
        update: The update.
        name: What differs: a metric's name, or `lines` if one log ends.
        theirs: Its value in the first log; None if missing.
        ours: Its value in the second log; None if missing.
    """

    update: int
    name: str
    theirs: object
    ours: object

    @property
    def text(self) -> str:
        """A human-readable line."""
        return f"update {self.update}, {self.name}: {self.theirs} (entry) and {self.ours} (here)"


def first_difference(theirs: TrainingLog, ours: TrainingLog) -> LogDifference | None:
    """Find the first difference between two logs, line by line, ignoring times and memory.

    A metric that is missing from all of one log is not compared: it was added later. Metrics that
    NumPy computes only for the log are compared to nine digits; everything else bit for bit.

    Args:
        theirs: The first log.
        ours: The second log.
    """
    known = {name for line in theirs.updates for name in (*line.values, *line.nonfinite)}
    known &= {name for line in ours.updates for name in (*line.values, *line.nonfinite)}
    pairs = zip_longest(_by_update(theirs), _by_update(ours))
    return next((d for one, other in pairs if (d := _differing(one, other, known))), None)


_Line = Update | Validation


def _by_update(log: TrainingLog) -> list[_Line]:
    """Sort updates and validations; an update comes before its validations."""
    return sorted(
        [*log.updates, *log.validations],
        key=lambda line: (line.update, isinstance(line, Validation)),
    )


def _differing(one: _Line | None, other: _Line | None, known: set[str]) -> LogDifference | None:
    if one is None or other is None or (type(one), one.update) != (type(other), other.update):
        update = min(line.update for line in (one, other) if line is not None)
        return LogDifference(update, "lines", _what(one), _what(other))
    theirs, ours = _numbers(one), _numbers(other)
    for name in dict.fromkeys((*theirs, *ours)):
        compared = isinstance(one, Validation) or name in known
        if compared and not _same(name, theirs.get(name), ours.get(name)):
            return LogDifference(one.update, name, theirs.get(name), ours.get(name))
    return None


def _same(name: str, one: object, other: object) -> bool:
    if name.startswith(_MEASURED):
        return True
    if name.startswith(_BY_NUMPY) and isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
    return one == other


def _what(line: _Line | None) -> str:
    if line is None:
        return "ends before"
    kind = "validation" if isinstance(line, Validation) else "update"
    return f"{kind} of {line.update}"


def _numbers(line: _Line) -> Mapping[str, object]:
    if isinstance(line, Validation):
        return line.model_dump()
    return {**line.values, **dict.fromkeys(line.nonfinite, "not finite")}
