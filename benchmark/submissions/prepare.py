"""Creates a submission's folder from runs and training logs."""

import hashlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from pydantic import ValidationError

from benchmark.archive import compress
from benchmark.evaluation.manifest import Manifest
from benchmark.evaluation.records import EpisodeRecord
from benchmark.evaluation.run_folder import read_run
from benchmark.evaluation.summary import summarize, summary_json
from benchmark.files import write_atomically
from benchmark.logs.foreign.detect import find
from benchmark.logs.training_log import TrainingLog, find_log, read_training_log
from benchmark.models import ModelIdentity, folder_sha256
from benchmark.reproduction import commands_of, reproduction_folder
from benchmark.submissions.format.faults import faults_of
from benchmark.submissions.format.findings import Finding
from benchmark.submissions.format.schema import (
    FOLDER_NAME,
    README,
    SUBMISSION,
    StoredFile,
    Submission,
)
from benchmark.versions import PROGRAM
from tasks.errors import UserError

TEMPLATE = Path(__file__).with_name("README.template.md")
CHECKPOINTS = ("best", "last")
"""Folders that the trainer writes beside its log."""


@dataclass(frozen=True, slots=True)
class Played:
    """A run that is to be sent."""

    path: Path
    manifest: Manifest
    records: Sequence[EpisodeRecord]


class NotAccepted(Exception):
    """What was made would not be accepted, and is not there.

    Attributes:
        findings: Why.
    """

    def __init__(self, findings: Sequence[Finding]) -> None:
        super().__init__(f"{len(findings)} finding(s)")
        self.findings = findings


@dataclass(frozen=True, slots=True)
class RunUpload:
    """A checkpoint that is to be sent.

    Attributes:
        seed: Of its training.
        model: Its weights.
        runs: What it has played.
        log: Of its training, if there is one.
    """

    seed: int
    model: ModelIdentity
    runs: tuple[Played, ...]
    log: TrainingLog | None


def parts_of(
    runs: Sequence[Path], logs: Sequence[Path], seeds: Sequence[int] | None = None
) -> list[RunUpload]:
    """Sort runs by the weights that played them, and give each its log.

    A log that lies beside its training's checkpoints goes with the weights that are among them.
    What lies alone is given in the order of the first runs of the checkpoints that are left.

    Args:
        runs: Run folders.
        logs: Training logs or folders with one; one for each checkpoint, or none.
        seeds: Seeds of the trainings in the order of the checkpoints' first runs, where no log says
            them. What comes from one checkpoint alone has seed 0 without it.

    Raises:
        UserError: A run or log cannot be read, logs or seeds are not as many as checkpoints or
            belong to none, or nothing says which seeds several checkpoints have.
    """
    played: dict[str, list[Played]] = {}
    for path in runs:
        manifest, records = read_run(path)
        key = manifest.model.canonical.model_dump_json()
        played.setdefault(key, []).append(Played(path, manifest, records))
    groups = list(played.values())
    paired = _paired([own_log(path) for path in logs], groups)
    known = _seeds([log.start.seed for log in paired], seeds, len(groups))
    return [
        RunUpload(known[n], group[0].manifest.model, tuple(group), paired[n] if paired else None)
        for n, group in enumerate(groups)
    ]


def own_log(path: Path) -> Path:
    """The training log that a path means.

    Raises:
        UserError: There is none, or it is another trainer's, whose numbers have other meanings.
    """
    try:
        found = find(path)
    except UserError:
        return find_log(path)  # the reader of our own logs says what is wrong
    if found.format != "arlarena-bench":
        raise UserError(
            f"--training-log {path} is a log of {found.format}: only logs of `arlarena-bench "
            "train` earn `stability: logs`; leave it out"
        )
    return found.files[0]


