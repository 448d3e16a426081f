"""Plays a sample of an entry again: the evidence behind the badge `re-run`.

A replay verifies that actions earn their rewards, not who chose them. That takes the weights: a
random sample, drawn after the entry was submitted, is played by the published weights under the
entry's own protocol and compared with the records.
Training runs on tracks are reproducible bit for bit on a CPU with the same vector instructions, so
their first updates can be trained again (`same_start`). That does not show who played, and earns
the badge `first updates trained again`.

The record of a rerun, with day, commit, sample and result, is in `reruns.yaml`; maintainers approve
it by merging it. It states that these weights give these answers, not whose weights they are.
"""

import random
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import yaml

from benchmark.commands_of_entry import first_difference
from benchmark.engines.core.base import Engine
from benchmark.evaluation.records import EpisodeRecord, record_of
from benchmark.evaluation.replay import installed_panel, refuse_dangerous
from benchmark.evaluation.rollout import Job, Trajectory, play
from benchmark.files import write_atomically
from benchmark.hosts.choose import EnvPool
from benchmark.logs.training_log import TrainingLog
from benchmark.models import folder_sha256, from_folder
from benchmark.stats.intervals import Interval
from benchmark.stats.paired import Side, difference
from benchmark.submissions.reading.entry import ReadRun
from benchmark.submissions.reading.reruns import (
    EPISODES,
    EQUAL_PLAY,
    RERUN,
    PanelSample,
    Rerun,
    RerunSample,
    digest_of,
    read_reruns,
)
from tasks.errors import UserError, os_error_as
from tasks.seeding import stable_seed
from tasks.texts import counted, digest_text

Key = tuple[str, str, str, int]


@dataclass(frozen=True, slots=True)
class RerunOutcome:
    """A sample of a run on one panel, played again.

    Attributes:
        run: The run.
        panel: Task and panel.
        episodes: Number of episodes that the run recorded on the panel.
        recorded: Records of the sample.
        played: The same episodes, played again.
        greedy: Whether decoding is greedy, so that the weights have only one answer.
    """

    run: str
    panel: tuple[str, str]
    episodes: int
    recorded: Sequence[EpisodeRecord]
    played: Sequence[EpisodeRecord]
    greedy: bool

    @property
    def equal(self) -> int:
        """Number of episodes with the same answers."""
        pairs = zip(self.recorded, self.played, strict=True)
        return sum(_answers(one) == _answers(other) for one, other in pairs)

    @property
    def text(self) -> str:
        """One line for people."""
        return (
            f"{self.run}, {'/'.join(self.panel)}: {len(self.recorded)} episodes, "
            f"{self.equal} with equal answers"
        )

    @property
    def sample(self) -> PanelSample:
        """The record of it."""
        task, panel = self.panel
        return PanelSample(
            run=self.run,
            task=task,
            panel=panel,
            episodes=self.episodes,
            count=len(self.recorded),
            equal=self.equal,
            greedy=self.greedy,
        )


def differences(found: Sequence[RerunOutcome]) -> dict[tuple[str, str], Interval]:
    """Success in the rerun minus that in the records, on each panel.

    All runs of a panel are pooled: with a test for each of many small samples, some would fail by
    chance.
    """
    pairs: dict[tuple[str, str], list[tuple[EpisodeRecord, EpisodeRecord]]] = {}
    for each in found:
        pairs.setdefault(each.panel, []).extend(zip(each.played, each.recorded, strict=True))
    return {
        panel: difference(*(Side.of([[pair[i].solved] for pair in of]) for i in (0, 1)))
        for panel, of in pairs.items()
    }


def hold(found: Sequence[RerunOutcome]) -> bool:
    """Whether the weights may be the same: ties in success on every panel, equal greedy answers."""
    tied = all(ends.low <= 0 <= ends.high for ends in differences(found).values())
    return tied and all(
        each.equal >= EQUAL_PLAY * len(each.recorded) for each in found if each.greedy
    )


def new_nonce() -> str:
    """A new random nonce from which a sample is drawn."""
    return secrets.token_hex(16)


def folder_of(root: Path, sha256: str) -> Path:
    """Find the folder with a checkpoint's weights among published folders.

    Raises:
        UserError: None has this hash, or its model may not be loaded (`from_folder`).
    """
    folders = sorted({file.parent for file in root.rglob("*.safetensors")})
    for folder in folders:
        if folder_sha256(folder) == sha256:
            from_folder(folder)  # as `eval` does with a user's folder
            return folder
    raise UserError(
        f"none of {counted(len(folders), 'folder')} with published weights has SHA-256 "
        f"{digest_text(sha256)}"
    )


