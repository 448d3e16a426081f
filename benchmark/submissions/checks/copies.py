"""Whether a submission, or a part of it, is another one under a new name.

Weights play a panel once, whatever they are called (policies may: their names are no secret). Two
models do not give a hundred answers log-probabilities with the same first digits. Records without
log-probabilities can be told apart by their responses alone, which say less: equal greedy answers
to easy prompts are no proof of anything, so such records are not looked at. Two trainings do not
have the same gradient norms either. Who changes most of the numbers in one of their first `DIGITS`
digits (`log_checks`), or of an update more than a fifth, is not seen.
"""

from collections.abc import Collection, Iterator

from benchmark.submissions.checks.context import Context
from benchmark.submissions.checks.known import Known, KnownRun, Unread
from benchmark.submissions.checks.logs import equal_updates, traced
from benchmark.submissions.checks.protocol import same_weights
from benchmark.submissions.format.findings import Finding
from benchmark.submissions.format.schema import SUBMISSION
from benchmark.submissions.reading.entry import Entry
from tasks.texts import on_one_line

COPIED_SHARE = 0.5
"""Of the episodes of a run: more than that with equal answers and log-probabilities are copies."""


def check_copies(entry: Entry, context: Context) -> list[Finding]:
    """Compare a submission's names, weights, records and logs with those of others."""
    mine = [KnownRun.of(run) for run in entry.runs]
    logs = [(str(p.log.path), traced(p.log)) for p in entry.checkpoints if p.log is not None]
    findings: list[Finding] = []
    for number, run in enumerate(mine):
        for before in mine[:number]:
            findings += _check_run(run, before, before.path)
    for other in _compared(context):
        folder = other.peer.folder
        findings += _check_said(entry, other)
        for theirs in other.runs:
            for run in mine:
                findings += _check_run(run, theirs, f"{folder}/{theirs.path}")
        for path, known in other.logs.items():
            for file, numbers in logs:
                if equal := equal_updates(numbers, known):
                    problem = f"{equal} updates have the numbers of {folder}/{path}"
                    fix = "send the logs of your own trainings"
                    findings.append(Finding(file, "", problem, fix))
    return findings


def _compared(context: Context) -> Iterator[Known]:
    """Hand on the others one by one; of each only the results stay."""
    for other in context.others:
        if isinstance(other, Unread):
            context.notes.append(on_one_line(f"not compared with {other.folder}: {other.reason}"))
        else:
            context.peers.append(other.peer)
            yield other


def _check_said(entry: Entry, other: Known) -> Iterator[Finding]:
    """Compare names and weights."""
    mine, peer = entry.submission, other.peer
    if _plain(mine.name) == _plain(peer.name):
        problem = f"{mine.name} is what {peer.folder} is called"
        yield Finding(SUBMISSION, "name", problem, "choose another name")
    both_trained = mine.method.kind == "trained" and peer.trained
    played = {key: panel.fingerprint for key, panel in entry.checkpoints[0].panels.items()}
    again = any(played.get(key) == panel.fingerprint for key, panel in peer.panels.items())
    if mine.method.kind == "policy" or not (both_trained or again):
        return
    for number, point in enumerate(mine.checkpoints):
        if any(same_weights(point.model, model) for model in other.models):
            problem = f"{point.model.text}: {peer.folder} has the same weights"
            fix = "send weights of your own; maintainers can take an older entry away"
            yield Finding(SUBMISSION, f"checkpoints.{number}.model", problem, fix)


def _plain(name: str) -> str:
    return " ".join(name.casefold().split())


def _check_run(mine: KnownRun, theirs: KnownRun, name: str) -> Iterator[Finding]:
    """Compare the records of a run with those of another run, which is called `name`."""
    if not mine.traces or same_weights(theirs.model, mine.model):
        return
    equal = sum(_alike(trace, theirs.traces.get(key, ())) for key, trace in mine.traces.items())
    if equal > COPIED_SHARE * len(mine.traces):
        problem = (
            f"{equal} of {len(mine.traces)} episodes have the answers and log-probabilities of "
            f"{name}, which is of {theirs.model.text}"
        )
        fix = "send what the named model has played"
        yield Finding(f"{mine.path}/episodes.jsonl.zst", "", problem, fix)


def _alike(mine: Collection[int], theirs: Collection[int]) -> bool:
    """Whether most turns of an episode are the same."""
    return sum(turn in theirs for turn in mine) > COPIED_SHARE * len(mine)
