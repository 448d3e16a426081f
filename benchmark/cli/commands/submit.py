"""`arlarena-bench submit`: create a submission's folder, and check one as CI does."""

import argparse
import re
import shlex
import tempfile
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from benchmark.cli.from_baselines import (
    find_model,
    method_fault,
    pinned_hashes,
    rate_fault,
    registered_tracks,
    shipped_weights,
    train_command,
)
from benchmark.cli.say import say
from benchmark.commands_of_entry import plugins_of
from benchmark.evaluation.run_folder import MANIFEST
from benchmark.evaluation.summarize import summarize
from benchmark.files import write_atomically
from benchmark.stats.formatting import percent_text
from benchmark.submissions.about import WRITTEN, Kind, read_about
from benchmark.submissions.badges import Badges, badges_of
from benchmark.submissions.check import CheckResult, check_submission, read_others
from benchmark.submissions.checks.changes import drafts_in
from benchmark.submissions.checks.context import Context
from benchmark.submissions.checks.results import early_stops, panel_results
from benchmark.submissions.draft import FILL_IN, draft
from benchmark.submissions.format.findings import Finding, Rejected
from benchmark.submissions.format.schema import FOLDER_NAME, SUBMISSION
from benchmark.submissions.parts import RunUpload, parts_of
from benchmark.submissions.prepare import NotAccepted, prepare
from benchmark.submissions.reading.entry import Entry
from benchmark.submissions.reading.folder import read_submission
from benchmark.submissions.reading.remote import move_to_hub
from benchmark.submissions.reading.reruns import Reruns, read_reruns
from benchmark.submissions.report import ALONE, NO_LOGS, comment, no_verdict, verdict_json
from benchmark.submissions.report_rows import (
    DIFFERENCE_HEAD,
    PANEL_HEAD,
    TRAINING_HEAD,
    ComparedEntry,
    badges_text,
    compared_with,
    difference_rows,
    panel_rows,
    stability_head,
    stability_rows,
    training_rows,
)
from tasks.errors import UserError, os_error_as
from tasks.strict import first_fault
from tasks.texts import counted, on_one_line

DATASET = re.compile(r"[^/@]+/[^/@]+@[0-9a-f]{40}")
KINDS: Final[dict[str, Kind]] = {"policy": "policy", "init": "init"}
"""Kind of a method by the kind of its model; all others were trained."""
PART_HEAD: Final = ("seed", "runs", "success", "recipe", "updates", "log")
WIDTH: Final = 100
"""Width of a table on the terminal, in columns."""
MAX_CELL: Final = 28
"""Maximum width of a cell, except in the last column."""
MAX_OTHER: Final = 44
"""Maximum width of the name of an entry to compare with, which ends in the track."""
MAX_SEEDS: Final = 24
"""Maximum width of the numbers of all seeds; longer lists are shown as a range."""


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    actions = {"init": _init, "prepare": _prepare, "to-hub": _to_hub, "check": _check}
    return actions[arguments.action](arguments)


def _to_hub(arguments: argparse.Namespace) -> int:
    folder = Path(arguments.folder)
    dataset, _, revision = arguments.dataset.partition("@")
    if not DATASET.fullmatch(arguments.dataset):
        raise UserError(
            f"--dataset {arguments.dataset}: give the dataset and its commit, "
            "OWNER/NAME@COMMIT with 40 hex digits; branches can change"
        )
    try:
        submission = read_submission(folder)
        count = move_to_hub(folder, submission, dataset, revision)
    except Rejected as rejected:
        raise UserError(f"{folder}: {rejected}") from rejected
    except ValidationError as error:
        raise UserError(f"--dataset {arguments.dataset}: {first_fault(error)}") from error
    say(f"{counted(count, 'file')} of {folder} moved to the hub; check the folder again")
    return 0


