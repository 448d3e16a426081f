"""What inits are cloned from."""

import re

from baselines.demonstrations import Demonstration, data_sha256, demonstrate
from tasks.registry import load_task
from tasks.response import parse_response

NOTHING = "Now:\nNothing happens.\n"


def _listed(turn: Demonstration) -> bool:
    """The demonstrated command is one of those that its prompt lists."""
    listed = _shown(turn).split("Possible commands:\n")[1].splitlines()
    return parse_response(turn.response).action in listed


def _shown(turn: Demonstration) -> str:
    (message,) = turn.messages
    return message["content"]


def _did(turn: Demonstration) -> list[str]:
    return re.findall(r"You did: (.*)", _shown(turn))


def test_the_searcher_is_cloned_not_the_expert() -> None:
    turns = demonstrate(load_task("alfworld"), 6, 5)
    assert all(_listed(turn) for turn in turns)
    assert not any(NOTHING in _shown(turn) for turn in turns)
    # The expert would need about six turns a game.
    assert len(turns) > 60


def test_noise_is_done_and_not_cloned() -> None:
    task = load_task("alfworld")
    plain, noisy = demonstrate(task, 12, 5), demonstrate(task, 12, 5, noise=0.3)
    assert len(noisy) > len(plain)
    # A repeated command is often one that does nothing any more: the way on from there is cloned.
    assert sum(NOTHING in _shown(turn) for turn in noisy) > 5
    assert all(_listed(turn) for turn in noisy)
    # So is that from a thing taken that is not there, which is what clones do.
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
    # The same boards are seen, since what the expert says is done.
    assert [turn.messages for turn in mixed] == [turn.messages for turn in plain]
    other = [m.response != p.response for m, p in zip(mixed, plain, strict=True)]
    assert 0.15 < sum(other) / len(other) < 0.5
    assert all(re.search(r"Push \w+ from r\dc\d, so go \w+", turn.response) for turn in mixed)
    assert data_sha256(mixed) == data_sha256(demonstrate(task, 40, 5, mistakes=0.5))
