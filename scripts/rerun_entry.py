"""Maintainers run this to earn an entry the badge `re-run`, or `first updates trained again`.

    python scripts/rerun_entry.py ENTRY --commit COMMIT --by NAME [--model SEED=FOLDER ...]
    python scripts/rerun_entry.py ENTRY --commit COMMIT --by NAME --updates 3

The first form plays a random sample of the entry's episodes with its published weights: a hub
model, a registered init, or a folder with the stated hash, which is given or is at the commit on
the hub that the entry names as `weights`. The second form is for entries on a track, whose runs are
bitwise reproducible: it starts their training runs again and compares the first updates, which does
not show who played the episodes and earns another badge.

With `--head HEAD`, the entry is that of a pull request: its folder is extracted from the last
commit, which must have been fetched, and only a rerun may be missing (submissions/README.md,
Copies). ENTRY is then its future path, `submissions/NAME`.

The result is written to `reruns.yaml` in the folder of submissions, even if the rerun fails, in
which case the exit code is 1. The exception is updates that differ from a log without a CPU name,
because the CPU may be the reason.
"""

import argparse
import asyncio
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path

from baselines.inits.registry import find_model
from baselines.reproduction import train_command
from baselines.tracks.registry import load_track
from benchmark.cli.arguments.common import count
from benchmark.cli.commands.submit import context_here
from benchmark.commands_of_entry import commands_of, devices_of
from benchmark.engines.core.chat import Chat
from benchmark.engines.core.devices import DEVICE_NAME, instructions, repeating
from benchmark.engines.transformers.engine import TransformersEngine
from benchmark.files import write_atomically
from benchmark.logs.training_log import LOG, TrainingLog, read_training_log
from benchmark.models import downloaded, same_weights
from benchmark.stats.formatting import points_text
from benchmark.submissions.check import check_submission, read_accepted, read_others
from benchmark.submissions.checks.changes import export_folder
from benchmark.submissions.checks.tracks import track_of
from benchmark.submissions.format.findings import Rejected
from benchmark.submissions.reading.entry import Entry, ReadCheckpoint, ReadRun
from benchmark.submissions.reading.repository import Repository
from benchmark.submissions.reading.reruns import EPISODES, TOGETHER, RerunSample
from benchmark.submissions.rerun import (
    RerunOutcome,
    add_rerun,
    differences,
    drawn,
    folder_of,
    hold,
    new_nonce,
    play_again,
    same_start,
)
from tasks.errors import UserError
from tasks.texts import on_one_line

ROOT = Path(__file__).parents[1]
POLL_S = 1.0


def main(argv: Sequence[str] | None = None) -> int:
    """Repeat a part of an entry, and record the result."""
    parser = argparse.ArgumentParser(description="Repeat a random part of an entry.")
    parser.add_argument("entry", type=Path, help="the entry's folder")
    parser.add_argument("--commit", required=True, help="commit of this code, later than the entry")
    parser.add_argument("--by", required=True, help="who answers for it")
    parser.add_argument("--day", type=date.fromisoformat, default=datetime.now(UTC).date())
    parser.add_argument(
        "--episodes",
        type=count,
        help=f"of every panel of a run; {EPISODES} without it, and {TOGETHER} of all runs together",
    )
    parser.add_argument("--model", action="append", default=[], metavar="SEED=MODEL")
    parser.add_argument("--updates", type=count, help="train so many updates again, on a track")
    parser.add_argument("--head", help="last commit of the pull request that adds the entry")
    arguments = parser.parse_args(argv)
    try:
        with tempfile.TemporaryDirectory() as place:
            folder = arguments.entry
            if arguments.head:
                folder = _of_pull_request(folder, arguments.head, Path(place))
            entry = read_accepted(folder)
            sample = (
                played(entry, arguments)
                if arguments.updates is None
                else trained_again(entry, arguments)
            )
            print(on_one_line(sample.text))
            submissions = arguments.entry.parent
            add_rerun(folder, arguments.by, arguments.day, sample, submissions)
    except UserError as error:
        print(f"rerun_entry: {on_one_line(str(error))}", file=sys.stderr)
        return 2
    return 0 if sample.holds else 1


