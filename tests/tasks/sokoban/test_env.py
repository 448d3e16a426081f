"""Rules and rewards, on boards small enough to verify by eye."""

import pytest

from tasks.sokoban.env import SokobanEnv


def board(text: str) -> list[str]:
    return text.split()


def play(rows: list[str], moves: str) -> tuple[SokobanEnv, list[float]]:
    world = SokobanEnv(rows)
    names = {"u": "up", "d": "down", "l": "left", "r": "right"}
    return world, [round(world.move(names[move]), 10) for move in moves]


def test_a_step_costs_a_tenth() -> None:
    world, rewards = play(board("##### #@_$# #__.# #####"), "d")
    assert rewards == [-0.1]
    assert world.board == tuple(board("##### #__$# #@_.# #####"))


def test_walls_block() -> None:
    world, rewards = play(board("##### #@_$# #__.# #####"), "ul")
    assert rewards == [-0.1, -0.1]
    assert world.board == tuple(board("##### #@_$# #__.# #####"))


def test_last_box_on_a_target_wins() -> None:
    world, rewards = play(board("##### #@$.# #####"), "r")
    assert rewards == [10.9]  # -0.1 + 1 + 10
    assert world.solved
    assert world.board == tuple(board("##### #_@*# #####"))


def test_one_of_two_boxes_on_a_target_is_worth_one() -> None:
    world, rewards = play(board("###### #@$._# #__$.# ######"), "r")
    assert rewards == [0.9]
    assert not world.solved


def test_a_box_pushed_off_a_target_costs_one() -> None:
    world, rewards = play(board("####### #@*_$.# #######"), "r")
    assert rewards == [-1.1]
    assert world.board == tuple(board("####### #_+$$.# #######"))


def test_boxes_do_not_move_each_other_or_through_walls() -> None:
    rows = board("####### #@$$..# #######")
    world, rewards = play(rows, "r")
    assert rewards == [-0.1]
    assert world.board == tuple(rows)
    rows = board("##### #.@$# #####")
    world, rewards = play(rows, "r")
    assert rewards == [-0.1]
    assert world.board == tuple(rows)


def test_passing_a_turn_costs_a_tenth_and_changes_nothing() -> None:
    rows = board("##### #@$.# #####")
    world = SokobanEnv(rows)
    assert world.move(None) == -0.1
    assert world.board == tuple(rows)


def test_the_player_walks_over_targets() -> None:
    world, _ = play(board("##### #@._# #_$_# #####"), "r")
    assert world.board[1] == "#_+_#"
    world.move("left")
    assert world.board[1] == "#@._#"


def test_observation() -> None:
    world = SokobanEnv(board("##### #@#$# #__.# #####"))
    assert world.observation() == (
        "#####\n#@#$#\n#__.#\n#####\nInner walls: r1c2\nTargets: r2c3\nBoxes: r1c3\nPlayer: r1c1"
    )


def test_coordinates_follow_the_board() -> None:
    world, _ = play(board("###### #_$__# #@$__# #..__# ######"), "r")
    assert "Boxes: r1c2, r2c3\nPlayer: r2c2" in world.observation()
    assert "Inner walls: none" in world.observation()


@pytest.mark.parametrize(
    "rows",
    [
        [],
        ["####", "#@$.#", "####"],
        ["#####", "#@$_#", "#####"],
        ["#####", "#_$.#", "#####"],
        ["#####", "#@_.#", "#####"],
        ["######", "#@@$.#", "######"],
        ["#####", "#@$.x", "#####"],
        ["#####", "_@$.#", "#####"],
        ["#####", "#@$.#", "##_##"],
    ],
)
def test_what_is_no_level_is_refused(rows: list[str]) -> None:
    with pytest.raises(ValueError, match="board|level"):
        SokobanEnv(rows)
