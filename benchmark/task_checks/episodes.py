"""Checks that episodes keep their contract: reset, end, independence, and the worst result."""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from benchmark.task_checks.check import Check, attempt, error_text
from tasks.base import Task
from tasks.episode import Episode, Step, View
from tasks.panels import PanelEntry
from tasks.seeding import stable_seed

ENTRIES = 4
"""Number of panel entries to play in every way."""
_BEFORE_RESET = 2
"""Turns after which a play is restarted."""
STARTS_OVER = "a reset starts over"
SHARES_NOTHING = "two episodes of one entry share nothing"

_GARBAGE = (
    "",
    "<action>",
    "no tags at all",
    "\x00\ufffd",
    "<action></action>",
    "x" * 100_000,
    "\ud800",
    "<think></think><action>\ud800\x00</action>",
    "```python\n\\boxed{",
)


@dataclass(slots=True)
class Playthrough:
    """What an episode showed, and its rewards.

    Attributes:
        start: The first view.
        steps: The result of each response.
    """

    start: View
    steps: list[Step] = field(default_factory=list)

    @property
    def ended(self) -> bool:
        """Whether the last step had an outcome."""
        return bool(self.steps) and self.steps[-1].outcome is not None

    @property
    def score(self) -> float | None:
        """The score; None if the play has not ended."""
        outcome = self.steps[-1].outcome if self.steps else None
        return None if outcome is None else outcome.score

    @property
    def reward(self) -> float:
        """The sum of the environment's rewards."""
        return math.fsum(step.reward for step in self.steps)