def _of_pull_request(entry: Path, head: str, place: Path) -> Path:
    """Extract an entry's folder from a commit, and run all checks except the replay.

    Raises:
        UserError: It exists already, or has findings that no rerun can settle.
    """
    if entry.exists():
        raise UserError(f"{entry} is accepted already; leave --head out")
    clone = Repository.at(ROOT)
    try:
        folder = export_folder(clone, clone.commit(head, "--head"), entry.name, place)
    except Rejected as rejected:
        raise UserError(f"no rerun can settle this: {rejected.finding.text}") from rejected
    context = context_here(others=read_others(entry.parent), replay=False, hub=True)
    findings = check_submission(folder, context).findings
    if others := [finding for finding in findings if not finding.until_rerun]:
        raise UserError(f"no rerun can settle this: {others[0].text}")
    return folder


def played(entry: Entry, arguments: argparse.Namespace) -> RerunSample:
    """Play a sample of every run with its weights.

    Raises:
        UserError: Weights are unavailable, or are not the entry's.
    """
    given = _models(entry, arguments.model)
    nonce = new_nonce()
    found: list[RerunOutcome] = []
    enough = max(EPISODES, math.ceil(TOGETHER / len(entry.checkpoints)))
    for point in entry.checkpoints:
        folder = _weights(entry, point, given.get(point.checkpoint.seed))
        _check_text_side(entry, folder)
        found += asyncio.run(_again(folder, point.runs, nonce, arguments.episodes or enough))
    for panel, ends in differences(found).items():
        print(f"{'/'.join(panel)}: difference of success {points_text(ends, ' points')}")
    return RerunSample(
        commit=arguments.commit,
        nonce=nonce,
        what="episodes",
        count=sum(len(each.recorded) for each in found),
        equal=sum(each.equal for each in found),
        holds=hold(found),
        panels=tuple(each.sample for each in found),
        published=not given,
    )


def _models(entry: Entry, given: Sequence[str]) -> dict[int, str]:
    """The models given on the command line, by seed.

    Raises:
        UserError: One is not `SEED=MODEL`, or the entry has no such seed.
    """
    seeds = {str(point.checkpoint.seed): point.checkpoint.seed for point in entry.checkpoints}
    found = {}
    for each in given:
        seed, equals, model = each.partition("=")
        if not equals or not model:
            raise UserError(f"--model {each!r} is not SEED=MODEL")
        if seed not in seeds:
            raise UserError(f"--model {each!r}: the entry has the seeds {', '.join(seeds)}")
        found[seeds[seed]] = model
    return found


async def _again(
    folder: Path, runs: Sequence[ReadRun], nonce: str, episodes: int
) -> list[RerunOutcome]:
    found = []
    async with TransformersEngine(folder) as engine:
        for run in runs:
            for keys in drawn(run, nonce, episodes).values():
                found.append(await play_again(run, engine, keys))
                print(on_one_line(found[-1].text), flush=True)
    return found


def _weights(entry: Entry, point: ReadCheckpoint, given: str | None) -> Path:
    """The folder with a checkpoint's weights.

    Raises:
        UserError: They are unavailable, or are different ones.
    """
    model = point.checkpoint.model
    seed = point.checkpoint.seed
    named = {"hub": f"{model.name}@{model.revision}", "init": model.name}.get(model.kind)
    published = entry.submission.published
    if given is None and named is None and published is not None and model.sha256 is not None:
        place = f"{published.name}@{published.revision}"
        return folder_of(downloaded(place, f"model {place}")[1], model.sha256)
    if given is None and named is None:
        raise UserError(
            f"seed {seed}: {model.text} is not published at a commit on the hub; name its folder "
            f"(--model {seed}=FOLDER)"
        )
    source = find_model(given or named or "")
    if source.path is None or not same_weights(source.identity, model):
        raise UserError(f"seed {seed}: {source.identity.text} is not {model.text}")
    return source.path


