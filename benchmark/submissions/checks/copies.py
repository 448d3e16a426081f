"""Checks that a submission, or a part of it, is not a copy of another one.

Weights and policies may be entered once per panel and protocol, under any name. Two models do not
give a hundred responses log-probabilities with the same leading digits, and they do not fail in the
same way: regardless of the recorded numbers, records are copies if their responses, actions or
final results are those of another run, including failures. Success alone proves nothing, as an easy
level has only one best solution. Short training runs from one init may also play alike, so
similarity to another entry is no objection if a rerun by maintainers has shown that the weights
give these responses, which does not show whose weights they are. Inits are public, and weights
close to an init play like it, so runs are not compared with an init's earlier run in this way.
Responses of a policy require weights that anybody can load, or a rerun by maintainers.

Two training runs do not have the same gradient norms either, nor norms that rise and fall together.
Logs with noise of more than a few percent on most numbers are not detected, and neither are copies
that play more than a seventh of the failures and a twentieth of the episodes differently.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, product
from typing import Final, NamedTuple

from benchmark.models import same_files, same_weights
from benchmark.submissions.checks.accepted_entries import (
    AcceptedEntry,
    AcceptedRun,
    Traces,
    UnreadableEntry,
    changes_of,
    traces_of,
    validations_of,
)
from benchmark.submissions.checks.context import Context
from benchmark.submissions.checks.logs import MAX_PANELS
from benchmark.submissions.format.findings import Finding
from benchmark.submissions.format.schema import SUBMISSION
from benchmark.submissions.format.texts import skeleton
from benchmark.submissions.plays.likeness import (
    ALIKE_SHARE,
    FEWEST_ALIKE,
    Likeness,
    by_episode,
    matched,
)
from benchmark.submissions.plays.play_hash import EpisodeKey, PlayHash
from benchmark.submissions.reading.entry import Entry
from benchmark.submissions.reading.reruns import Place, own_plays
from benchmark.submissions.training_logs.begins import KnownStart, check_begins
from benchmark.submissions.training_logs.changes import Changes, changes_text, copied_changes
from benchmark.submissions.training_logs.likeness import (
    Hashes,
    Validations,
    equal_updates,
    equal_validations,
)
from tasks.texts import on_one_line

PLAYED: Final = "send episodes played by the named model"
PLAY_AGAIN: Final = (
    f"{PLAYED}; if they are, publish the weights at a commit on the hub and send the entry: a "
    "rerun decides (submissions/README.md, Copies)"
)
COPIED_SHARE = 0.5
"""Share of a run's episodes with equal responses and log-probabilities above which it is a copy."""
TAKEN_SHARE: Final = 0.1
"""The same for an existing run, because several entries could split it between them. Honest runs
have no such episodes."""


def check_copies(entry: Entry, context: Context) -> list[Finding]:
    """Compare a submission's names, weights, records and logs with those of others."""
    mine = [AcceptedRun.of(run) for run in entry.runs]
    logs, validations, changes = traces_of(entry), validations_of(entry), changes_of(entry)
    findings: list[Finding] = []
    own = own_plays(entry.folder, context.reruns)
    taken: dict[str, set[EpisodeKey]] = {run.path: set() for run in mine}
    starts: list[KnownStart] = []
    for number, run in enumerate(mine):
        for earlier in mine[:number]:
            # Seeds must be independent: weights of another seed plus noise would play alike.
            findings += check_run(run, earlier, earlier.path)
            taken[run.path] |= _equal(run, earlier)
    for other in _compared(context):
        folder, before = other.peer.folder, len(findings)
        findings += _check_said(entry, other)
        for theirs in other.runs:
            for run in mine:
                findings += check_run(run, theirs, f"{folder}/{theirs.path}", own)
                taken[run.path] |= _equal(run, theirs)
                if not _are_own(run, own):
                    findings += _check_policy(entry, run, theirs, context)
        findings += _check_logs(logs, validations, changes, other)
        starts += other.starts
        if len(findings) == before:
            findings += _check_order(entry, mine, logs, other, context)
        if draft := context.drafts.get(folder):
            fix = f"remove your earlier {draft}"
            findings[before:] = [replace(finding, fix=fix) for finding in findings[before:]]
    for point in entry.checkpoints:
        # `check_logs` reports logs with more panels.
        if point.log is not None and len(point.log.panels) <= MAX_PANELS:
            findings += check_begins(point, point.log, starts)
    named = {finding.file for finding in findings}
    return findings + [
        finding
        for run in mine
        for finding in check_taken(run, taken[run.path])
        if finding.file not in named
    ]


