"""Reproduces an entry: its exact commands, and whether the result is the same.

Every page and README that prints a command for an entry takes it from `commands_of`. How a training
log becomes a command is known to `baselines.reproduction`, which callers hand in: this package does
not import `baselines`.
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
"""Folders of a training's checkpoints."""
PLACEHOLDER: Final = re.compile(r"<weights of seed \d+, SHA-256 (?:[0-9a-f]{64}|None)>")
"""What stands in a command for weights that the authors alone have."""
_MEASURED: Final = ("seconds", "memory", "speed")
"""Beginnings of the names of numbers that differ from machine to machine."""
_BY_NUMPY: Final = ("kl_old/", "ratio/", "engine/")
"""Beginnings of the names of numbers whose last digits depend on NumPy's `exp` (see `devices`)."""

Words = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TrainCommand:
    """The command of a training.

    Attributes:
        words: All but `--out`.
        files: Files that it reads and this project does not ship, by path, with their text.
        note: What a reader must know of it, on one line; empty if nothing.
    """

    words: Words
    files: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


TrainCommandOf = Callable[[TrainingLog, str], TrainCommand]
"""From a log and a folder for files to the command that writes the log again; raises `UserError`
where no command of this version does (`baselines.reproduction.train_command`)."""


@dataclass(frozen=True, slots=True)
class PlayCommand:
    """An evaluation.

    Attributes:
        words: Of the whole command.
        out: Folder that it writes.
        device: What the engine called its device in the run that is repeated.
    """

    words: Words
    out: str
    device: object


@dataclass(frozen=True, slots=True)
class Commands:
    """How one checkpoint of an entry is made and played again.

    Attributes:
        seed: Of its training.
        train: The training; None where there is no log, or `reason` says why not.
        out: Folder of the training.
        model: What the evaluation plays: a folder, a name, or words in angle brackets that stand
            for weights which the authors alone have; None for a policy.
        runs: For each run of the checkpoint its evaluation.
        reason: Why the training has no command, on one line; empty if it has one or no log.
        device: What the training's engine called its device; None if `train` is, or if the log
            does not say.
        varies: Why the training differs whenever it is repeated, as the end of a sentence; empty if
            it does not.
        moves: What changed during the training; see `moves_of`.
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
        """Why the training cannot be repeated to the bit here, as the end of a sentence."""
        return self.varies or obstacle(self.device)

    @property
    def moved(self) -> str:
        """What changed during the training, and when; empty if nothing did."""
        parts = (f"{', '.join(names)} before update {at}" for at, names in self.moves.items())
        return "; ".join(parts)

    @property
    def train_words(self) -> Words | None:
        """The whole command of the training."""
        return None if self.train is None else (*self.train.words, "--out", self.out)

    @property
    def lines(self) -> tuple[str, ...]:
        """All of it as text for a shell, with remarks behind `#`."""
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
    """A command for a shell that computes as another device did (`devices.as_on`)."""
    return f"{as_on_text(device)} {command_text(words)}".lstrip()


def command_text(words: Sequence[str]) -> str:
    """A command for a shell; the placeholder of weights stays as it is, for people to replace."""
    return " ".join(each if PLACEHOLDER.fullmatch(each) else shlex.quote(each) for each in words)


def reproduction_folder(entry: str) -> str:
    """Where `arlarena-bench reproduce` puts what it makes of an entry, if nobody says otherwise."""
    return f"runs/reproduce-{entry}"


def reproduce_text(entry: str, plugins: Sequence[str]) -> str:
    """The command that makes an entry again, in a clone of this project.

    Args:
        entry: Name of its folder.
        plugins: What its training logs call the plug-ins of its runs.
    """
    code = (word for name in plugins for word in ("--plugin", name))
    return command_text((PROGRAM, "reproduce", f"submissions/{entry}", *code))


def plugins_of(logs: Iterable[TrainingLog | None]) -> tuple[str, ...]:
    """What training logs call the plug-ins of their runs, each once."""
    return tuple(dict.fromkeys(name for log in logs if log for name in log.start.plugins))


def eval_words(model: str | None, panels: Sequence[str], options: Sequence[str] = ()) -> Words:
    """The command that plays panels.

    Args:
        model: An init's name, a folder or a hub id; None where the options name a policy.
        panels: As `task/panel`.
        options: Further words.
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
    """The commands of one checkpoint: train it again where there is a log, and play its panels.

    Args:
        seed: Of its training.
        manifests: Of its runs, at least one, all of the same weights.
        log: Of its training, if there is one.
        train_command: See `TrainCommandOf`; None to leave training runs out.
        out: Folder for everything that the commands write.
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
    """The devices of a training run, in order, with the first update that was made on each."""
    sessions = log.sessions.items()
    names = {at: _facts(line)[DEVICE_NAME] or "an unknown device" for at, line in sessions}
    parts = [str(names[1])]
    for (_, before), (at, here) in pairwise(names.items()):
        parts += [f"from update {at} on {here}"] if here != before else []
    return "; ".join(parts)


def moves_of(log: TrainingLog) -> Mapping[int, tuple[str, ...]]:
    """What changed between the sessions of a training run, so that other bits may be computed.

    Args:
        log: Its log.

    Returns:
        By the first update after a change, the names of what changed: facts of the engine, the
        device among them unless both compute alike, and packages.
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
    """Engine and versions of a session, flat; the device is always there."""
    # The engine names some of the same packages again.
    engine = {name: value for name, value in line.engine.items() if name != "versions"}
    return {DEVICE_NAME: None, **flat(engine), **line.versions}


