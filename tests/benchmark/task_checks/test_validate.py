"""Validation detects broken tasks: each fails the check that names its fault."""

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache

import pytest

from benchmark.task_checks.validate import validate
from tasks.base import Worst
from tasks.episode import Episode, Outcome, Step, View
from tasks.panels import Panel, PanelEntry, PanelInfo
from tasks.sokoban.play import Level
from tasks.sokoban.task import SokobanTask
from tasks.text_task import Done, TextEpisode
from tasks.trace import trace_panel

LEVELS = 12
SOKOBAN = SokobanTask()


@cache
def small_panel() -> Panel:
    """The first levels of the built-in panel, with the scripted players' results on them."""
    panel = SOKOBAN.panel("builtin")
    info = replace(panel.info, episodes=LEVELS)
    small = replace(panel, info=info, entries=panel.entries[:LEVELS])
    return replace(small, info=replace(info, trace_sha256=trace_panel(SOKOBAN, small).sha256))


@cache
def training_level(index: int, seed: int) -> PanelEntry:
    return SOKOBAN.training_entry(index, seed)


class SmallTask(SokobanTask):
    """Sokoban with a panel of a few levels."""

    def training_entry(self, index: int, seed: int = 0) -> PanelEntry:
        return training_level(index, seed)

    def panel(self, name: str) -> Panel:
        return small_panel() if name == "builtin" else super().panel(name)


def failures(task: SokobanTask) -> dict[str, str]:
    """The failed checks with their observations."""
    return {check.name: check.detail for check in validate(task, "builtin", 30) if not check.ok}


@pytest.mark.slow
def test_sokoban_keeps_its_promises() -> None:
    assert failures(SokobanTask()) == {}


class Lazy(SmallTask):
    """Its expert does nothing useful."""

    def expert_response(self, episode: Episode) -> str:
        return "<think></think><action>up</action>"


class Leaky(SmallTask):
    """Its training stream serves the panel."""

    def training_entry(self, index: int, seed: int = 0) -> PanelEntry:
        return self.panel("builtin").entries[index % LEVELS]


class Shared(SmallTask):
    """All episodes share one turn counter."""

    turns: int = 0

    def episode(self, entry: PanelEntry, max_turns: int) -> TextEpisode[Level]:
        task = self

        class Counting(TextEpisode[Level]):
            def step(self, response: str) -> Step:
                task.turns += 1
                return replace(super().step(response), info={"turns": task.turns})

        return Counting(self, entry, max_turns)


class Generous(SmallTask):
    """Pays other rewards than the pinned version."""

    def episode(self, entry: PanelEntry, max_turns: int) -> TextEpisode[Level]:
        class Paying(TextEpisode[Level]):
            def step(self, response: str) -> Step:
                return replace(super().step(response), reward=1.0)

        return Paying(self, entry, max_turns)


class Fragile(SmallTask):
    """Ends at every turn, and crashes on a lone surrogate."""

    def episode(self, entry: PanelEntry, max_turns: int) -> TextEpisode[Level]:
        class Breaking(TextEpisode[Level]):
            def step(self, response: str) -> Step:
                step = super().step(response.encode().decode())
                return replace(step, outcome=step.outcome or Outcome(success=False, score=0.0))

        return Breaking(self, entry, max_turns)


class Doubled(SmallTask):
    """Serves the first entry twice."""

    def panel(self, name: str) -> Panel:
        panel = super().panel(name)
        return replace(panel, entries=(panel.entries[0], *panel.entries[:-1]))


class Drawing(SmallTask):
    """Its random policy uses the process's global generator."""

    def random_response(self, episode: Episode, rng: random.Random) -> str:
        return super().random_response(episode, random.Random())


class Strict(SmallTask):
    """Promises a random policy that wins half of the time."""

    def panels(self) -> Mapping[str, PanelInfo]:
        return {k: replace(v, random_success=(0.5, 1.0)) for k, v in super().panels().items()}

    def panel(self, name: str) -> Panel:
        return replace(super().panel(name), info=self.panels()[name])


class OneWorld(SmallTask):
    """All episodes of a level share one world."""

    worlds: Mapping[str, Level] = {}

    def world(self, entry: PanelEntry) -> Level:
        if entry.id not in self.worlds:
            self.worlds = {**self.worlds, entry.id: super().world(entry)}
        return self.worlds[entry.id]


class Stuck(SmallTask):
    """Its `reset` returns the board itself, not a copy."""

    def episode(self, entry: PanelEntry, max_turns: int) -> TextEpisode[Level]:
        class Going(TextEpisode[Level]):
            def reset(self) -> View:
                return self._view(self.seen) if self._in_play else super().reset()

        return Going(self, entry, max_turns)


