"""Similarity of two runs, episode by episode, regardless of the recorded numbers.

Repeats of an episode are compared in any order, since shuffling them does not make other plays.
Episodes that one of the runs did not finish are not compared, but do not reduce the number of
failures.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from benchmark.submissions.plays.play_hash import EpisodeKey, PlayHash

ALIKE_SHARE: Final = 0.85
"""Minimum share of episodes, and of failures, like those of another run for a run to be a copy.
Of 8,058 honest pairs of different weights, three reach both (submissions/copies.md)."""
SAME_SHARE: Final = 0.95
"""Share of similar episodes from which half of the failures are enough."""
SAME_FAILURES: Final = 0.5
"""That half. Two strong models hardly differ except in their failures."""
FEWEST_ALIKE: Final = 50
"""Minimum number of common episodes to compare two runs."""
FEWEST_FAILURES: Final = 10
"""Minimum number of failures among them."""
MOST_REPEATS: Final = 64
"""Maximum number of repeats of an episode to compare; no panel has more."""

Episode = tuple[str, str, str]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Likeness:
    """The similarity of two runs.

    Attributes:
        common: Number of episodes that both have played, except those in which neither has acted.
        alike: Number of similar ones among these.
        failed: Failures of the first run among `common`.
        alike_failed: Number of similar ones among these.
        either_failed: Failures of either run among `common`.
        failures: Like `either_failed`, plus failures whose counterpart ended in an error.
    """

    common: int
    alike: int
    failed: int
    alike_failed: int
    either_failed: int
    failures: int

    @classmethod
    def of(
        cls, mine: Mapping[EpisodeKey, PlayHash], theirs: Mapping[EpisodeKey, PlayHash]
    ) -> "Likeness":
        """Compare two runs."""
        others = by_episode(theirs)
        counts = [
            _counts(plays, others[episode])
            for episode, plays in by_episode(mine).items()
            if episode in others
        ]
        return cls(*map(sum, zip(*counts, strict=True))) if counts else cls(0, 0, 0, 0, 0, 0)

    @property
    def compared(self) -> bool:
        """Whether there are enough episodes and failures to compare."""
        return self.common >= FEWEST_ALIKE and self.failures >= FEWEST_FAILURES

    @property
    def is_copy(self) -> bool:
        """Whether one run is considered a copy of the other."""
        if not self.compared:
            return False
        return (
            self.failed >= FEWEST_FAILURES
            and self.alike >= ALIKE_SHARE * self.common
            and self.alike_failed >= ALIKE_SHARE * self.failed
        ) or (
            self.alike >= SAME_SHARE * self.common
            and self.alike_failed >= SAME_FAILURES * self.either_failed
        )


def by_episode(parts: Mapping[EpisodeKey, T]) -> dict[Episode, list[T]]:
    """Group values by episode, over its repeats."""
    found: defaultdict[Episode, list[T]] = defaultdict(list)
    for (task, panel, episode, _), part in parts.items():
        if len(repeats := found[task, panel, episode]) < MOST_REPEATS:
            repeats.append(part)
    return dict(found)


def matched(
    mine: Sequence[PlayHash],
    theirs: Sequence[PlayHash],
    like: Callable[[PlayHash, PlayHash], bool],
) -> list[PlayHash]:
    """The plays in a maximum matching with similar plays of the other run, failures first."""
    taken: dict[int, PlayHash] = {}

    def place(play: PlayHash, tried: set[int]) -> bool:
        for number, other in enumerate(theirs):
            if number not in tried and like(play, other):
                tried.add(number)
                if number not in taken or place(taken[number], tried):
                    taken[number] = play
                    return True
        return False

    for play in sorted(mine, key=lambda play: play.solved):
        place(play, set())
    return list(taken.values())


def _counts(mine: Sequence[PlayHash], theirs: Sequence[PlayHash]) -> tuple[int, ...]:
    """The numbers of `Likeness` for the repeats of one episode."""
    ours, others = _told(mine, theirs), _told(theirs, mine)
    common = min(len(ours), len(others))
    pairs = matched(ours, others, PlayHash.is_like)
    failed = sum(not play.solved for play in ours)
    failures = max(failed, sum(not play.solved for play in others))
    return (
        common,
        len(pairs),
        min(failed, common),
        sum(not play.solved for play in pairs),
        min(failures, common),
        failures,
    )


def _told(mine: Sequence[PlayHash], theirs: Sequence[PlayHash]) -> list[PlayHash]:
    """The finished plays, except for as many without any action as the other run has."""
    ended = [play for play in mine if play.ended]
    silent = [play for play in ended if play.actions is None]
    common = sum(play.ended and play.actions is None for play in theirs)
    return [play for play in ended if play.actions is not None] + silent[common:]
