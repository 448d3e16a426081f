"""`arlarena-bench submit`: make a submission's folder, and check one as CI does."""

import argparse
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from benchmark.commands.inits import find_model
from benchmark.files import write_atomically
from benchmark.submissions.badges import badges_of, read_reruns
from benchmark.submissions.check import check_submission, read_accepted
from benchmark.submissions.entry import Entry
from benchmark.submissions.findings import Rejected
from benchmark.submissions.folder import read_submission
from benchmark.submissions.prepare import parts_of, prepare
from benchmark.submissions.remote import move_to_hub
from benchmark.submissions.report import comment, verdict_json
from benchmark.submissions.results import panel_results
from benchmark.submissions.schema import FOLDER_NAME, SUBMISSION
from benchmark.submissions.texts import on_one_line
from tasks.errors import UserError

MAX_ABOUT = 2**16
"""Bytes of what people write."""


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    actions = {"prepare": _prepare, "to-hub": _to_hub, "check": _check}
    return actions[arguments.action](arguments)


def _to_hub(arguments: argparse.Namespace) -> int:
    folder = Path(arguments.folder)
    dataset, _, revision = arguments.dataset.partition("@")
    try:
        submission = read_submission(folder)
        count = move_to_hub(folder, submission, dataset, revision)
    except (Rejected, ValidationError) as error:
        raise UserError(str(error).splitlines()[0]) from error
    print(f"{count} file(s) of {folder} lie on the hub now; check the folder again")
    return 0


def _prepare(arguments: argparse.Namespace) -> int:
    parts = parts_of(
        [Path(run) for run in arguments.run], [Path(log) for log in arguments.training_log]
    )
    kinds = {"policy": "policy", "init": "init"}
    kind = kinds.get(parts[0].model.kind, "trained")
    about = _about(Path(arguments.about), kind)
    folder = Path(arguments.out)
    if not FOLDER_NAME.fullmatch(folder.name):
        raise UserError(
            f"--out {arguments.out}: the folder must be called <yyyymmdd>_<name>, in small "
            f"letters, digits and hyphens, such as submissions/{datetime.now(UTC):%Y%m%d}_my-method"
        )
    day = folder.name[:8]
    about |= {"schema_version": 1, "date": f"{day[:4]}-{day[4:6]}-{day[6:]}"}
    prepare(parts, about, folder)
    print(f"{folder}: {len(parts)} checkpoint(s), {len(arguments.run)} run(s)")
    print(f"look at {folder / SUBMISSION}, then: arlarena-bench submit check {folder}")
    return 0


def _about(path: Path, kind: str) -> dict[str, Any]:
    """What people say of a submission, with all fields that may be left out.

    Raises:
        UserError: The file cannot be read or is no mapping.
    """
    try:
        content = path.read_bytes()
        if len(content) > MAX_ABOUT:
            raise UserError(f"{path} is longer than {MAX_ABOUT:,} bytes")
        about = yaml.safe_load(content.decode("utf-8"))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is no YAML: {str(error).splitlines()[0]}") from error
    if not isinstance(about, dict) or not isinstance(about.get("method"), dict):
        raise UserError(f"{path} must say name, authors, contact and method (see submissions/)")
    about = {"base_model": None, "parameters": None, "init": None, "training_data": None, **about}
    about["method"] = {"code": None, "paper": None, **about["method"], "kind": kind}
    if isinstance(about["init"], str):
        about["init"] = find_model(about["init"]).identity.model_dump(mode="json")
    return about


def _check(arguments: argparse.Namespace) -> int:
    folder = Path(arguments.folder).absolute()
    around = Path(arguments.submissions) if arguments.submissions else folder.parent
    if arguments.submissions and not around.is_dir():
        raise UserError(f"--submissions {around} is no folder")
    others = _others(around, folder)
    verdict = check_submission(folder, _inits(), others, arguments.base, arguments.env_processes)
    badges = badges_of(verdict, read_reruns(around)) if verdict.accepted else None
    compared = _compared(verdict.entry, others) if verdict.accepted and verdict.entry else []
    if arguments.json:
        _write(Path(arguments.json), verdict_json(verdict, badges))
    if arguments.comment:
        _write(Path(arguments.comment), comment(verdict, badges, compared))
    for finding in verdict.findings:
        print(finding.text)
    if badges is None or verdict.entry is None:
        print(f"{on_one_line(folder.name)}: not accepted, {len(verdict.findings)} finding(s)")
        return 1
    for key, result in panel_results(verdict.entry).items():
        print(f"{'/'.join(key)}: success {result.success.percent}")
    doubts = f", {verdict.doubts} turns in doubt" if verdict.doubts else ""
    print(f"{folder.name}: accepted, {verdict.replayed} episodes replayed and all hold{doubts}")
    return 0


def _write(path: Path, content: str) -> None:
    try:
        write_atomically(path, content.encode())
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}") from error


def _others(around: Path, folder: Path) -> list[Entry]:
    """The submissions beside a folder."""
    return [
        read_accepted(path)
        for path in sorted(around.iterdir() if around.is_dir() else [])
        if FOLDER_NAME.fullmatch(path.name) and path.resolve() != folder.resolve()
    ]


def _inits() -> Mapping[str, str | None]:
    """SHA-256 of the registered inits, where it is pinned."""
    from baselines.registry import read_registry

    return {name: init.sha256 for name, init in read_registry().items()}


def _compared(entry: Entry, others: list[Entry]) -> list[tuple[str, Entry]]:
    """What a submission is compared with: its init, and the best other one of each panel."""
    compared = []
    init = entry.submission.init
    for other in others:
        model = other.checkpoints[0].checkpoint.model
        if init is not None and init.sha256 is not None and model.sha256 == init.sha256:
            compared.append(("its init", other))
    best: dict[tuple[str, str], tuple[float, Entry]] = {}
    mine = panel_results(entry)
    for other in others:
        for key, result in panel_results(other).items():
            same = key in mine and mine[key].fingerprint == result.fingerprint
            trained = other.submission.method.kind == "trained"
            if same and trained and result.success.value > best.get(key, (-1.0, other))[0]:
                best[key] = result.success.value, other
    named = {other.folder: other for _, other in best.values()}
    return compared + [("the best so far", other) for other in named.values()]