def _init(arguments: argparse.Namespace) -> int:
    path = Path(arguments.out)
    if path.exists():
        raise UserError(f"{path} exists already; choose another file with --out")
    parts = _parts(arguments)
    kind = _kind(parts)
    text = draft(parts, kind, shipped_weights())
    _write(path, text)
    logs = [word for log in arguments.training_log for word in ("--training-log", log)]
    maps = [word for meaning in arguments.map for word in ("--map", meaning)]
    seeds = ["--seeds", ",".join(map(str, arguments.seeds))] if arguments.seeds else []
    out = f"submissions/{datetime.now(UTC):%Y%m%d}_my-method"
    words = [*arguments.run, *logs, *maps, *seeds, "--about", str(path), "--out", out]
    for note in filter(None, (log_note(parts, kind), plugin_note(parts))):
        say(note)
    say(f"{path}: {text.count(FILL_IN) - 1} lines to fill in, then:")
    say(f"arlarena-bench submit prepare {shlex.join(words)}")
    return 0


def _parts(arguments: argparse.Namespace) -> list[RunUpload]:
    """The given checkpoints, with their runs and logs.

    Raises:
        UserError: There is no run, or `parts_of` finds a fault.
    """
    # `--training-log LOG RUN` parses the run as a log, too; only runs have a manifest.
    given = [Path(path) for path in arguments.training_log]
    runs = [Path(run) for run in arguments.run]
    runs += [path for path in given if (path / MANIFEST).exists()]
    logs = [path for path in given if path not in runs]
    if not runs:
        raise UserError("give at least one run folder written by `eval`")
    return parts_of(runs, logs, arguments.seeds, arguments.map)


def _prepare(arguments: argparse.Namespace) -> int:
    folder = Path(arguments.out)
    if not FOLDER_NAME.fullmatch(folder.name):
        raise UserError(
            f"--out {arguments.out}: the folder must be named <yyyymmdd>_<name>, with "
            "lowercase letters, digits and hyphens, such as "
            f"submissions/{datetime.now(UTC):%Y%m%d}_my-method"
        )
    if folder.exists():
        raise UserError(f"{folder} already exists: remove it to prepare it again")
    parts = _parts(arguments)
    kind = _kind(parts)
    day = _day(folder)
    file = Path(arguments.about)
    about = read_about(file, kind, day, lambda name: find_model(name).identity)
    findings: list[Finding] = []

    def judge(fresh: Path) -> Sequence[Finding]:
        findings.extend(_objections(fresh, folder.parent))
        # Findings that only a rerun can settle need the folder.
        return () if all(finding.until_rerun for finding in findings) else findings

    try:
        prepare(parts, about, folder, judge)
    except NotAccepted as refused:
        for finding in refused.findings:
            say(_of_author(finding, file).text)
        say(f"{folder} was not created: {refused} to fix first")
        return 1
    say(_table(PART_HEAD, [_part_row(part) for part in parts]))
    runs = counted(sum(len(part.runs) for part in parts), "run")
    say(f"{folder}: {counted(len(parts), 'checkpoint')}, {runs}")
    for note in filter(None, (init_note(about), log_note(parts, kind))):
        say(note)
    if about["method"]["code"] is None and (note := plugin_note(parts)):
        say(note)
    for finding in findings:
        say(f"note: rejected until maintainers have played it again: {finding.text}")
    say(f"review {folder / SUBMISSION}, then run: arlarena-bench submit check {folder}")
    return 0


def _day(folder: Path) -> str:
    """The date in the name of a submission's folder, in ISO 8601.

    Raises:
        UserError: There is no such date.
    """
    day = f"{folder.name[:4]}-{folder.name[4:6]}-{folder.name[6:8]}"
    try:
        date.fromisoformat(day)
    except ValueError as error:
        raise UserError(
            f"--out {folder}: its name begins with the date of the submission, but there is no "
            f"date {day}; today is {datetime.now(UTC):%Y%m%d}"
        ) from error
    return day


def log_note(parts: Sequence[RunUpload], kind: Kind) -> str:
    """A note on what trained weights lack without training logs; empty if nothing is missing."""
    if kind != "trained" or any(part.log or part.foreign for part in parts):
        return ""
    return (
        "note: without --training-log, the entry is not on a track and has no stability; the log "
        "may be next to the weights"
    )


