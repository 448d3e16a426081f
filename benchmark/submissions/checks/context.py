"""The context that every check gets besides the entry, and results besides findings."""

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
"""Twenty minutes: all panels of this project replay in one. CI gives a pull request sixty."""
MethodFault = Callable[[Track, Start], str | None]
"""Says how the method of a log is not the one that its recipe's name stands for."""


@dataclass(slots=True)
class Context:
    """What a submission is checked with.

    Attributes:
        inits: SHA-256 of the registered inits by name, where it is pinned.
        others: Existing submissions, read one by one.
        drafts: Folders of those that no commit has, by name: earlier attempts of the author's.
        shipped: Number of weights of the inits that come with this project, by name.
        tracks: All tracks that a log can claim, by name.
        method_fault: Looks at the method of logs on a track; None to leave it out.
        rate_fault: Looks at their learning rate; None to leave it out, as for entries that were
            accepted before a recipe was tuned.
        env_processes: See `replay_run`.
        replay: Whether episodes are executed again, without which nothing is accepted.
        replays: What is known of earlier replays; None to execute all.
        reruns: What maintainers have repeated, by folder name (`read_reruns`).
        replay_s: Seconds that the replay of a submission may take, sleeping programs included.
        build_until: When all replays end, by `time.monotonic`, whatever they have come to.
        unfinished: A replay was ended for `build_until`, which says nothing of the submission.
        hub: Whether the hub is asked for the models that are named as its own.
        sound: Whether no check before this one has found anything.
        replayed: Episodes that were executed again.
        doubts: Turns that a replay could neither confirm nor refute.
        peers: The submissions that it was compared with.
        notes: What was left out, each on one line: entries that could not be compared with, models
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
"""A check: what it objects to in an entry."""
