"""`arlarena-bench reproduce`: rerun an entry's own commands, and compare."""

import argparse
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from benchmark.cli.from_baselines import check_init, train_command
from benchmark.cli.say import say
from benchmark.commands_of_entry import (
    Commands,
    TrainCommandOf,
    command_text,
    commands_of,
    devices_of,
    first_difference,
    line_on,
    reproduction_folder,
)
from benchmark.engines.core.devices import repeating
from benchmark.evaluation.compare import compare, comparison_text
from benchmark.evaluation.replay import installed_panel, refuse_dangerous
from benchmark.evaluation.run_folder import read_run
from benchmark.files import write_atomically
from benchmark.logs.training_log import LOG, TrainingLog, read_training_log
from benchmark.models import folder_sha256
from benchmark.submissions.check import read_accepted
from benchmark.submissions.format.schema import SUBMISSION
from benchmark.submissions.reading.entry import Entry, ReadCheckpoint
from benchmark.versions import versions
from tasks.errors import UserError, os_error_as, suggestion

if TYPE_CHECKING:
    from baselines.algorithms.plugins import Plugin


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    entry = read_accepted(_find(arguments.entry, Path(arguments.submissions)))
    out = arguments.out or reproduction_folder(entry.folder.name)
    points = _points(entry, arguments.seed)
    train_again = partial(train_command, plugins=_plugins(arguments.plugin, points))
    plans = [(point, _commands(point, train_again, out)) for point in points]
    for _, commands in plans:
        if (why := commands.obstacle) is not None:
            say(
                f"note: seed {commands.seed} was trained {why}: its weights will differ, so only "
                "success can be compared",
                file=sys.stderr,
            )
        elif commands.moved:
            say(
                f"note: the training of seed {commands.seed} continued with something else "
                f"({commands.moved}): its weights may differ",
                file=sys.stderr,
            )
    if arguments.dry_run:
        problems = []
        for point, commands in plans:
            say("\n".join(commands.lines))
            problems += _problems(point, commands)
        for problem in dict.fromkeys(problems):
            say(f"note: {problem}", file=sys.stderr)
        return 1 if problems else 0
    for point, commands in plans:
        # Report what cannot work before hours of training.
        if found := _problems(point, commands):
            raise UserError(f"{entry.folder.name}, seed {commands.seed}: {found[0]}")
    equal = [_reproduce(point, commands) for point, commands in plans]
    return 0 if all(equal) else 1


def _find(name: str, submissions: Path) -> Path:
    """Find the folder of an entry.

    Raises:
        UserError: There is none; the message names close matches.
    """
    for folder in (Path(name), submissions / name):
        if (folder / SUBMISSION).is_file():
            return folder.absolute()
    if not submissions.is_dir():
        raise UserError(
            f"{submissions} is not a folder; give the folder with the entries (--submissions)"
        )
    known = tuple(sorted(path.parent.name for path in submissions.glob(f"*/{SUBMISSION}")))
    raise UserError(f"there is no entry {name!r} in {submissions}{suggestion(name, known)}")


def _points(entry: Entry, seed: int | None) -> Sequence[ReadCheckpoint]:
    """The requested checkpoints of an entry.

    Raises:
        UserError: The entry has no such seed.
    """
    if seed is None:
        return entry.checkpoints
    found = [point for point in entry.checkpoints if point.checkpoint.seed == seed]
    if not found:
        seeds = ", ".join(str(point.checkpoint.seed) for point in entry.checkpoints)
        raise UserError(f"{entry.folder.name} has no seed {seed}; it has {seeds}")
    return found


def _plugins(names: Sequence[str], points: Sequence[ReadCheckpoint]) -> "Mapping[str, Plugin]":
    """Load the plug-ins of runs; without any, do not import the trainer.

    No other code than that of the logs is run: names and hashes are compared before.

    Raises:
        UserError: One cannot be loaded, no run had it, or its code is not that of a run.
    """
    if not names:
        return {}
    from baselines.algorithms.plugins import code_of, load_plugins
    from baselines.reproduction import check_code

    known: dict[str, set[str]] = {}
    for point in points:
        for name, sha256 in (point.log.start.plugins if point.log else {}).items():
            known.setdefault(name, set()).add(sha256)
    for given in names:
        plugin = code_of(given)
        if plugin is None:
            raise UserError(
                f"--plugin {given}: there is no such module; name the authors' file, such as "
                f"{given}.py"
            )
        if plugin.name not in known:
            there = ", ".join(sorted(known)) or "none"
            raise UserError(
                f"--plugin {given}: no log of the entry names a plug-in {plugin.name} (there are: "
                f"{there}); remove it"
            )
        check_code(plugin, known[plugin.name])
        say(
            f"note: --plugin {given} runs the authors' code with your rights: read it first",
            file=sys.stderr,
        )
    return load_plugins(names)