def _check_logs(
    logs: Mapping[str, Sequence[Hashes]],
    validations: Mapping[str, Validations],
    changes: Mapping[str, Changes],
    other: AcceptedEntry,
) -> Iterator[Finding]:
    """Compare the numbers of training logs."""
    fix = "send the logs of your own training runs"
    for (path, known), (file, numbers) in product(other.logs.items(), logs.items()):
        name = f"{other.peer.folder}/{path}"
        if equal := equal_updates(numbers, known.hashes):
            problem = f"{equal} updates have the same numbers as {name}"
            yield Finding(file, "", problem, fix)
        elif equal := equal_validations(validations.get(file, {}), known.validations):
            problem = f"{equal} validations after the init's are those of {name}"
            yield Finding(file, "validations", problem, fix)
        elif found := copied_changes(changes[file], known.changes):
            yield Finding(file, "", changes_text(found, name), fix)


def check_taken(run: AcceptedRun, taken: Collection[EpisodeKey]) -> Iterator[Finding]:
    """Look for a run that was assembled from episodes of several others.

    Args:
        run: The run.
        taken: Its episodes with the responses and log-probabilities of any other run.
    """
    for part in run.parts:
        found = part.traces.keys() & taken
        if len(found) > COPIED_SHARE * len(part.traces):
            problem = (
                f"{len(found)} of {len(part.traces)} episodes have the answers and "
                "log-probabilities of other runs, taken together"
            )
            yield Finding(_records_of(run), "", problem, PLAYED)
            return


def _check_order(
    entry: Entry,
    mine: Sequence[AcceptedRun],
    logs: Mapping[str, Sequence[Hashes]],
    other: AcceptedEntry,
    context: Context,
) -> Iterator[Finding]:
    """Check that an entry with an earlier date does not turn an existing one into a copy.

    Of two similar entries, the board keeps the first by folder name, so by the dates that authors
    give. The equal share of a run depends on which run is the copy, so both directions are checked.
    """
    folder = other.peer.folder
    if entry.folder.name >= folder:
        return
    own = own_plays(other.folder, context.reruns)
    found = (
        _copy(theirs, run, f"this entry's {run.path}", own, TAKEN_SHARE)
        for run, theirs in product(mine, other.runs)
    )
    equal = (
        f"{count} updates of {path} have the same numbers as this entry's {file}"
        for (file, numbers), (path, known) in product(logs.items(), other.logs.items())
        if (count := equal_updates(numbers, known.hashes, min(known.updates, len(numbers))))
    )
    for problem in chain((copy.problem for copy in found if copy is not None), equal):
        text = f"is before that of {folder}, which would then count as a copy: {problem}"
        fix = "give the date of the pull request, also in the folder's name"
        yield Finding(SUBMISSION, "date", text, fix)
        return


def _compared(context: Context) -> Iterator[AcceptedEntry]:
    """Yield the other entries one by one, and keep only the results of each."""
    for other in context.others:
        if isinstance(other, UnreadableEntry):
            context.notes.append(on_one_line(f"not compared with {other.folder}: {other.reason}"))
        else:
            context.peers.append(other.peer)
            yield other


def _check_said(entry: Entry, other: AcceptedEntry) -> Iterator[Finding]:
    """Compare names and weights."""
    mine, peer = entry.submission, other.peer
    if skeleton(mine.name) == skeleton(peer.name):
        problem = f"{mine.name} is the name of {peer.folder}, or looks like it: {peer.name}"
        yield Finding(SUBMISSION, "name", problem, "choose another name")
    both_trained = mine.method.kind == "trained" and peer.trained
    one_table = both_trained and entry.protocol == peer.protocol
    played = {key: panel.fingerprint for key, panel in entry.checkpoints[0].panels.items()}
    again = any(played.get(key) == panel.fingerprint for key, panel in peer.panels.items())
    if not (one_table or again):
        return
    for number, read in enumerate(entry.checkpoints):
        point = read.checkpoint
        noted = [run.manifest.model for run in read.runs]
        if any(same_weights(point.model, model) for model in other.models) or any(
            same_files(model, run.model) for model in noted for run in other.runs
        ):
            problem = f"{point.model.text}: {peer.folder} has the same weights"
            fix = "send your own weights; maintainers can remove an older entry"
            yield Finding(SUBMISSION, f"checkpoints.{number}.model", problem, fix)


def _check_policy(
    entry: Entry, mine: AcceptedRun, theirs: AcceptedRun, context: Context
) -> Iterator[Finding]:
    """Look for a scripted policy's responses under the name of a model.

    A model cloned from the policy may respond alike, which records cannot distinguish. Weights that
    anybody can load can.
    """
    alike = as_policy(mine, theirs)
    if alike is None:
        return
    said = f"{alike} episodes were played as the policy {theirs.model.name} plays them"
    context.notes.append(on_one_line(f"{mine.path}: {said}; rerun the entry before it is merged"))
    if mine.model.kind == "folder" and entry.submission.published is None:
        fix = (
            "publish the weights on the hub and name the commit, so that they can be rerun "
            "(weights: https://huggingface.co/OWNER/NAME/tree/COMMIT)"
        )
        yield Finding(_records_of(mine), "", said, fix, until_rerun=mine.panels <= mine.greedy)


