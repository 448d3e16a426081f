"""Finds the real games, and reports problems with them."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from tasks.alfworld.games import RealGame, check_games, file_of, folder, read_game
from tasks.alfworld.problem import problem_text
from tasks.alfworld.stream import PANELS, training_household
from tasks.alfworld.task import AlfworldTask
from tasks.chat.messages import text_of
from tasks.errors import UserError
from tasks.panels import PanelEntry, read_panel
from tests.tasks.alfworld.data import data_folder

TASK = AlfworldTask()
PATH = "valid_seen/pick_and_place_simple-Book-None-SideTable-329/trial_T1"
TEXT = "put a book in sidetable"


@pytest.fixture
def problem() -> str:
    return problem_text(training_household(0))


@pytest.fixture
def game(problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RealGame:
    """A pinned game with a valid file."""
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    pinned = RealGame(PATH, hashlib.sha256(problem.encode()).hexdigest(), None)
    _write(pinned, {"pddl_problem": problem, "grammar": f'"Your task is to: {TEXT}."'})
    return pinned


def _write(game: RealGame, content: object) -> Path:
    path = file_of(game)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return path


def test_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALFWORLD_DATA", "/somewhere")
    assert folder() == Path("/somewhere")
    monkeypatch.delenv("ALFWORLD_DATA")
    assert folder() == Path("~/.cache/alfworld").expanduser()


def test_a_game(game: RealGame, problem: str) -> None:
    assert read_game(game) == (problem, TEXT)
    check_games("valid_seen", (game,))


def test_a_pinned_wording_needs_no_grammar_of_the_release(game: RealGame, problem: str) -> None:
    pinned = RealGame(game.path, game.sha256, 1)
    assert read_game(pinned) == (problem, "put some book on sidetable")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "is not an ALFWorld game .JSONDecodeError"),
        ("\x00\x01", "is not an ALFWorld game .JSONDecodeError"),
        ("[" * 100_000, "is not an ALFWorld game .(JSONDecodeError|RecursionError)"),
        ([], "is not an ALFWorld game .TypeError"),
        ({"grammar": ""}, "is not an ALFWorld game .KeyError: 'pddl_problem'"),
        ({"grammar": "", "pddl_problem": 5}, "problem and grammar must be strings"),
        ({"grammar": "", "pddl_problem": "\ud800"}, "is not an ALFWorld game .UnicodeEncodeError"),
        (
            {"grammar": "", "pddl_problem": "(define"},
            "is a different game: its problem has SHA-256",
        ),
        ("x" * 4_000_001, "has more than 4000000 bytes"),
    ],
)
def test_files_that_are_not_the_game(game: RealGame, content: object, reason: str) -> None:
    path = _write(game, content)
    with pytest.raises(UserError, match=f"{path}.*{reason}"):
        read_game(game)


@pytest.mark.parametrize(
    "grammar",
    ["", '"Your task is to: eat a book."', f'"Your task is to: {TEXT}."' * 2],
)
def test_a_task_that_is_none_of_the_two(game: RealGame, problem: str, grammar: str) -> None:
    _write(game, {"pddl_problem": problem, "grammar": grammar})
    with pytest.raises(UserError, match="must be one of 'put a book in sidetable' / 'put some"):
        read_game(game)


def test_bytes_that_are_no_text(game: RealGame) -> None:
    file_of(game).write_bytes(b"\xff\xfe\xff")
    with pytest.raises(UserError, match="is not an ALFWorld game"):
        read_game(game)


def test_missing_games_are_counted(game: RealGame) -> None:
    others = tuple(RealGame(f"{PATH}{number}", game.sha256, None) for number in range(3))
    with pytest.raises(UserError) as caught:
        check_games("valid_seen", (game, *others))
    message = str(caught.value)
    assert message.startswith("alfworld/valid_seen: 3 of 4 games are not in ")
    assert f"{PATH}0, {PATH}1 and 1 more" in message
    assert f"alfworld-download --data-dir {folder()}" in message
    assert "$ALFWORLD_DATA" in message
    assert "\n" not in message


def test_different_games_are_counted(game: RealGame) -> None:
    changed = RealGame(game.path, "0" * 64, None)
    with pytest.raises(
        UserError, match=r"1 of 2 games in .* cannot be used, the first .*-f --data-dir"
    ):
        check_games("valid_seen", (game, changed))


def test_a_folder_without_games(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    assert not TASK.available("valid_seen")
    assert TASK.available("builtin")
    with pytest.raises(UserError, match="140 of 140 games are not in"):
        TASK.panel("valid_seen")


def test_who_names_incomplete_data_is_told_and_plays_no_other_panel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    assert TASK.default_panel() == "valid_seen"
    monkeypatch.setenv("ALFWORLD_DATA", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert TASK.default_panel() == "builtin"
    monkeypatch.delenv("ALFWORLD_DATA")
    assert TASK.default_panel() == "builtin"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nothing", "folder .*nothing does not exist; download the games with"),
        ("file", "file is not a folder; give the folder that contains json_2.1.1"),
        ("json_2.1.1", "json_2.1.1 is inside the data folder; use "),
        ("x" * 5_000, "cannot read .*: File name too long"),
    ],
)
def test_folders_that_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, reason: str
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "json_2.1.1").mkdir()
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path / name))
    assert not TASK.available("valid_seen")
    with pytest.raises(UserError, match=reason) as caught:
        TASK.panel("valid_seen")
    assert len(str(caught.value)) < 800
    assert not (tmp_path / "nothing").exists()


def test_a_home_folder_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALFWORLD_DATA", "~nobody-of-this-name/x")
    assert not TASK.available("valid_seen")
    with pytest.raises(UserError, match="there is no home folder"):
        TASK.panel("valid_seen")


def test_a_problem_that_the_domain_rejects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: str
) -> None:
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    bad = problem.replace("(atLocation agent1", "(flies agent1")
    assert bad != problem
    data = {"split": "valid_seen", "sha256": hashlib.sha256(bad.encode()).hexdigest(), "text": 0}
    entry = PanelEntry(PATH.removeprefix("valid_seen/"), "", data)
    _write(RealGame.of(entry), {"pddl_problem": bad, "grammar": ""})
    with pytest.raises(
        UserError, match="the domain rejects the problem: .*unknown predicate 'flies'"
    ):
        TASK.episode(entry, 50).reset()


def test_the_real_panels_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = data_folder()
    assert TASK.default_panel() == "valid_seen"
    for name, episodes in (("valid_seen", 140), ("valid_unseen", 134)):
        assert len(TASK.panel(name).entries) == episodes
    partial = tmp_path / "json_2.1.1"
    shutil.copytree(real / "json_2.1.1" / "valid_unseen", partial / "valid_unseen")
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    assert len(TASK.panel("valid_unseen").entries) == 134
    gone = sorted((partial / "valid_unseen").glob("*/*"))[7]
    shutil.rmtree(gone)
    with pytest.raises(UserError, match=f"1 of 134 games are not in .*{gone.name}"):
        TASK.panel("valid_unseen")


def test_training_games_of_the_data_set_take_their_task_from_the_data() -> None:
    root = data_folder() / "json_2.1.1" / "train"
    entries = {
        entry.id: entry
        for entry in read_panel("alfworld", PANELS, "train").entries
        if (root / entry.id).is_dir()
    }
    assert entries
    entry = entries[min(entries)]
    view = TASK.episode(entry, 50).reset()
    assert any(f"Task: {text}.\n" in text_of(view.messages[0]) for text in RealGame.of(entry).texts)
