"""Makes a submission's folder from runs and training logs."""

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from pydantic import ValidationError

from benchmark.files import write_atomically
from benchmark.manifest import Manifest, ModelIdentity
from benchmark.metrics import summarise, summary_json
from benchmark.records import EpisodeRecord
from benchmark.run_folder import read_run
from benchmark.submissions.archive import compress
from benchmark.submissions.schema import FOLDER_NAME, README, SUBMISSION, StoredFile, Submission
from benchmark.training_log import TrainingLog, find_log, read_training_log
from tasks.errors import UserError
from tasks.strict import first_fault

TEMPLATE = Path(__file__).with_name("README.template.md")


@dataclass(frozen=True, slots=True)
class Played:
    """A run that is to be sent."""

    path: Path
    manifest: Manifest
    records: Sequence[EpisodeRecord]


@dataclass(frozen=True, slots=True)
class Part:
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


def parts_of(runs: Sequence[Path], logs: Sequence[Path]) -> list[Part]:
    """Sort runs by the weights that played them, and give each its log.

    Logs are given in the order of the checkpoints' first runs.

    Raises:
        UserError: A run or log cannot be read, or there are not as many logs as checkpoints.
    """
    played: dict[str, list[Played]] = {}
    for path in runs:
        manifest, records = read_run(path)
        key = manifest.model.model_dump_json()
        played.setdefault(key, []).append(Played(path, manifest, records))
    read = [read_training_log(find_log(path)) for path in logs]
    if read and len(read) != len(played):
        raise UserError(
            f"{len(played)} checkpoints have played and {len(read)} training logs are given: give "
            "one log for each checkpoint, in the order of their first runs"
        )
    parts = []
    for number, group in enumerate(played.values()):
        log = read[number] if read else None
        seed = log.start.seed if log is not None else number
        parts.append(Part(seed, group[0].manifest.model, tuple(group), log))
    return parts


def prepare(parts: Sequence[Part], about: Mapping[str, Any], folder: Path) -> Submission:
    """Write a submission's folder.

    Args:
        parts: What is sent.
        about: The fields of `submission.json` that people write.
        folder: Where to; must not exist.

    Raises:
        UserError: The folder is there or has no such name, a log is too long, or a field is wrong.
    """
    if not FOLDER_NAME.fullmatch(folder.name):
        raise UserError(f"{folder.name!r}: a submission's folder is called <yyyymmdd>_<name>")
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
        model = part.model.model_dump(mode="json")
        checkpoints.append({"seed": part.seed, "model": model, "runs": names, "training_log": log})
    commands = [" ".join(run.manifest.command) for part in parts for run in part.runs]
    return _write(
        folder, {**about, "checkpoints": checkpoints}, files, list(dict.fromkeys(commands))
    )


def _run_files(run: Played) -> dict[str, tuple[bytes, int | None]]:
    """The files of a run with the sizes of what is compressed in them."""
    lines = [record.model_dump_json().encode() + b"\n" for record in run.records]
    content = b"".join(lines)
    summary = summarise(run.manifest, run.records)
    return {
        "run.json": ((run.manifest.model_dump_json(indent=2) + "\n").encode(), None),
        "episodes.jsonl.zst": (compress(content), len(content)),
        "summary.json": (summary_json(summary).encode(), None),
    }


def _write(
    folder: Path,
    about: Mapping[str, Any],
    files: Mapping[str, tuple[bytes, int | None]],
    commands: Sequence[str],
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
        raise UserError(f"{SUBMISSION}: {first_fault(error)}") from error
    readme = _readme(submission, folder.name, commands).encode()
    digest = hashlib.sha256(readme).hexdigest()
    stored = StoredFile(path=README, bytes=len(readme), sha256=digest)
    submission = submission.model_copy(update={"files": (*submission.files, stored)})
    stated = (submission.model_dump_json(indent=2) + "\n").encode()
    contents = {name: content for name, (content, _) in files.items()}
    fresh = folder.with_name(f".{folder.name}.new")
    try:
        if folder.exists():
            raise UserError(f"{folder} is there already; choose another name")
        for name, content in {**contents, README: readme, SUBMISSION: stated}.items():
            (fresh / name).parent.mkdir(parents=True, exist_ok=True)
            write_atomically(fresh / name, content)
        fresh.rename(folder)
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror}") from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
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
        code=method.code or "not given",
        paper=method.paper or "not given",
        training_data=data.statement if data else "Nothing: this is a policy without weights.",
        commands="\n".join(["```", *commands, "```"]),
        folder=folder,
    )