def episode_checks(task: Task, entries: Sequence[PanelEntry], max_turns: int) -> Iterator[Check]:
    """Play a few entries in every way that the contract covers."""
    chosen = entries[:: max(1, len(entries) // ENTRIES)][:ENTRIES]
    yield attempt(SHARES_NOTHING, lambda: _shares_nothing(task, chosen, max_turns))
    yield attempt(STARTS_OVER, lambda: _starts_over(task, chosen, max_turns))
    yield _ends(task, chosen[0], max_turns)
    garbage = [_garbage(task, entry, max_turns) for entry in chosen]
    yield next((check for check, _ in garbage if not check.ok), garbage[0][0])
    results = [(played.score, played.reward) for _, plays in garbage for played in plays]
    if results:
        yield worst_check(task, max_turns, results)


def worst_check(task: Task, max_turns: int, results: Sequence[tuple[float | None, float]]) -> Check:
    """Compare plays, as (score, reward), with the result that a failed episode is given."""
    worst = task.worst(max_turns)
    scores = [score for score, _ in results if score is not None]
    lowest, least = min(scores), min(reward for _, reward in results)
    tolerance = 1e-9 * (1 + abs(lowest) + abs(least))
    ok = worst.score <= lowest + tolerance and worst.reward <= least + tolerance
    return Check(
        "no play is worse than the worst",
        ok,
        f"lowest score {lowest:g} and reward {least:g}, `worst` says {worst.score:g} and "
        f"{worst.reward:g}",
    )


def _expert(task: Task, entry: PanelEntry, episode: Episode, turn: int) -> str:
    del entry, turn
    return task.expert_response(episode)


def _random(task: Task, entry: PanelEntry, episode: Episode, turn: int) -> str:
    rng = random.Random(stable_seed("validate", task.info.name, entry.id, turn))
    return task.random_response(episode, rng)


_POLICIES = {"expert": _expert, "random": _random}


def _play(
    task: Task, episode: Episode, entry: PanelEntry, policy: str, max_turns: int
) -> Playthrough:
    """Play an episode until it ends or reaches its turn limit."""
    played = Playthrough(episode.reset())
    while not played.ended and len(played.steps) < max_turns:
        _take_turn(task, episode, entry, policy, played)
    return played


def _take_turn(
    task: Task, episode: Episode, entry: PanelEntry, policy: str, played: Playthrough
) -> None:
    response = _POLICIES[policy](task, entry, episode, len(played.steps))
    played.steps.append(episode.step(response))


def _shares_nothing(task: Task, entries: Sequence[PanelEntry], max_turns: int) -> Check:
    """Play two episodes of one entry turn by turn in parallel, as training plays a group."""
    for entry in entries:
        episodes = {policy: task.episode(entry, max_turns) for policy in _POLICIES}
        plays = {policy: Playthrough(episode.reset()) for policy, episode in episodes.items()}
        for _ in range(max_turns):
            for policy, episode in episodes.items():
                if not plays[policy].ended:
                    _take_turn(task, episode, entry, policy, plays[policy])
        for episode in episodes.values():
            episode.close()
        for policy, beside in plays.items():
            alone = task.episode(entry, max_turns)
            if _play(task, alone, entry, policy, max_turns) != beside:
                detail = f"{entry.id}: the {policy} policy's episode differs beside another one"
                return Check(SHARES_NOTHING, False, detail)
            alone.close()
    return Check(SHARES_NOTHING, True, f"{len(entries)} pairs")


def _starts_over(task: Task, entries: Sequence[PanelEntry], max_turns: int) -> Check:
    """Call `reset` in the middle and after the end, then repeat the same play."""
    for entry in entries:
        fresh, episode = task.episode(entry, max_turns), task.episode(entry, max_turns)
        expected = _play(task, fresh, entry, "expert", max_turns)
        cut_short = Playthrough(episode.reset())
        while not cut_short.ended and len(cut_short.steps) < _BEFORE_RESET:
            _take_turn(task, episode, entry, "random", cut_short)
        for when in ("in the middle", "after the end"):
            again = _play(task, episode, entry, "expert", max_turns)
            if again != expected:
                what = "shows" if again.start != expected.start else "plays"
                detail = f"{entry.id}: after a reset {when} it {what} something different"
                return Check(STARTS_OVER, False, detail)
        fresh.close()
        episode.close()
    return Check(STARTS_OVER, True, f"{len(entries)} episodes")


def _ends(task: Task, entry: PanelEntry, max_turns: int) -> Check:
    """Check that a step before `reset` or after the end is refused."""
    name = "no step before the start and after the end"
    episode = task.episode(entry, max_turns)
    try:
        for when in ("before `reset`", "after the end"):
            try:
                episode.step("")
            except RuntimeError:
                pass
            except Exception as error:  # the point of the check
                return Check(
                    name, False, f"a step {when} raises no RuntimeError but {error_text(error)}"
                )
            else:
                return Check(name, False, f"a step {when} is taken; it must raise a RuntimeError")
            if when == "before `reset`":
                played = Playthrough(episode.reset())
                while not played.ended and len(played.steps) < max_turns:
                    _take_turn(task, episode, entry, "random", played)
    finally:
        episode.close()
    return Check(name, True, "both raise a RuntimeError")


def _garbage(task: Task, entry: PanelEntry, max_turns: int) -> tuple[Check, list[Playthrough]]:
    """Check that no response can break an episode or win it by itself.

    If a response ends the episode, the remaining ones are sent in the next episode.
    """
    name = "malformed responses cost a turn and do no harm"
    plays: list[Playthrough] = []
    sent = 0
    while sent < len(_GARBAGE):
        episode = task.episode(entry, max_turns)
        try:
            played = Playthrough(episode.reset())
            while not played.ended and len(played.steps) < max_turns:
                text = _GARBAGE[sent % len(_GARBAGE)]
                step = episode.step(text)
                sent += 1
                played.steps.append(step)
                won = step.outcome is not None and step.outcome.success
                if won or (step.format_ok and step.action_ok):
                    return Check(name, False, f"{text[:20]!r} was accepted"), plays
        except Exception as error:  # the point of the check: whatever it is, it is the finding
            return Check(name, False, error_text(error)), plays
        finally:
            episode.close()
        if not played.ended:
            return Check(name, False, "the episode did not end at its turn limit"), plays
        plays.append(played)
    return Check(name, True, f"{sent} turns"), plays
