"""Check that records hold: every episode is executed again, and what a replay takes as given."""

from collections.abc import Iterator

from benchmark.evaluation.replay import replay_run
from benchmark.evaluation.summary import summary_json
from benchmark.submissions.checks.context import Context
from benchmark.submissions.checks.records import check_records
from benchmark.submissions.format.findings import Finding, attempt
from benchmark.submissions.reading.entry import REMAKE, Entry, ReadRun
from benchmark.submissions.reading.folder import read_plain

MAX_SHOWN = 10
"""Findings of one run's replay that are spelled out; the others are counted."""


def check_replay(entry: Entry, context: Context) -> Iterator[Finding]:
    """Replay all runs, unless something was found before: of other panels there is nothing to."""
    if not (context.sound and context.replay):
        return
    for run in entry.runs:
        problems, doubted = _replay(run, context.env_processes)
        yield from problems
        yield from _check_summary(entry, run)
        if not problems:
            yield from check_records(run, context.env_processes)
        context.replayed += len(run.records)
        context.doubts += doubted


def _replay(run: ReadRun, env_processes: int | None) -> tuple[list[Finding], int]:
    """Execute all episodes of a run again.

    Returns:
        Where they differ from the records, and how many turns are in doubt.
    """
    name = f"{run.path}/episodes.jsonl.zst"
    doubts, differing = 0, 0
    findings: list[Finding] = []
    for replay in replay_run(run.manifest, run.records, env_processes):
        doubts += len(replay.doubts)
        if replay.differences:
            differing += 1
            if len(findings) < MAX_SHOWN:
                key = "/".join(map(str, replay.record.key))
                problem = f"does not hold: {replay.differences[0]}"
                findings.append(Finding(name, key, problem, REMAKE))
    if differing > MAX_SHOWN:
        problem = f"{differing} of {len(run.records)} records do not hold"
        findings.append(Finding(name, "", problem, REMAKE))
    return findings, doubts


def _check_summary(entry: Entry, run: ReadRun) -> Iterator[Finding]:
    name = f"{run.path}/summary.json"
    content = attempt([], read_plain, entry.folder, name)
    if content != summary_json(run.summary).encode():
        problem = "is not what the records give"
        yield Finding(name, "", problem, "run arlarena-bench report on the run, and prepare again")