def plugin_note(parts: Sequence[RunUpload]) -> str:
    """A note on plug-ins, whose code is not part of an entry; empty without any."""
    names = plugins_of(part.log for part in parts)
    if not names:
        return ""
    plugins = "plug-in" if len(names) == 1 else "plug-ins"
    return (
        f"note: trained with {plugins} {', '.join(names)}: give method.code, or no one can "
        "reproduce it"
    )


def init_note(about: Mapping[str, Any]) -> str:
    """A note on an init that only its author can inspect; empty for a registered one."""
    init = about.get("init")
    if not isinstance(init, Mapping) or init.get("kind") == "init":
        return ""
    return (
        f"note: the init {on_one_line(str(init.get('name')))} is not a registered one, so nothing "
        "checks its hash: the badge will be `init: open`"
    )


def _objections(fresh: Path, around: Path) -> tuple[Finding, ...]:
    """All findings of the check on a folder, without the replay."""
    others = read_others(around) if around.is_dir() else ()
    context = context_here(
        others=others, drafts=drafts_in(around), reruns=read_reruns(around), replay=False
    )
    return check_submission(fresh, context).findings


def context_here(**chosen: Any) -> Context:
    """The context for checking submissions here, with the registered inits and tracks.

    Args:
        chosen: The other fields of `Context`.
    """
    return Context(
        pinned_hashes(),
        shipped=shipped_weights(),
        tracks=registered_tracks(),
        method_fault=method_fault,
        rate_fault=rate_fault,
        **chosen,
    )


def _of_author(finding: Finding, about: Path) -> Finding:
    """Change a finding to name the file in which the author made the mistake."""
    if finding.file == SUBMISSION and finding.field.partition(".")[0] in WRITTEN:
        return replace(finding, file=str(about))
    return finding


def _part_row(part: RunUpload) -> tuple[str, ...]:
    """The packed contents of one checkpoint, as a row under `PART_HEAD`."""
    panels = [
        f"{panel.task}/{panel.panel} {percent_text(panel.success.value)}"
        for run in part.runs
        for panel in summarize(run.manifest, run.records).panels
    ]
    runs = ", ".join(run.path.name for run in part.runs)
    if part.foreign is not None:
        kind, log = part.foreign.format, str(part.foreign.files[0])
        return str(part.seed), runs, ", ".join(panels), f"from {kind}", "-", log
    if part.log is None:
        return str(part.seed), runs, ", ".join(panels), "none", "none", "none"
    start, last = part.log.start, part.log.updates
    made = f"{last[-1].update:,}" if last else "0"
    return str(part.seed), runs, ", ".join(panels), start.recipe, made, str(part.log.path)


def _check(arguments: argparse.Namespace) -> int:
    folder = Path(arguments.folder).absolute()
    around = Path(arguments.submissions) if arguments.submissions else folder.parent
    for file in filter(None, (arguments.comment, arguments.json)):
        _try(Path(file))
    try:
        reruns = read_reruns(around)
        verdict = _judged(arguments, folder, around, reruns)
        badges = badges_of(verdict, reruns) if verdict.accepted else None
    except UserError as error:
        if arguments.comment:
            _write(Path(arguments.comment), no_verdict(folder.name, str(error)))
        raise
    compared = compared_with(verdict.entry, verdict.peers) if badges and verdict.entry else []
    if arguments.json:
        _write(Path(arguments.json), verdict_json(verdict, badges))
    if arguments.comment:
        _write(Path(arguments.comment), comment(verdict, badges, compared))
    for finding in verdict.findings:
        say(finding.text)
    for note in verdict.notes:
        say(f"note: {note}")
    if badges is None or verdict.entry is None:
        found = counted(len(verdict.findings), "finding")
        said = "waits for a rerun" if verdict.waits else "rejected"
        say(f"{on_one_line(folder.name)}: {said}, {found}")
        return 1
    say(_numbers(verdict.entry, badges, compared))
    doubts = f", {verdict.doubts} turns inconclusive" if verdict.doubts else ""
    say(f"{folder.name}: accepted, {verdict.replayed} episodes replayed, all match{doubts}")
    return 0