def as_policy(mine: AcceptedRun, theirs: AcceptedRun) -> str | None:
    """How many of a model's episodes equal a policy's, as text, if most of them do; None otherwise.

    The environment's last facts are not compared, since all who solve a problem have its answer.
    """
    if theirs.model.kind != "policy" or mine.model.kind == "policy":
        return None
    return next(filter(None, (_as_policy(part, theirs) for part in mine.parts)), None)


def _as_policy(mine: AcceptedRun, theirs: AcceptedRun) -> str | None:
    own, others = (
        by_episode({key: play for key, play in run.plays.items() if play.ended})
        for run in (mine, theirs)
    )
    pairs = [(own[episode], others[episode]) for episode in own.keys() & others.keys()]
    common = sum(min(map(len, pair)) for pair in pairs)
    alike = sum(len(matched(*pair, PlayHash.acts_like)) for pair in pairs)
    if common < FEWEST_ALIKE or alike < ALIKE_SHARE * common:
        return None
    return f"{alike} of {common}"


class _Copy(NamedTuple):
    """How a run is a copy of another one.

    Attributes:
        problem: Message for users.
        until_rerun: Whether it is only similar and decoded greedily, so that a rerun can show that
            its weights play like this.
    """

    problem: str
    until_rerun: bool


def check_run(
    mine: AcceptedRun,
    theirs: AcceptedRun,
    name: str,
    own: Collection[Place] | None = None,
) -> Iterator[Finding]:
    """Compare the records of a run with those of another run.

    Args:
        mine: The run.
        theirs: The other run.
        name: Name of the other run.
        own: Panels on which a rerun has confirmed the run; None if that does not excuse similarity.
    """
    if (copy := _copy(mine, theirs, name, own or ())) is not None:
        waits = copy.until_rerun and own is not None
        fix = PLAY_AGAIN if waits else PLAYED
        yield Finding(_records_of(mine), "", copy.problem, fix, until_rerun=waits)


def _copy(
    mine: AcceptedRun,
    theirs: AcceptedRun,
    name: str,
    own: Collection[Place],
    share: float = COPIED_SHARE,
) -> _Copy | None:
    """How a run, or one of its panels, is a copy of another run; None if it is not."""
    if same_weights(theirs.model, mine.model):
        return None
    for part in mine.parts:
        if problem := _copied(part, theirs, name, share):
            return _Copy(problem, until_rerun=False)
    for part in mine.parts:
        if not _are_own(part, own) and (problem := _likeness(part, theirs, name)):
            return _Copy(problem, until_rerun=part.panels <= part.greedy)
    return None


def _are_own(run: AcceptedRun, own: Collection[Place]) -> bool:
    """Whether reruns have confirmed all panels of a run."""
    return all((run.path, *panel) in own for panel in run.panels)


def _copied(mine: AcceptedRun, theirs: AcceptedRun, name: str, share: float) -> str | None:
    """Message if responses and log-probabilities are those of another run; None otherwise."""
    equal = len(_equal(mine, theirs))
    if equal <= share * len(mine.traces):
        return None
    return (
        f"{equal} of {len(mine.traces)} episodes have the answers and "
        f"log-probabilities of {name}, played by {theirs.model.text}"
    )


def _likeness(mine: AcceptedRun, theirs: AcceptedRun, name: str) -> str | None:
    """Message if episodes are like those of another run, failures included; None otherwise.

    Runs of an init are no exception: if one plays like an earlier run of trained weights, it has
    that run's records.
    """
    if theirs.model.kind in ("init", "policy") or mine.model.kind == "policy":
        return None
    found = Likeness.of(mine.plays, theirs.plays)
    if not found.is_copy:
        return None
    return (
        f"{found.alike} of {found.common} episodes, {found.alike_failed} of {found.failed} "
        f"failures among them, were played as in {name}, a run of {theirs.model.text}"
    )


def _equal(mine: AcceptedRun, theirs: AcceptedRun) -> set[EpisodeKey]:
    """The episodes with the responses and log-probabilities of a run with other weights."""
    if same_weights(mine.model, theirs.model):
        return set()
    return equal_traces(mine.traces, theirs.traces)


def equal_traces(mine: Traces, theirs: Traces) -> set[EpisodeKey]:
    """The episodes of a run in which most responses and log-probabilities are another run's."""
    others = by_episode(theirs)
    return {
        key
        for key, trace in mine.items()
        if any(_alike(trace, other) for other in others.get(key[:3], ()))
    }


def _records_of(run: AcceptedRun) -> str:
    return f"{run.path}/episodes.jsonl.zst"


def _alike(mine: Collection[int], theirs: Collection[int]) -> bool:
    """Whether most turns of an episode are the same."""
    return sum(turn in theirs for turn in mine) > COPIED_SHARE * len(mine)
