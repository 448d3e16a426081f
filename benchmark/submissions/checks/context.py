"""The context that every check gets with the entry, and results other than findings."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmark.logs.lines import Start
from benchmark.submissions.format.findings import Finding
from benchmark.submissions.reading.entry import Entry
from benchmark.submissions.reading.replays import Replays
from benchmark.submissions.reading.reruns import Reruns
from benchmark.track_schema import Track

if TYPE_CHECKING:
    from benchmark.submissions.checks.accepted_entries import AcceptedEntry, UnreadableEntry
    from benchmark.submissions.checks.results import Peer

REPLAY_S: Final = 1200.0
"""Time limit in seconds: 20 minutes. All panels of this project replay in one minute; CI gives a
pull request 60."""
MethodFault = Callable[[Track, Start], str | None]
"""Returns how a log's method differs from the one that its recipe's name stands for, or None."""


@dataclass(slots=True)
class Context:
    """The context of a submission's checks.

    Attributes:
        inits: SHA-256 of the registered inits by name, if pinned.
        others: Existing submissions, read one by one.
        drafts: Folders of uncommitted submissions, by name: the author's earlier attempts.
        shipped: Number of weights of the shipped inits, by name.
        tracks: All tracks that a log can claim, by name.
        method_fault: Checks the method of logs on a track; None to skip this.
        rate_fault: Checks their learning rate; None to skip this, as for entries that were accepted
            before a recipe was tuned.
        env_processes: See `replay_run`.
        replay: Whether to replay episodes, without which nothing is accepted.
        replays: Cache of earlier replays; None to replay everything.
        reruns: Maintainers' reruns, by folder name (`read_reruns`).
        replay_s: Time limit in seconds for the replay of a submission, including sleeping programs.
        build_until: Time at which all replays are stopped, as `time.monotonic`.
        unfinished: Whether a replay was stopped because of `build_until`, which does not count
            against the submission.
        hub: Whether to look up models on the hub.
        sound: Whether no earlier check has found anything.
        replayed: Number of replayed episodes.
        doubts: Number of turns that a replay could neither confirm nor refute.
        peers: The submissions that it was compared with.
        notes: Omissions, one line each, such as entries that could not be compared with and models
            that could not be looked up.
    """

    inits: Mapping[str, str | None]
    others: "Iterable[AcceptedEntry | UnreadableEntry]" = ()
    shipped: Mapping[str, int] = field(default_factory=dict)
    tracks: Mapping[str, Track] = field(default_factory=dict)
    method_fault: MethodFault | None = None
    env_processes: int | None = None
    replay: bool = True
    replays: Replays | None = None
    rate_fault: MethodFault | None = None
    reruns: Reruns = field(default_factory=dict)
    replay_s: float = REPLAY_S
    build_until: float = math.inf
    unfinished: bool = False
    hub: bool = False
    drafts: Mapping[str, Path] = field(default_factory=dict)
    sound: bool = True
    replayed: int = 0
    doubts: int = 0
    peers: "list[Peer]" = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


Check = Callable[[Entry, Context], Iterable[Finding]]
"""A check: returns its objections to an entry."""
