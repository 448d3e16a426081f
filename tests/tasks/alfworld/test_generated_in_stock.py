"""Generated households load in the unmodified engine, read like real games, and can be won."""

import random
import re

import pytest

from tasks.alfworld.generator import generate
from tasks.alfworld.goals import TASK_TYPES, task_texts
from tasks.alfworld.household import displayed_names
from tasks.alfworld.problem import problem_text
from tasks.alfworld.rooms import rooms_of
from tests.tasks.alfworld.stock import stock_engine

OPENING = re.compile(
    r"-= Welcome to TextWorld, ALFRED! =-\n\n"
    r"You are in the middle of a room\. Looking quickly around you, you see (.*)\.\n\n"
    r"Your task is to: (.*)\."
)


@pytest.mark.usefixtures("kept_parses")
@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_the_walkthrough_wins(task_type: str, number: int) -> None:
    room = rooms_of(task_type)[-1 - number :][0]
    household = generate(task_type, room, random.Random(number))
    text = task_texts(task_type, household.target, household.destination)[household.text]
    engine = stock_engine(problem_text(household), text)
    state = engine.reset()

    opening = OPENING.fullmatch(state.feedback)
    assert opening is not None, state.feedback
    names = displayed_names(household)
    listed = re.sub(r"(^|, and |, )a ", r"\1", opening[1])
    assert sorted(re.split(r", and |, ", listed)) == sorted(
        names[item.id] for item in household.receptacles
    )
    assert opening[2] == text
    assert not state.won
    assert {"look", "inventory", "help"} <= set(state.admissible_commands)

    for position, command in enumerate(household.walkthrough, 1):
        assert command in state.admissible_commands
        state, score, done = engine.step(command)
        assert state.feedback != "Nothing happens."
        assert state.won == done == (score == 1) == (position == len(household.walkthrough))
