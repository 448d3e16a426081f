"""Checks records by replaying every episode, and what a replay takes as given."""

import time
from collections.abc import Iterator

from benchmark.evaluation.replay import replay_run
from benchmark.evaluation.summary import summary_json
from benchmark.submissions.checks.context import Context
from benchmark.submissions.checks.records import check_records
from benchmark.submissions.format.findings import Finding, attempt
from benchmark.submissions.reading.entry import REMAKE, Entry, ReadRun
from benchmark.submissions.reading.folder import read_plain
from benchmark.submissions.reading.replays import key_of

Outcome = tuple[list[Finding], int]
"""Objections to a run, and how many turns of it are in doubt."""
MAX_SHOWN = 10
"""Findings of one run's replay that are spelled out; the others are counted."""


def check_replay(entry: Entry, context: Context) -> Iterator[Finding]:
    """Replay all runs, unless something was found before: of other panels there is nothing to."""
    if not (context.sound and context.replay):
        return
    until = time.monotonic() + context.replay_s
    for run in entry.runs:
        problems, doubted = _held_before(run, context) or _executed(run, context, until)
        yield from problems
        yield from _check_summary(entry, run)
        context.replayed += len(run.records)
        context.doubts += doubted


def _held_before(run: ReadRun, context: Context) -> Outcome | None:
    """What is known of a run that was executed before; None if it was not."""
    if context.replays is None:
        return None
    doubted = context.replays.doubts(key_of(run.manifest, run.records))
    return None if doubted is None else ([], doubted)


def _executed(run: ReadRun, context: Context, until: float) -> Outcome:
    """Execute a run, and look at what its replay takes as given."""
    problems, doubted = _replay(run, context, until)
    if not problems:
        problems = list(check_records(run, context.env_processes))
    if not problems and context.replays is not None:
        context.replays.keep(key_of(run.manifest, run.records), doubted)
    return problems, doubted


def _replay(run: ReadRun, context: Context, until: float) -> Outcome:
    """Execute all episodes of a run again, as long as there is time.

    Returns:
        Where they differ from the records, and how many turns are in doubt.
    """
    name = f"{run.path}/episodes.jsonl.zst"
    doubts, differing = 0, 0
    findings: list[Finding] = []
    for number, replay in enumerate(replay_run(run.manifest, run.records, context.env_processes)):
        if time.monotonic() > until:
            problem = (
                f"replays of the submission take more than {context.replay_s / 60:.0f} minutes; "
                f"{number} of {len(run.records)} records of this run were executed"
            )
            fix = "send fewer panels at once, or answers whose programs end sooner"
            return [Finding(name, "", problem, fix)], doubts
        doubts += len(replay.doubts)
        if replay.differences:
            differing += 1
            if len(findings) < MAX_SHOWN:
                key = "/".join(map(str, replay.record.key))
                problem = f"does not match: {replay.differences[0]}"
                findings.append(Finding(name, key, problem, REMAKE))
    if differing > MAX_SHOWN:
        problem = f"{differing} of {len(run.records)} records do not match"
        findings.append(Finding(name, "", problem, REMAKE))
    return findings, doubts


def _check_summary(entry: Entry, run: ReadRun) -> Iterator[Finding]:
    name = f"{run.path}/summary.json"
    content = attempt([], read_plain, entry.folder, name)
    if content != summary_json(run.summary).encode():
        problem = "does not match the records"
        yield Finding(
            name, "", problem, "run arlarena-bench report on the run, then submit prepare again"
        )
