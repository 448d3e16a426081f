"""The demonstrations from which inits are cloned."""

import re

import pytest

from baselines.cloning.demonstrations import Demonstration, data_sha256, demonstrate
from tasks.chat.messages import text_of
from tasks.registry import load_task
from tasks.response import parse_response

NOTHING = "Now:\nNothing happens.\n"


def _listed(turn: Demonstration) -> bool:
    """Whether the demonstrated command is listed in its prompt."""
    listed = _shown(turn).split("Possible commands:\n")[1].splitlines()
    return parse_response(turn.response).action in listed


def _shown(turn: Demonstration) -> str:
    (message,) = turn.messages
    return text_of(message)


def _did(turn: Demonstration) -> list[str]:
    return re.findall(r"You did: (.*)", _shown(turn))


@pytest.mark.slow
def test_the_searcher_is_cloned_not_the_expert() -> None:
    turns = demonstrate(load_task("alfworld"), 6, 5)
    assert all(_listed(turn) for turn in turns)
    assert not any(NOTHING in _shown(turn) for turn in turns)
    # The expert would need about six turns per game.
    assert len(turns) > 60


@pytest.mark.slow
def test_noise_is_done_and_not_cloned() -> None:
    task = load_task("alfworld")
    plain, noisy = demonstrate(task, 12, 5), demonstrate(task, 12, 5, noise=0.3)
    assert len(noisy) > len(plain)
    # A repeated command often has no effect any more; the recovery from it is cloned.
    assert sum(NOTHING in _shown(turn) for turn in noisy) > 5
    assert all(_listed(turn) for turn in noisy)
    # So is the recovery from taking an object that is not there, a mistake that clones make.
    invented = [turn for turn in noisy if re.search(r"did: take .*\n\nNow:\nNothing", _shown(turn))]
    assert len(invented) > 5
    assert not any(parse_response(turn.response).action in _did(turn) for turn in invented)
    thoughts = [parse_response(turn.response).thought for turn in noisy]
    assert all(thoughts)
    assert data_sha256(noisy) == data_sha256(demonstrate(task, 12, 5, noise=0.3))
    assert data_sha256(noisy) == data_sha256(demonstrate(task, 12, 5, 1, noise=0.3))


def test_mistakes_are_cloned_and_not_done() -> None:
    task = load_task("sokoban")
    plain, mixed = demonstrate(task, 40, 5), demonstrate(task, 40, 5, mistakes=0.5)
    # The boards are the same, since the expert's moves are executed.
    assert [turn.messages for turn in mixed] == [turn.messages for turn in plain]
    other = [m.response != p.response for m, p in zip(mixed, plain, strict=True)]
    assert 0.15 < sum(other) / len(other) < 0.5
    assert all(re.search(r"Push \w+ from r\dc\d, so go \w+", turn.response) for turn in mixed)
    assert data_sha256(mixed) == data_sha256(demonstrate(task, 40, 5, mistakes=0.5))


@pytest.mark.slow
def test_careless_players_walk_past_things_and_buy_them_as_they_are() -> None:
    """Their actions are also listed, and differ when the careful player takes, opens or chooses."""
    world, shop = (
        demonstrate(load_task(task), 12, 5, mistakes=0.5) for task in ("alfworld", "webshop")
    )
    plain_world, plain_shop = (
        demonstrate(load_task(task), 12, 5) for task in ("alfworld", "webshop")
    )
    assert all(_listed(turn) for turn in world)
    walked = _replaced(plain_world, world)
    assert len(walked) > 20
    assert all(did.startswith("go to ") for _, did in walked)
    assert {meant.split()[0] for meant, _ in walked} >= {"open", "take", "move"}
    bought = _replaced(plain_shop, shop)
    assert len(bought) > 5
    assert {did for _, did in bought} == {"click[buy now]"}


def _replaced(plain: list[Demonstration], mixed: list[Demonstration]) -> list[tuple[str, str]]:
    """Pairs of the careful and the careless player's actions where they differ."""
    assert [turn.messages for turn in plain] == [turn.messages for turn in mixed]
    assert not any(turn.mistake for turn in plain)
    replaced = [one.response != two.response for one, two in zip(plain, mixed, strict=True)]
    assert all(turn.mistake for turn, differs in zip(mixed, replaced, strict=True) if differs)
    pairs = [
        tuple(str(parse_response(turn.response).action) for turn in two)
        for two in zip(plain, mixed, strict=True)
    ]
    return [(meant, did) for meant, did in pairs if meant != did]