def _paired(logs: Sequence[Path], groups: Sequence[Sequence[Played]]) -> list[TrainingLog]:
    """The logs in the order of the checkpoints that they belong to; none if there are none."""
    if not logs:
        return []
    if len(logs) != len(groups):
        raise UserError(
            f"there are runs of {len(groups)} checkpoints but {len(logs)} training "
            "logs: give one log per checkpoint"
        )
    places: dict[int, Path] = {}
    alone = []
    for log in logs:
        place = _place(log, groups)
        if place is None:
            alone.append(log)
        elif place in places:
            model = groups[place][0].manifest.model.name
            raise UserError(f"{places[place]} and {log} are both next to the weights of {model}")
        else:
            places[place] = log
    free = [place for place in range(len(groups)) if place not in places]
    places |= zip(free, alone, strict=True)
    return [read_training_log(places[place]) for place in range(len(groups))]


def _place(log: Path, groups: Sequence[Sequence[Played]]) -> int | None:
    """Number of the checkpoint that a log lies beside; None if it lies beside none at all.

    Raises:
        UserError: Those beside it have not played, or two of them have.
    """
    folders = [log.parent / name for name in CHECKPOINTS]
    beside = [folder for folder in folders if any(folder.glob("*.safetensors"))]
    if not beside:
        return None
    hashes = {folder_sha256(folder) for folder in beside}
    found = [n for n, group in enumerate(groups) if group[0].manifest.model.sha256 in hashes]
    if len(found) > 1:
        names = " and ".join(str(groups[place][0].path) for place in found)
        raise UserError(
            f"{names} were played by checkpoints of one training run, {log}: send one of them"
        )
    if not found:
        names = " or ".join(map(str, beside))
        raise UserError(
            f"{log}: no run was played by the weights next to it; evaluate {names}, "
            "or pass a copy of the log without weights"
        )
    return found[0]


def _seeds(logged: Sequence[int], told: Sequence[int] | None, count: int) -> Sequence[int]:
    """The seed of every checkpoint.

    Raises:
        UserError: Nothing says them, or two things that differ do.
    """
    if told is not None and len(told) != count:
        raise UserError(f"--seeds has {len(told)} seeds, but there are {count} checkpoints")
    if logged:
        if told is not None and list(told) != list(logged):
            raise UserError(
                f"--seeds {_listed(told)}: the training logs say {_listed(logged)}; leave it out"
            )
        return logged
    if told is None and count > 1:
        raise UserError(
            f"there are {count} checkpoints: give their training logs "
            "(--training-log), or their seeds in the order of their first runs, such "
            "as --seeds 0,1,2"
        )
    return told or [0]


def _listed(seeds: Sequence[int]) -> str:
    return ",".join(map(str, seeds))


def prepare(
    parts: Sequence[RunUpload],
    about: Mapping[str, Any],
    folder: Path,
    judge: Callable[[Path], Sequence[Finding]] | None = None,
) -> Submission:
    """Write a submission's folder.

    Args:
        parts: What is sent.
        about: The fields of `submission.json` that people write.
        folder: Where to; must not exist.
        judge: Looks at the folder before it is left behind.

    Raises:
        UserError: The folder is there or has no such name, a log is too long, or a field is wrong.
        NotAccepted: The judge objects; nothing is left behind.
    """
    if not FOLDER_NAME.fullmatch(folder.name):
        raise UserError(f"{folder.name!r}: a submission's folder must be named <yyyymmdd>_<name>")
    files: dict[str, tuple[bytes, int | None]] = {}
    checkpoints = []
    number = 0
    for part in parts:
        names = []
        for run in part.runs:
            name = f"runs/r{number}"
            number += 1
            names.append(name)
            files |= {f"{name}/{file}": content for file, content in _run_files(run).items()}
        log = None
        if part.log is not None:
            log = f"training/s{part.seed}.jsonl.zst"
            content = part.log.path.read_bytes()
            files[log] = compress(content), len(content)
        model = _stated(part.model).model_dump(mode="json")
        checkpoints.append({"seed": part.seed, "model": model, "runs": names, "training_log": log})
    commands = _commands(parts, folder.name)
    return _write(folder, {**about, "checkpoints": checkpoints}, files, commands, judge)