class Endless(SmallTask):
    """Its episodes continue after they have ended."""

    def episode(self, entry: PanelEntry, max_turns: int) -> TextEpisode[Level]:
        class Further(TextEpisode[Level]):
            def step(self, response: str) -> Step:
                if self._in_play is None:
                    self.reset()
                return super().step(response)

        return Further(self, entry, max_turns)


class Unplayable(SmallTask):
    """Its training levels cannot be opened."""

    def world(self, entry: PanelEntry) -> Level:
        assert not entry.id.startswith("train"), "only panels"
        return super().world(entry)


class OneLevel(SmallTask):
    """Its training stream repeats one level forever."""

    def training_entry(self, index: int, seed: int = 0) -> PanelEntry:
        return replace(super().training_entry(0, seed), id=f"train-{seed}-{index}")


class OneStream(SmallTask):
    """All its training streams are the same."""

    def training_entry(self, index: int, seed: int = 0) -> PanelEntry:
        return replace(super().training_entry(index), id=f"train-{seed}-{index}")


class Unsteady(SmallTask):
    """Its training entries depend on the number requested."""

    asked: int = 0

    def training_entry(self, index: int, seed: int = 0) -> PanelEntry:
        self.asked += 1
        return super().training_entry(index + self.asked, seed)


class Numbered(SmallTask):
    """The categories of its training entries are numbers."""

    def training_entry(self, index: int, seed: int = 0) -> PanelEntry:
        return replace(super().training_entry(index, seed), category=index)  # type: ignore[arg-type]


class Proud(SmallTask):
    """Its worst failure scores higher than a play that fails."""

    def worst(self, max_turns: int) -> Worst:
        return Worst(score=0.0, reward=0.0)


class NotANumber(SmallTask):
    """Its rewards are NaN."""

    def world(self, entry: PanelEntry) -> Level:
        class Paying(Level):
            def act(self, action: str | None) -> Done:
                return replace(super().act(action), reward=float("nan"))

        return Paying(entry.data["board"])


class Talkative(SmallTask):
    """Ignores the turn limit."""

    def episode(self, entry: PanelEntry, max_turns: int) -> TextEpisode[Level]:
        return super().episode(entry, max_turns + 5)


class Failing(SmallTask):
    """Its environment raises an error at the first step."""

    def world(self, entry: PanelEntry) -> Level:
        class Broken(Level):
            def act(self, action: str | None) -> Done:
                raise KeyError("order")

        return Broken(entry.data["board"])


TRACE = "texts, rewards and outcomes match this version"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "found"),
    [
        (Lazy, {"expert wins", TRACE}),
        (Leaky, {"training and panel are disjoint"}),
        (Shared, {"results are reproducible", TRACE, "records replay"}),
        (Generous, {TRACE}),
        (Fragile, {"malformed responses cost a turn and do no harm"}),
        (Doubled, {"entries are distinct", TRACE}),
        (Drawing, {"results are reproducible", TRACE}),
        (Strict, {"random policy stays in its band"}),
        (OneWorld, {"two episodes of one entry share nothing", "a reset starts over"}),
    ],
)
def test_a_broken_promise_is_found(make: Callable[[], SmallTask], found: set[str]) -> None:
    assert found <= failures(make()).keys()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "name", "detail"),
    [
        (
            Stuck,
            "a reset starts over",
            "one-box-000: after a reset in the middle it shows something different",
        ),
        (
            Endless,
            "no step before the start and after the end",
            "a step before `reset` is taken; it must raise a RuntimeError",
        ),
        (
            Failing,
            "episodes are played to their end",
            "12 of 12 random episodes ended in an error: KeyError: 'order'",
        ),
        (Unplayable, "training entries can be played", "AssertionError: only panels"),
        (OneLevel, "index and seed choose the training entry", "`index` makes no difference"),
        (OneStream, "index and seed choose the training entry", "`seed` makes no difference"),
        (
            Unsteady,
            "a training entry depends on index and seed alone",
            "0 of 32 entries are the same when they are asked for again",
        ),
        (
            Numbered,
            "training entries are plain data",
            "'train-0-0': category must be a text, not 0",
        ),
        (
            Proud,
            "no play is worse than the worst",
            "lowest score -1.5 and reward -1.5, `worst` says 0 and 0",
        ),
        (NotANumber, "the scripted policies can play", "ValueError: Out of range float values"),
        (
            Talkative,
            "the scripted policies can play",
            " did not end at its turn limit of 15 (trace.py, line ",
        ),
    ],
)
def test_a_fault_is_named(make: Callable[[], SmallTask], name: str, detail: str) -> None:
    assert detail in failures(make())[name]


def test_a_changed_world_says_what_to_do() -> None:
    advice = "; raise the task's version, then run arlarena-bench validate sokoban --pin"
    assert failures(Generous())[TRACE].endswith(advice)
