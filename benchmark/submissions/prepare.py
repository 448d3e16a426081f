"""Creates a submission's folder from runs and training logs."""

import hashlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

from pydantic import ValidationError

from benchmark.archive import compress
from benchmark.commands_of_entry import commands_of, plugins_of, reproduce_text, reproduction_folder
from benchmark.evaluation.manifest import Manifest
from benchmark.evaluation.summarize import summarize
from benchmark.evaluation.summary import summary_json
from benchmark.files import write_atomically
from benchmark.logs.foreign.values import read_bytes
from benchmark.logs.training_log import log_content
from benchmark.models import ModelIdentity
from benchmark.submissions.format.faults import faults_of
from benchmark.submissions.format.findings import Finding
from benchmark.submissions.format.schema import (
    FOLDER_NAME,
    README,
    SUBMISSION,
    StoredFile,
    Submission,
)
from benchmark.submissions.parts import Played, RunUpload
from benchmark.versions import PROGRAM
from tasks.errors import UserError
from tasks.texts import counted

TEMPLATE = Path(__file__).with_name("README.template.md")


class NotAccepted(Exception):
    """The prepared submission would not be accepted, so it was not kept.

    Attributes:
        findings: The objections.
    """

    def __init__(self, findings: Sequence[Finding]) -> None:
        super().__init__(counted(len(findings), "finding"))
        self.findings = findings


def prepare(
    parts: Sequence[RunUpload],
    about: Mapping[str, Any],
    folder: Path,
    judge: Callable[[Path], Sequence[Finding]] | None = None,
) -> Submission:
    """Write a submission's folder.

    Args:
        parts: The checkpoints to submit.
        about: The fields of `submission.json` that authors write.
        folder: The new folder; must not exist.
        judge: Checks the folder before it is put in place.

    Raises:
        UserError: The folder exists or its name is invalid, a log is too long, or a field is wrong.
        NotAccepted: The judge objects, so nothing is left behind.
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
            content = log_content(part.log.path)
            files[log] = compress(content), len(content)
        foreign = None
        if part.foreign is not None:
            stored = _foreign_files(part)
            files |= stored
            foreign = {
                "format": part.foreign.format,
                "files": list(stored),
                "meanings": part.meanings,
            }
        model = _stated(part.model).model_dump(mode="json")
        checkpoints.append(
            {
                "seed": part.seed,
                "model": model,
                "runs": names,
                "training_log": log,
                "foreign_log": foreign,
            }
        )
    commands = _commands(parts, folder.name)
    again = reproduce_text(folder.name, plugins_of(part.log for part in parts))
    return _write(folder, {**about, "checkpoints": checkpoints}, files, commands, again, judge)


def _foreign_files(part: RunUpload) -> dict[str, tuple[bytes, int | None]]:
    """The log of another trainer as stored: unchanged but compressed."""
    paths = part.foreign.files if part.foreign else ()
    stored: dict[str, tuple[bytes, int | None]] = {}
    for number, path in enumerate(paths):
        end = f"_{number}" if len(paths) > 1 else ""
        content = read_bytes(path)
        stored[f"training/s{part.seed}{end}.log.zst"] = compress(content), len(content)
    return stored


def _commands(parts: Sequence[RunUpload], entry: str) -> list[str]:
    """The commands that play all checkpoints again, for the README.

    Training commands are not included: they depend on the scales of the installed version, while
    the README does not change.
    """
    out = reproduction_folder(entry)
    found: list[str] = []
    for part in parts:
        manifests = [run.manifest for run in part.runs]
        found += commands_of(part.seed, manifests, None, None, out).lines
    return found


def _run_files(run: Played) -> dict[str, tuple[bytes, int | None]]:
    """The files of a run with their uncompressed sizes."""
    lines = [record.model_dump_json().encode() + b"\n" for record in run.records]
    content = b"".join(lines)
    summary = summarize(run.manifest, run.records)
    return {
        "run.json": ((_manifest(run.manifest).model_dump_json(indent=2) + "\n").encode(), None),
        "episodes.jsonl.zst": (compress(content), len(content)),
        "summary.json": (summary_json(summary).encode(), None),
    }


def _manifest(manifest: Manifest) -> Manifest:
    """A run's manifest in which the command begins as users type it.

    Earlier versions recorded the path of the script that Python ran.
    """
    _, *words = manifest.command or (PROGRAM,)
    model = _stated(manifest.model)
    return manifest.model_copy(update={"command": (PROGRAM, *words), "model": model})


def _stated(model: ModelIdentity) -> ModelIdentity:
    """A model as a submission names it: hub models by commit only."""
    return model.model_copy(update={"sha256": None}) if model.kind == "hub" else model


def _write(
    folder: Path,
    about: Mapping[str, Any],
    files: Mapping[str, tuple[bytes, int | None]],
    commands: Sequence[str],
    again: str,
    judge: Callable[[Path], Sequence[Finding]] | None,
) -> Submission:
    """Write everything or nothing."""
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
    readme = _readme(submission, folder.name, commands, again).encode()
    digest = hashlib.sha256(readme).hexdigest()
    stored = StoredFile(path=README, bytes=len(readme), sha256=digest)
    submission = submission.model_copy(update={"files": (*submission.files, stored)})
    stated = (submission.model_dump_json(indent=2) + "\n").encode()
    contents = {name: content for name, (content, _) in files.items()}
    around = folder.with_name(f".{folder.name}.new")
    # The judge needs the folder's final name.
    fresh = around / folder.name
    try:
        if folder.exists():
            raise UserError(f"{folder} already exists: remove it to prepare it again")
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


def _readme(submission: Submission, folder: str, commands: Sequence[str], again: str) -> str:
    """The folder's README, from `submission.json`."""
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
        reproduce=again,
        program=PROGRAM,
        folder=folder,
    )