def _commands(parts: Sequence[RunUpload], entry: str) -> list[str]:
    """The commands that play all checkpoints again, as the README prints them.

    Those of trainings depend on the scales of the version that prints them; a README stays.
    """
    out = reproduction_folder(entry)
    found: list[str] = []
    for part in parts:
        manifests = [run.manifest for run in part.runs]
        found += commands_of(part.seed, manifests, None, None, out).lines
    return found


def _run_files(run: Played) -> dict[str, tuple[bytes, int | None]]:
    """The files of a run with the sizes of what is compressed in them."""
    lines = [record.model_dump_json().encode() + b"\n" for record in run.records]
    content = b"".join(lines)
    summary = summarize(run.manifest, run.records)
    return {
        "run.json": ((_manifest(run.manifest).model_dump_json(indent=2) + "\n").encode(), None),
        "episodes.jsonl.zst": (compress(content), len(content)),
        "summary.json": (summary_json(summary).encode(), None),
    }


def _manifest(manifest: Manifest) -> Manifest:
    """A run's manifest whose command begins as everybody types it.

    Runs of earlier versions recorded the name of the file that Python was given.
    """
    _, *words = manifest.command or (PROGRAM,)
    model = _stated(manifest.model)
    return manifest.model_copy(update={"command": (PROGRAM, *words), "model": model})


def _stated(model: ModelIdentity) -> ModelIdentity:
    """A model as a submission names it: of the hub by its commit alone."""
    return model.model_copy(update={"sha256": None}) if model.kind == "hub" else model


def _write(
    folder: Path,
    about: Mapping[str, Any],
    files: Mapping[str, tuple[bytes, int | None]],
    commands: Sequence[str],
    judge: Callable[[Path], Sequence[Finding]] | None,
) -> Submission:
    """Write everything, or nothing."""
    listed = [
        {
            "path": name,
            "bytes": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
            "content_bytes": size,
        }
        for name, (content, size) in files.items()
    ]
    try:
        submission = Submission.model_validate({**about, "files": listed})
    except ValidationError as error:
        faults = "; ".join(fault.text for fault in faults_of(error, Submission))
        raise UserError(f"{SUBMISSION}: {faults}") from error
    readme = _readme(submission, folder.name, commands).encode()
    digest = hashlib.sha256(readme).hexdigest()
    stored = StoredFile(path=README, bytes=len(readme), sha256=digest)
    submission = submission.model_copy(update={"files": (*submission.files, stored)})
    stated = (submission.model_dump_json(indent=2) + "\n").encode()
    contents = {name: content for name, (content, _) in files.items()}
    around = folder.with_name(f".{folder.name}.new")
    # The judge goes by the folder's own name.
    fresh = around / folder.name
    try:
        if folder.exists():
            raise UserError(f"{folder} already exists; choose another name")
        for name, content in {**contents, README: readme, SUBMISSION: stated}.items():
            (fresh / name).parent.mkdir(parents=True, exist_ok=True)
            write_atomically(fresh / name, content)
        if judge is not None and (findings := judge(fresh)):
            raise NotAccepted(findings)
        fresh.rename(folder)
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror}") from error
    finally:
        shutil.rmtree(around, ignore_errors=True)
    return submission


def _readme(submission: Submission, folder: str, commands: Sequence[str]) -> str:
    """The folder's README, from what `submission.json` says."""
    method, data, init = submission.method, submission.training_data, submission.init
    return Template(TEMPLATE.read_text("utf-8")).substitute(
        name=submission.name,
        description=method.description,
        recipe=method.recipe,
        kind=method.kind,
        authors=", ".join(submission.authors),
        contact=submission.contact,
        base_model=submission.base_model or "none",
        init=init.name if init else "nothing",
        weights=submission.weights or "not given",
        code=method.code or "not given",
        paper=method.paper or "not given",
        training_data=data.statement if data else "None: this is a policy without weights.",
        commands="\n".join(["```", *commands, "```"]),
        program=PROGRAM,
        folder=folder,
    )
