"""Whether the records of a submission are those of another one under a new name.

Two models do not give a hundred answers the same log-probability to the last digit. Records
without log-probabilities can be told apart by their responses alone, which say less: equal greedy
answers to easy prompts are no proof of anything, so such records are not looked at.
"""

from collections.abc import Iterable, Sequence

from benchmark.records import EpisodeRecord
from benchmark.submissions.entry import Entry
from benchmark.submissions.findings import Finding
from benchmark.submissions.protocol_checks import same_weights

COPIED_SHARE = 0.5
"""Of the episodes of a run: more than that with equal answers and log-probabilities are copies."""

Trace = tuple[tuple[str, float], ...]


def check_copies(entry: Entry, others: Iterable[Entry]) -> list[Finding]:
    """Compare the records of a submission with each other's and with those of others.

    Args:
        entry: The submission.
        others: Submissions that are there already.
    """
    findings = []
    known = [
        (f"{other.folder.name}/{run.path}", run.manifest.model, traces(run.records))
        for other in others
        for run in other.runs
    ]
    for run in entry.runs:
        mine = traces(run.records)
        for name, model, theirs in known:
            if mine and not same_weights(model, run.manifest.model):
                equal = sum(theirs.get(key) == trace for key, trace in mine.items())
                if equal > COPIED_SHARE * len(mine):
                    problem = (
                        f"{equal} of {len(mine)} episodes have the answers and log-probabilities "
                        f"of {name}, which is of {model.text}"
                    )
                    fix = "send what the named model has played"
                    file = f"{run.path}/episodes.jsonl.zst"
                    findings.append(Finding(file, "", problem, fix))
        known.append((run.path, run.manifest.model, mine))
    return findings


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
