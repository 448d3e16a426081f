"""Which endpoint handles an episode's requests."""

from dataclasses import dataclass

import pytest

from benchmark.engines.core import homes
from benchmark.engines.core.homes import Homes


@dataclass(eq=False, slots=True)
class Server:
    load: int = 0


def test_an_episode_stays_where_it_began_unless_that_is_gone_or_far_too_busy() -> None:
    one, two = Server(load=1), Server()
    known: Homes[Server] = Homes()
    assert known.choose(7, [one, two]) is two
    two.load = 10
    assert known.choose(7, [one, two]) is two  # 2 * 1 + 8 are not too many
    two.load = 11
    assert known.choose(7, [one, two]) is one
    two.load = 0
    assert known.choose(7, [one, two]) is one
    assert known.choose(7, [two]) is two


def test_the_episode_that_was_asked_for_longest_ago_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(homes, "MEMORY", 2)
    one, two = Server(), Server(load=1)
    known: Homes[Server] = Homes()
    for episode in (1, 2, 1, 3):
        assert known.choose(episode, [one, two]) is one
    one.load, two.load = 2, 1
    assert [known.choose(episode, [one, two]) is one for episode in (1, 3, 2)] == [
        True,
        True,
        False,
    ]