def _varies(log: TrainingLog) -> str:
    """See `Commands`; engines that take their steps together say that they are deterministic."""

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
    """What `--model` names; of what was trained again, the folder of the same checkpoint."""
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
    """The options that choose protocol and engine of a run."""
    protocol = protocol_text(manifest.panels)
    return (*(() if protocol == OPTIONS[NAME] else ("--protocol", protocol)), *_engine(manifest))


def _engine(manifest: Manifest) -> Words:
    """The options that choose the engine of a run."""
    if manifest.model.kind == "policy":
        return ("--engine", manifest.model.name)
    kind, dtype = manifest.engine.get("kind"), manifest.engine.get("dtype")
    if kind not in LOADING:
        return ()
    return ("--engine", str(kind), *(("--dtype", dtype) if isinstance(dtype, str) else ()))


@dataclass(frozen=True, slots=True)
class LogDifference:
    """The first place where two logs of one configuration and seed differ.

    Attributes:
        update: The update.
        name: What differs; a number's name, or `lines` where one log ends.
        theirs: Its value in the first log; None if it has none.
        ours: Its value in the second.
    """

    update: int
    name: str
    theirs: object
    ours: object

    @property
    def text(self) -> str:
        """One line for people."""
        return f"update {self.update}, {self.name}: {self.theirs} (entry) and {self.ours} (here)"


def first_difference(theirs: TrainingLog, ours: TrainingLog) -> LogDifference | None:
    """Where two logs differ first, line by line, with times and memory left out.

    A number that one of the logs has nowhere is not compared: it was added to the log later. What
    NumPy computes for the log alone is compared to nine digits; everything else to the bit.

    Args:
        theirs: One log.
        ours: Another one.
    """
    known = {name for line in theirs.updates for name in (*line.values, *line.nonfinite)}
    known &= {name for line in ours.updates for name in (*line.values, *line.nonfinite)}
    pairs = zip_longest(_by_update(theirs), _by_update(ours))
    return next((d for one, other in pairs if (d := _differing(one, other, known))), None)


_Line = Update | Validation


def _by_update(log: TrainingLog) -> list[_Line]:
    """Updates and validations in their order; the update comes before its validations."""
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
