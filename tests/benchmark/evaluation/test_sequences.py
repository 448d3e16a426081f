"""The token sequence of an episode, assembled from its turns."""

import pytest
from pydantic import ValidationError

from benchmark.engines.core.base import Generation
from benchmark.evaluation.records import SequenceRecord
from benchmark.evaluation.sequences import TokenSequence, token_sequence


def turn(prompt: tuple[int, ...] | None, response: tuple[int, ...] | None) -> Generation:
    return Generation("", "stop", prompt_ids=prompt, response_ids=response)


def test_one_turn() -> None:
    assert token_sequence([turn((1, 2), (3, 4))]) == TokenSequence((1, 2, 3, 4), ((2, 4),), (0,))


def test_what_the_world_said_is_not_the_models() -> None:
    # The response 3 4 ended its turn with 9; the template writes 9, then 5 6 from the environment.
    turns = [turn((1, 2), (3, 4, 9)), turn((1, 2, 3, 4, 9, 5, 6), (7, 9))]
    joined = token_sequence(turns)
    assert joined == TokenSequence((1, 2, 3, 4, 9, 5, 6, 7, 9), ((2, 5), (7, 9)), (0, 1))


def test_what_was_dropped_of_a_response_is_not_in_the_sequence() -> None:
    # Only 3 4 of 3 4 8 8 was kept; then the template ends the turn.
    turns = [turn((1, 2), (3, 4, 8, 8)), turn((1, 2, 3, 4, 9, 5), (7,))]
    assert token_sequence(turns) == TokenSequence((1, 2, 3, 4, 9, 5, 7), ((2, 4), (6, 7)), (0, 1))


def test_a_response_of_which_nothing_was_kept() -> None:
    turns = [turn((1, 2), (3,)), turn((1, 2, 9, 5), (7,))]
    assert token_sequence(turns) == TokenSequence((1, 2, 9, 5, 7), ((4, 5),), (1,))


@pytest.mark.parametrize(
    "turns",
    [
        [],
        [turn(None, (1,))],
        [turn((1,), None)],
        # The second prompt was re-rendered.
        [turn((1, 2), (3,)), turn((1, 5, 3), (4,))],
    ],
)
def test_without_one_sequence_there_is_none(turns: list[Generation]) -> None:
    assert token_sequence(turns) is None


def test_the_mask() -> None:
    record = SequenceRecord(token_ids=(1, 2, 3, 4, 5), written=((1, 3), (4, 5)))
    assert record.response_mask == [0, 1, 1, 0, 1]


@pytest.mark.parametrize("written", [((0, 0),), ((2, 1),), ((1, 3), (2, 4)), ((0, 6),)])
def test_ranges_that_are_none(written: tuple[tuple[int, int], ...]) -> None:
    with pytest.raises(ValidationError):
        SequenceRecord(token_ids=(1, 2, 3, 4, 5), written=written)
