"""Validation finds what it is there to find: broken tasks fail the check that names the fault."""

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from benchmark.task_checks.validate import validate
from tasks.episode import Episode, Step
from tasks.panels import Panel, PanelEntry, PanelInfo
from tasks.sokoban.play import Level
from tasks.sokoban.task import SokobanTask
from tasks.text_task import TextEpisode


def failing(task: SokobanTask) -> set[str]:
    return {check.name for check in validate(task, "builtin", 30) if not check.ok}


def test_sokoban_keeps_its_promises() -> None:
    assert failing(SokobanTask()) == set()


class Lazy(SokobanTask):
    """Its expert does nothing useful."""

    def expert_response(self, episode: Episode) -> str:
        return "<think></think><action>up</action>"


class Leaky(SokobanTask):
    """Its training stream serves the panel."""

    def training_entry(self, index: int, seed: int = 0) -> PanelEntry:
        return self.panel("builtin").entries[index % 256]


class Shared(SokobanTask):
    """All episodes share one turn counter."""

    turns: int = 0

    def episode(self, entry: PanelEntry, max_turns: int) -> TextEpisode[Level]:
        task = self

        class Counting(TextEpisode[Level]):
            def step(self, response: str) -> Step:
                task.turns += 1
                return replace(super().step(response), info={"turns": task.turns})

        return Counting(self, entry, max_turns)


class Generous(SokobanTask):
    """Pays differently from the version that was pinned."""

    def episode(self, entry: PanelEntry, max_turns: int) -> TextEpisode[Level]:
        class Paying(TextEpisode[Level]):
            def step(self, response: str) -> Step:
                return replace(super().step(response), reward=1.0)

        return Paying(self, entry, max_turns)


class Fragile(SokobanTask):
    """Breaks on an empty response."""

    def episode(self, entry: PanelEntry, max_turns: int) -> TextEpisode[Level]:
        class Breaking(TextEpisode[Level]):
            def step(self, response: str) -> Step:
                return super().step(response[0] + response[1:])

        return Breaking(self, entry, max_turns)


class Doubled(SokobanTask):
    """Serves the first entry twice."""

    def panel(self, name: str) -> Panel:
        panel = super().panel(name)
        return replace(panel, entries=(panel.entries[0], *panel.entries[:-1]))


class Drawing(SokobanTask):
    """Its random policy draws from the process's generator."""

    def random_response(self, episode: Episode, rng: random.Random) -> str:
        return super().random_response(episode, random.Random())


class Strict(SokobanTask):
    """Promises a random policy that wins half of the time."""

    def panels(self) -> Mapping[str, PanelInfo]:
        return {k: replace(v, random_success=(0.5, 1.0)) for k, v in super().panels().items()}

    def panel(self, name: str) -> Panel:
        return replace(super().panel(name), info=self.panels()[name])


TRACE = "texts, rewards and outcomes are those of this version"


@pytest.mark.parametrize(
    ("make", "found"),
    [
        (Lazy, {"expert wins", TRACE}),
        (Leaky, {"training and panel are disjoint"}),
        (Shared, {"the same play gives the same result", TRACE, "records replay"}),
        (Generous, {TRACE}),
        (Fragile, {"malformed responses cost a turn and break nothing"}),
        (Doubled, {"entries are distinct", TRACE}),
        (Drawing, {"the same play gives the same result", TRACE}),
        (Strict, {"random policy stays in its band"}),
    ],
)
def test_a_broken_promise_is_found(make: Callable[[], Any], found: set[str]) -> None:
    assert found <= failing(make())