def _commands(point: ReadCheckpoint, train_again: TrainCommandOf, out: str) -> Commands:
    manifests = [run.manifest for run in point.runs]
    return commands_of(point.checkpoint.seed, manifests, point.log, train_again, out)


def _problems(point: ReadCheckpoint, commands: Commands) -> list[str]:
    """Why a checkpoint's commands cannot reproduce its results here."""
    found = [commands.reason] if commands.reason else []
    if commands.model is not None and commands.model.startswith("<") and not commands.reason:
        found.append(
            "the entry has no training log, and its weights are not public: only the "
            "evaluation can be repeated, with the authors' weights (--dry-run prints "
            "the command)"
        )
    try:
        if commands.train is not None and point.log is not None:
            check_init(point.log)
        for run in point.runs:
            for protocol in run.manifest.panels:
                task, _ = installed_panel(protocol)
                what = f"{protocol.task}/{protocol.panel} was played"
                refuse_dangerous(task, what, "reproduction")
    except UserError as error:
        found.append(str(error))
    return found


def _reproduce(point: ReadCheckpoint, commands: Commands) -> bool:
    """Run the commands of a checkpoint and print the outcome.

    Returns:
        Whether the weights are equal, or success does not differ on any panel.
    """
    if commands.train is not None and commands.train_words is not None:
        for path, text in commands.train.files.items():
            _write(Path(path), text)
        _call(commands.train_words, commands.device)
    for command in commands.runs:
        _call(command.words, command.device)
    say(f"\nseed {commands.seed}")
    equal = commands.train is not None and _compare_weights(point, commands)
    tied = True
    for run, command in zip(point.runs, commands.runs, strict=True):
        found = compare((run.manifest, run.records), read_run(Path(command.out)))
        say(comparison_text(found, "the entry", command.out))
        ends = [panel.success.difference for panel in found.panels]
        tied &= all(each.low <= 0 <= each.high for each in ends)
    return equal or tied


def _compare_weights(point: ReadCheckpoint, commands: Commands) -> bool:
    """Print whether the weights are the entry's, and if not, where the logs diverge."""
    theirs, ours = point.checkpoint.model.sha256, folder_sha256(Path(str(commands.model)))
    if ours == theirs:
        say(f"the weights are identical: SHA-256 {ours}")
        return True
    say(f"the weights differ: SHA-256 {theirs} (entry), {ours} (here)")
    assert point.log is not None  # there is no command without one
    for line in _log_lines(point.log, read_training_log(Path(commands.out) / LOG)):
        say(line)
    return False


def _log_lines(theirs: TrainingLog, ours: TrainingLog) -> list[str]:
    """Describe the first difference of two logs, their devices, and differing versions."""
    found = first_difference(theirs, ours)
    lines = [f"first difference of the logs: {found.text}" if found else "the logs are identical"]
    lines.append(f"device: {devices_of(theirs)} (entry), {devices_of(ours)} (here)")
    here, sessions = versions(), theirs.sessions.values()
    differing = [
        f"{name} {before} (entry) and {here.get(name, 'none')} (here)"
        for name in dict.fromkeys(name for line in sessions for name in line.versions)
        if (before := _in_turn(line.versions.get(name, "none") for line in sessions))
        != here.get(name, "none")
    ]
    return [*lines, f"versions that differ: {', '.join(differing)}"] if differing else lines


def _in_turn(names: Iterable[str]) -> str:
    return ", then ".join(name for name, _ in groupby(names))


def _write(path: Path, text: str) -> None:
    """Write a file that a command needs.

    Raises:
        UserError: It cannot be written.
    """
    with os_error_as(f"{path} cannot be written"):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text.encode())


def _call(words: Sequence[str], device: object) -> None:
    """Run one of our own commands in a separate process, for a clean state.

    Args:
        words: The command.
        device: The device that computed the original result.

    Raises:
        UserError: It failed; it has printed why.
        KeyboardInterrupt: It was stopped.
    """
    say(f"$ {line_on(device, words)}", flush=True)
    program = [sys.executable, "-m", "benchmark.cli", *words[1:]]
    # The words are validated values from a log, and each is one argument of this program.
    code = subprocess.run(program, env=repeating(device), check=False).returncode  # noqa: S603
    if code in (130, -2):
        raise KeyboardInterrupt
    if code:
        raise UserError(
            f"`{command_text(words)}` ended with code {code}; run the same reproduce "
            "command to resume"
        )