def _numbers(entry: Entry, badges: Badges, compared: Sequence[ComparedEntry]) -> str:
    """The terminal output for an accepted submission: the tables of the comment, made narrower."""
    results = panel_results(entry)
    panels = [
        (*row[:2], row[2] if len(row[2]) <= MAX_SEEDS else _span(row[2]), *row[3:])
        for row in panel_rows(results)
    ]
    parts = [f"badges: {badges_text(badges)}", _table(PANEL_HEAD, panels)]
    if entry.submission.method.kind == "trained":
        parts.append(_table(TRAINING_HEAD, training_rows(entry)))
        rows = stability_rows(entry)
        parts.append(_table(stability_head(entry), rows) if rows else NO_LOGS)
        for seed, reason in early_stops(entry).items():
            parts.append(
                on_one_line(
                    f"seed {seed} was stopped early, which counts as a collapse: {reason}", WIDTH
                )
            )
    differences = [
        (panel, f"{what} ({name})", found)
        for panel, what, name, found in difference_rows(entry, results, compared)
    ]
    parts.append(_table(DIFFERENCE_HEAD, differences, MAX_OTHER) if differences else ALONE)
    return "\n\n".join(parts) + "\n"


def _kind(parts: Sequence[RunUpload]) -> Kind:
    """The kind of an entry with these checkpoints."""
    return KINDS.get(parts[0].model.kind, "trained")


def _span(numbers: str) -> str:
    """The lowest and the highest of many numbers, as text."""
    of = sorted(numbers.split(", "), key=float)
    return f"{of[0]} to {of[-1]}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], longest: int = MAX_CELL) -> str:
    """Format columns for the terminal: the last one is wrapped, the others are truncated."""
    cells = [[on_one_line(cell, longest) for cell in row[:-1]] for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    before = sum(widths) + 2 * len(widths)
    lines = []
    for first, row in zip(cells, (head, *rows), strict=True):
        start = "".join(f"{cell:<{width}}  " for cell, width in zip(first, widths, strict=True))
        width = max(WIDTH - before, MAX_CELL)
        # Paths stay in one piece for copying.
        whole = textwrap.wrap(row[-1], width, break_on_hyphens=False, break_long_words=False)
        for text in whole or [""]:
            lines.append(f"{start}{text}")
            start = " " * before
    return "\n".join(lines)


def _judged(
    arguments: argparse.Namespace, folder: Path, around: Path, reruns: Reruns
) -> CheckResult:
    if arguments.submissions and not around.is_dir():
        raise UserError(f"--submissions {around} is not a folder")
    if arguments.base is None and (arguments.head or arguments.repository):
        raise UserError("--head and --repository need --base")
    others = read_others(around, folder) if around.is_dir() else ()
    context = context_here(
        others=others,
        drafts=drafts_in(around),
        reruns=reruns,
        env_processes=arguments.env_processes,
        hub=True,
    )
    verdict = check_submission(
        folder,
        context,
        arguments.base,
        head=arguments.head or "HEAD",
        repository=Path(arguments.repository) if arguments.repository else None,
    )
    return _with_a_row(verdict, reruns)


def _with_a_row(verdict: CheckResult, reruns: Reruns) -> CheckResult:
    """Compute an accepted entry's row as the board will, to detect errors here."""
    from leaderboard.board.build import fault_of, shown_of

    if not verdict.accepted or verdict.entry is None:
        return verdict
    try:
        shown_of(verdict, verdict.entry, reruns, train_command)
    except Exception as error:
        return replace(verdict, findings=(fault_of(error),))
    return verdict


def _try(path: Path) -> None:
    """Check that a file can be written, before minutes of work are lost.

    Raises:
        UserError: It cannot be written.
    """
    if path.is_dir():
        raise UserError(f"{path} cannot be written: it is a folder; choose a file name")
    with os_error_as(f"{path} cannot be written"), tempfile.TemporaryFile(dir=path.parent):
        pass


def _write(path: Path, content: str) -> None:
    with os_error_as(f"{path} cannot be written"):
        write_atomically(path, content.encode())