def drawn(run: ReadRun, nonce: str, count: int = EPISODES) -> dict[tuple[str, str], list[Key]]:
    """Draw the samples of a run, one per panel, so that a copied panel cannot hide among others.

    Args:
        run: The run.
        nonce: Random text, drawn after the entry was submitted (`new_nonce`). If authors could
            guess it, they could play only the sample with their weights.
        count: Number of episodes per panel; all if the panel has fewer.
    """
    samples = {}
    for panel in run.manifest.panels:
        keys = sorted(
            record.key for record in run.records if record.key[:2] == (panel.task, panel.panel)
        )
        seed = stable_seed("rerun", nonce, run.path, panel.task, panel.panel)
        sample = random.Random(seed).sample(keys, min(count, len(keys)))
        samples[panel.task, panel.panel] = sorted(sample)
    return samples


async def play_again(
    run: ReadRun,
    engine: Engine,
    keys: Sequence[Key],
    concurrency: int = 16,
    env_processes: int | None = None,
) -> RerunOutcome:
    """Play some episodes of a run again.

    Args:
        run: The run.
        engine: A started engine with the weights.
        keys: The episodes, all of one panel.
        concurrency: Number of episodes in flight.
        env_processes: See `evaluate`.

    Raises:
        UserError: A panel differs from the installed one, or was played with a dangerous setting.
    """
    (protocol,) = (each for each in run.manifest.panels if (each.task, each.panel) == keys[0][:2])
    task, panel = installed_panel(protocol)
    refuse_dangerous(task, f"{protocol.task}/{protocol.panel} was played", "rerun")
    entries = {entry.id: entry for entry in panel.entries}
    jobs = [Job(task, entries[episode], repeat, protocol) for _, _, episode, repeat in keys]
    played: dict[Key, EpisodeRecord] = {}

    async def keep(trajectory: Trajectory) -> None:
        record = record_of(trajectory)
        played[record.key] = record

    async with EnvPool(env_processes) as hosts:
        await play(jobs, engine, concurrency, keep, hosts)
    recorded = {record.key: record for record in run.records}
    return RerunOutcome(
        str(run.path),
        keys[0][:2],
        sum(record.key[:2] == keys[0][:2] for record in run.records),
        [recorded[key] for key in keys],
        [played[key] for key in keys],
        greedy=protocol.sampling.temperature == 0,
    )


def same_start(theirs: TrainingLog, ours: TrainingLog, updates: int) -> str | None:
    """Where the first updates of two training runs differ; None if they do not.

    Args:
        theirs: The entry's log.
        ours: The log of the new training.
        updates: Number of updates to compare.

    Raises:
        UserError: One of them has fewer updates.
    """
    for log in (theirs, ours):
        if len(log.updates) < updates:
            raise UserError(f"{log.path} has {len(log.updates)} updates, {updates} are compared")
    found = first_difference(_until(theirs, updates), _until(ours, updates))
    return None if found is None else found.text


def add_rerun(
    folder: Path, by: str, day: date, sample: RerunSample, submissions: Path | None = None
) -> Rerun:
    """Write the record of a rerun beside the submissions.

    It replaces an older record of its kind if both hold, and records of other content. Failed
    reruns are kept, because the number of attempts is part of the result.

    Args:
        folder: The entry's folder.
        by: Person responsible for it.
        day: Day of the rerun.
        sample: What was repeated, and the result.
        submissions: Folder for the record; by default the parent of the entry's folder.

    Raises:
        UserError: The existing records break their schema, or the file cannot be written.
    """
    submissions = submissions or folder.parent
    known: Mapping[str, Sequence[Rerun]] = read_reruns(submissions)
    made = Rerun(
        date=day.isoformat(),
        by=by,
        note=sample.text,
        sample=sample,
        submission_sha256=digest_of(folder),
    )
    kept = [
        each
        for each in known.get(folder.name, ())
        if each.submission_sha256 in (None, made.submission_sha256)
        and not (each.sample and each.what == made.what and each.holds and made.holds)
    ]
    content = {
        name: [each.model_dump(mode="json", exclude_defaults=True) for each in records]
        for name, records in {**known, folder.name: (*kept, made)}.items()
    }
    text = yaml.safe_dump(content, sort_keys=True, allow_unicode=True, width=100)
    with os_error_as(f"{submissions / RERUN} cannot be written"):
        write_atomically(submissions / RERUN, text.encode())
    return made


def _until(log: TrainingLog, updates: int) -> TrainingLog:
    return replace(
        log,
        updates=log.updates[:updates],
        validations=tuple(line for line in log.validations if line.update < updates),
    )


def _answers(record: EpisodeRecord) -> tuple[str, ...]:
    return tuple(turn.response for turn in record.turns)
