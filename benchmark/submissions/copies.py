"""Whether a submission, or a part of it, is another one under a new name.

Two models do not give a hundred answers the same log-probability to the last digit. Records
without log-probabilities can be told apart by their responses alone, which say less: equal greedy
answers to easy prompts are no proof of anything, so such records are not looked at. Two trainings
do not have the same gradient norms either. Who changes every number a little is not seen.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmark.manifest import ModelIdentity
from benchmark.records import EpisodeRecord
from benchmark.submissions.entry import Entry, ReadRun
from benchmark.submissions.findings import Finding
from benchmark.submissions.log_checks import equal_updates, traced
from benchmark.submissions.protocol_checks import same_weights
from benchmark.submissions.schema import SUBMISSION

COPIED_SHARE = 0.5
"""Of the episodes of a run: more than that with equal answers and log-probabilities are copies."""

Trace = tuple[tuple[str, float], ...]
Traces = Mapping[tuple[str, str, str, int], Trace]


@dataclass(frozen=True, slots=True)
class _Played:
    """A run, and what its model said."""

    run: ReadRun
    traces: Traces


def check_copies(entry: Entry, others: Iterable[Entry]) -> list[Finding]:
    """Compare a submission's names, weights, records and logs with those of others.

    Args:
        entry: The submission.
        others: Submissions that are there already, taken one by one: none is kept.
    """
    mine = [_Played(run, traces(run.records)) for run in entry.runs]
    logs = [(str(p.log.path), traced(p.log)) for p in entry.checkpoints if p.log is not None]
    findings: list[Finding] = []
    for number, played in enumerate(mine):
        for before in mine[:number]:
            model = before.run.manifest.model
            findings += _check_run(played, before.run.path, model, before.traces)
    for other in others:
        findings += _check_said(entry, other)
        for run in other.runs:
            theirs = traces(run.records)
            name = f"{other.folder.name}/{run.path}"
            for played in mine:
                findings += _check_run(played, name, run.manifest.model, theirs)
        for log in (point.log for point in other.checkpoints if point.log is not None):
            known = traced(log)
            for file, numbers in logs:
                if equal := equal_updates(numbers, known):
                    problem = f"{equal} updates have the numbers of {other.folder.name}/{log.path}"
                    fix = "send the logs of your own trainings"
                    findings.append(Finding(file, "", problem, fix))
    return findings


def _check_said(entry: Entry, other: Entry) -> Iterator[Finding]:
    """Compare names and weights."""
    mine, theirs = entry.submission, other.submission
    if _plain(mine.name) == _plain(theirs.name):
        problem = f"{mine.name} is what {other.folder.name} is called"
        yield Finding(SUBMISSION, "name", problem, "choose another name")
    if mine.method.kind != "trained" or theirs.method.kind != "trained":
        return
    for number, point in enumerate(mine.checkpoints):
        if any(same_weights(point.model, known.model) for known in theirs.checkpoints):
            problem = f"{point.model.text}: {other.folder.name} has the same weights"
            fix = "send weights of your own; maintainers can take an older entry away"
            yield Finding(SUBMISSION, f"checkpoints.{number}.model", problem, fix)


def _plain(name: str) -> str:
    return " ".join(name.casefold().split())


def _check_run(
    played: _Played, name: str, model: ModelIdentity, theirs: Traces
) -> Iterator[Finding]:
    """Compare the records of a run with those of another run."""
    run, mine = played.run, played.traces
    if not mine or same_weights(model, run.manifest.model):
        return
    equal = sum(theirs.get(key) == trace for key, trace in mine.items())
    if equal > COPIED_SHARE * len(mine):
        problem = (
            f"{equal} of {len(mine)} episodes have the answers and log-probabilities of {name}, "
            f"which is of {model.text}"
        )
        fix = "send what the named model has played"
        yield Finding(f"{run.path}/episodes.jsonl.zst", "", problem, fix)


def traces(records: Sequence[EpisodeRecord]) -> dict[tuple[str, str, str, int], Trace]:
    """Answers with their log-probabilities, of episodes that have them."""
    found = {}
    for record in records:
        trace = tuple(
            (turn.response, turn.log_prob) for turn in record.turns if turn.log_prob is not None
        )
        if trace and len(trace) == len(record.turns):
            found[record.key] = trace
    return found
