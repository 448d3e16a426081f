"""The frozen panels and the training stream."""

import hashlib
import json
import shutil
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.errors import UserError
from tasks.panels import read_panel
from tasks.sokoban import make_panels
from tasks.sokoban.env import SokobanEnv
from tasks.sokoban.solver import Room, distances, state_of
from tasks.sokoban.symmetry import level_key, room_key, symmetries
from tasks.sokoban.task import SokobanTask

TASK = SokobanTask()
PANELS = TASK.folder / "panels"


def test_builtin_is_spread_evenly() -> None:
    panel = TASK.panel("builtin")
    counts = Counter(entry.data["optimal_length"] for entry in panel.entries)
    assert len(panel.entries) == 256
    assert sorted(counts) == list(range(3, 15))
    assert set(counts.values()) == {21, 22}
    assert {(len(e.data["board"]), len(e.data["board"][0])) for e in panel.entries} == {(6, 6)}
    assert panel.info.max_turns == 15


def test_two_boxes() -> None:
    panel = TASK.panel("two_boxes")
    assert len(panel.entries) == 128
    assert {len(entry.data["board"]) for entry in panel.entries} == {7, 8}
    assert {"".join(entry.data["board"]).count("$") for entry in panel.entries} == {2}
    assert panel.info.max_turns == 40


@pytest.mark.parametrize("name", ["builtin", "two_boxes"])
def test_lengths_are_exact_and_levels_distinct(name: str) -> None:
    panel = TASK.panel(name)
    for entry in panel.entries:
        board = entry.data["board"]
        assert not SokobanEnv(board).solved
        assert distances(Room.of(board))[state_of(board)] == entry.data["optimal_length"]
        assert entry.category == str(entry.data["optimal_length"])
    assert len({room_key(entry.data["board"]) for entry in panel.entries}) == len(panel.entries)


@pytest.mark.slow
def test_the_files_come_out_the_same_again(tmp_path: Path) -> None:
    make_panels.write_panels(tmp_path)
    for file in PANELS.iterdir():
        assert (tmp_path / file.name).read_bytes() == file.read_bytes()


def test_a_changed_panel_is_refused(tmp_path: Path) -> None:
    shutil.copytree(PANELS, tmp_path / "panels")
    file = tmp_path / "panels" / "builtin.jsonl"
    file.write_text(file.read_text().replace("one-box-000", "one-box-999"))
    with pytest.raises(UserError, match="builtin was changed"):
        read_panel("sokoban", tmp_path / "panels", "builtin")


def test_an_unknown_panel_names_the_near_ones() -> None:
    with pytest.raises(UserError, match="did you mean builtin"):
        TASK.panel("bultin")


@pytest.mark.slow
def test_training_never_shares_a_room_with_a_panel() -> None:
    panels = [entry.data["board"] for n in TASK.panels() for entry in TASK.panel(n).entries]
    rooms, levels = {room_key(b) for b in panels}, {level_key(b) for b in panels}
    for stream in range(4):
        for index in range(500):
            entry = TASK.training_entry(index, stream)
            board = entry.data["board"]
            assert level_key(board) not in levels
            assert room_key(board) not in rooms
            assert distances(Room.of(board))[state_of(board)] == entry.data["optimal_length"]


def test_the_training_stream_is_the_same_everywhere() -> None:
    entries = [TASK.training_entry(i, seed).data for seed in (0, 1) for i in range(50)]
    digest = hashlib.sha256(json.dumps(entries, sort_keys=True).encode()).hexdigest()
    assert digest == "cdc0c2b49811be76770bb9ccfc08b0e9210bb5fbe41c85a7a19716744d0c82c9"
    assert TASK.training_entry(3, 0) != TASK.training_entry(3, 1)


def test_a_panel_level_is_kept_out_even_if_it_is_generated(monkeypatch: pytest.MonkeyPatch) -> None:
    generated = TASK.training_entry(11)
    image = list(symmetries(generated.data["board"]))[5]
    monkeypatch.setattr(TASK, "panel_problems", lambda: frozenset({room_key(image)}))
    assert TASK.training_entry(11) != generated


def test_symmetries_of_a_board_without_any() -> None:
    images = set(symmetries(("###", "#@#", "#$.")))
    assert len(images) == 8
    assert ("###", "#@#", ".$#") in images
    assert ("#$.", "#@#", "###") in images


@given(st.integers(0, 10_000), st.integers(0, 7))
def test_keys_do_not_see_rotations_and_reflections(index: int, image: int) -> None:
    board = TASK.training_entry(index).data["board"]
    turned = list(symmetries(board))[image]
    assert level_key(turned) == level_key(board)
    assert room_key(turned) == room_key(board)


def test_keys_see_everything_else() -> None:
    board = ["#####", "#@$.#", "#___#", "#####"]
    moved = ["#####", "#_$.#", "#@__#", "#####"]
    walled = ["#####", "#@$.#", "#_#_#", "#####"]
    assert level_key(board) != level_key(moved)
    assert room_key(board) == room_key(moved)
    assert room_key(board) != room_key(walled)