def _check_text_side(entry: Entry, folder: Path) -> None:
    """Check that weights from a track use the tokenizer and chat template of the track's init.

    No record contains a chat template's additions to a prompt, which could be a panel's solutions.

    Raises:
        UserError: They do not.
    """
    claim = track_of(entry)
    if claim is None:
        return
    init = find_model(load_track(claim.name).init.name).path
    assert init is not None  # a registered one, or one from the hub
    if not Chat.load(folder).reads_as(Chat.load(init)):
        raise UserError(
            f"{folder}: its chat template or tokenizer is not that of {init}, from which the "
            f"track {claim.name} trains"
        )


def trained_again(entry: Entry, arguments: argparse.Namespace) -> RerunSample:
    """Start the training of every seed again, and compare the first updates.

    Raises:
        UserError: The entry has no track, or a training run cannot be started.
    """
    if arguments.model:
        raise UserError("--model names weights to play with: leave it out with --updates")
    if track_of(entry) is None:
        raise UserError(f"{entry.folder.name} is on no track: play its episodes instead")
    equal = 0
    for point in entry.checkpoints:
        found = _begun(point, arguments.updates)
        said = "equal" if found is None else f"first difference: {found}"
        print(on_one_line(f"seed {point.checkpoint.seed}: {said}"), flush=True)
        equal += found is None
    return RerunSample(
        commit=arguments.commit,
        what="updates",
        count=arguments.updates * len(entry.checkpoints),
        equal=arguments.updates * equal,
        holds=equal == len(entry.checkpoints),
    )


def _begun(point: ReadCheckpoint, updates: int) -> str | None:
    """The first difference from the log in its first updates; None if there is none."""
    assert point.log is not None  # entries on tracks have logs
    with tempfile.TemporaryDirectory() as place:
        manifests = [run.manifest for run in point.runs]
        commands = commands_of(
            point.checkpoint.seed, manifests, point.log, train_command, f"{place}/out"
        )
        if commands.train is None or commands.train_words is None:
            raise UserError(f"seed {point.checkpoint.seed}: {commands.reason}")
        if (why := commands.obstacle) is not None:
            raise UserError(
                f"seed {point.checkpoint.seed}: trained {why}: nothing can be repeated bit for bit "
                "here"
            )
        if (first := min(commands.moves, default=updates + 1)) <= updates:
            raise UserError(
                f"seed {point.checkpoint.seed}: its training continued with something else "
                f"({commands.moved}): compare only --updates {first - 1} or fewer"
            )
        for path, text in commands.train.files.items():
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            write_atomically(Path(path), text.encode())
        log = Path(commands.out) / LOG
        words = [sys.executable, "-m", "benchmark.cli", *commands.train_words[1:]]
        environment = repeating(commands.device)
        with subprocess.Popen(words, env=environment) as training:  # noqa: S603 - our own command
            while training.poll() is None and not _has(log, updates):
                time.sleep(POLL_S)
            training.terminate()
        again = read_training_log(log, allow_torn=True)
    return _difference(point.log, again, updates)


def _difference(recorded: TrainingLog, again: TrainingLog, updates: int) -> str | None:
    """The first difference in the first updates, and the devices; None if there is none.

    Raises:
        UserError: They differ, and the log names no CPU: another one computes differently.
    """
    found = same_start(recorded, again, updates)
    if found is None:
        return None
    text = f"{found} (device: {devices_of(recorded)}, here {devices_of(again)})"
    if instructions(recorded.start.engine.get(DEVICE_NAME)) is None:
        raise UserError(
            f"{text}: the log does not name the CPU that was used, and another CPU may give "
            "other results, so this difference proves nothing; no rerun is recorded"
        )
    return text


def _has(log: Path, updates: int) -> bool:
    """Whether a log that is being written contains this many updates."""
    return log.exists() and log.read_bytes().count(b'\n{"kind":"update"') > updates


if __name__ == "__main__":
    sys.exit(main())
