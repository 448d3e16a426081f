"""Checks records by replaying every episode, and what a replay takes as given."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from benchmark.evaluation.replay import replay_run
from benchmark.evaluation.summary import summary_json
from benchmark.submissions.checks.context import Context
from benchmark.submissions.checks.records import check_records
from benchmark.submissions.format.findings import Finding, attempt
from benchmark.submissions.reading.entry import REMAKE, Entry, ReadRun
from benchmark.submissions.reading.folder import read_plain
from benchmark.submissions.reading.replays import SLOW_S, Refusal, key_of

Outcome = tuple[list[Finding], int]
"""Objections to a run, and how many turns of it are in doubt."""
MAX_SHOWN = 10
"""Findings of one run's replay that are spelled out; the others are counted."""
_OF_ENTRY = (
    "replays of the submission take more than {:.0f} minutes",
    "send fewer panels at once, or answers whose programs end sooner",
)
_IN_BUILD = (
    "this build ran out of time before the replay finished",
    "build again with the same --replays file: verified records are not replayed",
)
"""What is wrong, and what to do, where a replay was ended."""


def check_replay(entry: Entry, context: Context) -> list[Finding]:
    """Replay all runs, unless something was found before: of other panels there is nothing to."""
    if not (context.sound and context.replay):
        return []
    replayed = _check_runs(entry, context)
    return [*replayed, *(finding for run in entry.runs for finding in _check_summary(entry, run))]


def _check_runs(entry: Entry, context: Context) -> list[Finding]:
    """Replay all runs, or say what is known of that: it follows from their content alone."""
    replays = context.replays
    keys = [key_of(run.manifest, run.records) for run in entry.runs] if replays else []
    known = replays.refusal(keys, context.replay_s) if replays else None
    if known is not None:
        # Where that is wrong, the file of replays can be deleted.
        return [replace(f, fix=f"{f.fix} (from an earlier replay)") for f in known.findings]
    began = time.monotonic()
    findings = _replay_runs(entry, context, keys, began + context.replay_s)
    slow = time.monotonic() - began >= min(SLOW_S, context.replay_s)
    if findings and slow and replays and not context.unfinished:
        replays.refuse(keys, Refusal(limit_s=context.replay_s, findings=tuple(findings)))
    return findings


def _replay_runs(
    entry: Entry, context: Context, keys: Sequence[str], until: float
) -> list[Finding]:
    """Replay the runs that are not known to hold."""
    findings: list[Finding] = []
    for number, run in enumerate(entry.runs):
        held = context.replays.doubts(keys[number]) if context.replays else None
        problems, doubted = _executed(run, context, until) if held is None else _held(run, held)
        if context.replays and held is None and not problems:
            context.replays.keep(keys[number], doubted)
        findings += problems
        context.replayed += len(run.records)
        context.doubts += doubted
        if problems and time.monotonic() > min(until, context.build_until):
            break
    return findings


def _executed(run: ReadRun, context: Context, until: float) -> Outcome:
    """Execute a run, and look at what its replay takes as given."""
    problems, doubted = _replay(run, context, until)
    return problems or list(check_records(run, context.env_processes)), doubted


def _held(run: ReadRun, doubted: int) -> Outcome:
    """Look again at the records of a run that held: by other rules than then, perhaps.

    What is kept of a scripted policy holds under these very rules, and asking it takes long.
    """
    policy = run.manifest.model.kind == "policy"
    return [] if policy else list(check_records(run, None)), doubted


def _replay(run: ReadRun, context: Context, until: float) -> Outcome:
    """Execute all episodes of a run again, as long as there is time.

    Returns:
        Where they differ from the records, and how many turns are in doubt.
    """
    name = f"{run.path}/episodes.jsonl.zst"
    doubts, differing = 0, 0
    findings: list[Finding] = []
    for number, replay in enumerate(replay_run(run.manifest, run.records, context.env_processes)):
        if time.monotonic() > min(until, context.build_until):
            context.unfinished = time.monotonic() <= until
            what, fix = _IN_BUILD if context.unfinished else _OF_ENTRY
            problem = (
                f"{what.format(context.replay_s / 60)}; {number} of {len(run.records)} records of "
                "this run were executed"
            )
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
