"""Exact lengths: the reverse search compared with an independent forward search."""

from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.sokoban.env import DIRECTIONS, SokobanEnv
from tasks.sokoban.expert import Expert
from tasks.sokoban.solver import Room, after, distances, state_of
from tasks.sokoban.task import SokobanTask

TASK = SokobanTask()


def forward_length(board: tuple[str, ...]) -> int | None:
    """Shortest solution by breadth-first search in the environment itself."""
    queue, seen = deque([(board, 0)]), {board}
    while queue:
        rows, length = queue.popleft()
        if SokobanEnv(rows).solved:
            return length
        for direction in DIRECTIONS:
            world = SokobanEnv(rows)
            world.move(direction)
            if world.board not in seen:
                seen.add(world.board)
                queue.append((world.board, length + 1))
    return None


def test_lengths_counted_by_hand() -> None:
    board: tuple[str, ...] = ("######", "#@$_.#", "######")
    assert distances(Room.of(board))[state_of(board)] == 2
    board = ("######", "#.$_@#", "######")
    assert distances(Room.of(board))[state_of(board)] == 2
    # The box is in a corner: no solution.
    board = ("#####", "#$_.#", "#_@_#", "#####")
    assert state_of(board) not in distances(Room.of(board))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 100_000))
def test_reverse_play_agrees_with_forward_play(index: int) -> None:
    board = tuple(TASK.training_entry(index).data["board"])
    room = Room.of(board)
    lengths = distances(room)
    states = sorted(lengths)
    for state in [state_of(board), states[index % len(states)]]:
        assert forward_length(room.board(state)) == lengths[state]


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 100_000), st.lists(st.sampled_from(DIRECTIONS), max_size=30))
def test_the_solver_moves_as_the_world_does(index: int, moves: list[str]) -> None:
    board = tuple(TASK.training_entry(index).data["board"])
    world, room, state = SokobanEnv(board), Room.of(board), state_of(board)
    for move in moves:
        world.move(move)
        state = after(room, state, move)
        assert room.board(state) == world.board


def test_the_expert_needs_exactly_the_optimal_length() -> None:
    for name in TASK.panels():
        panel = TASK.panel(name)
        for entry in panel.entries[::16]:
            world, moves = SokobanEnv(entry.data["board"]), 0
            expert = Expert(world.board)
            while not world.solved:
                world.move(expert.turn(world.board)[1])
                moves += 1
            assert moves == entry.data["optimal_length"]


@pytest.mark.parametrize(
    ("board", "thought", "action"),
    [
        (("######", "#@$_.#", "######"), "Push right from r1c1, so go right", "right"),
        (
            ("#####", "#_@_#", "#.$_#", "#___#", "#####"),
            "Push left from r2c3, so go right",
            "right",
        ),
        (("#####", "#$_.#", "#_@_#", "#####"), "No solution is left", "up"),
    ],
)
def test_the_expert_says_what_it_does(board: tuple[str, ...], thought: str, action: str) -> None:
    assert Expert(board).turn(board) == (thought, action)
