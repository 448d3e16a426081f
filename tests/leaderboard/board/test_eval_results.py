"""Results for model pages on the hub."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from huggingface_hub import parse_eval_result_entries

from benchmark.cli.main import main
from leaderboard.board.eval_results import Source, result_files, write_files
from leaderboard.board.file import BoardContent
from leaderboard.board.rows import FullRow, Model
from tasks.errors import UserError
from tests.leaderboard.conftest import ALFWORLD, SOKOBAN, first
from tests.support.board_rows import board_content, board_row

SOURCE = Source("arl/bench", "https://example.org/board")
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def hub_row(entry: str, *names: str) -> FullRow:
    """An entry whose checkpoints, which solve 40, 41, ... of 100, have these names on the hub."""
    solved = [first(40 + number) for number in range(len(names))]
    row = board_row(entry, {SOKOBAN: solved, ALFWORLD: [first(10)] * len(names)})
    points = (
        replace(point, model=Model(name, "hub", COMMIT, None))
        for point, name in zip(row.checkpoints, names, strict=True)
    )
    return replace(row, checkpoints=tuple(points))


def content_of(*rows: FullRow) -> BoardContent:
    return board_content(rows, ALFWORLD, SOKOBAN)


def test_a_round_trip_through_the_hubs_own_reader(tmp_path: Path) -> None:
    files, odd = result_files(content_of(hub_row("20260102_a", "ada/grpo-s0")), SOURCE)
    assert odd == []
    write_files(files, tmp_path)
    path = tmp_path / "ada/grpo-s0/.eval_results/20260102_a.yaml"
    assert [found for found in tmp_path.rglob("*") if found.is_file()] == [path]
    raw = yaml.safe_load(path.read_text("utf-8"))
    entry, other = parse_eval_result_entries(raw)
    assert (entry.dataset_id, entry.task_id, entry.value) == ("arl/bench", "sokoban_builtin", 40.0)
    assert (other.task_id, other.value) == ("alfworld_builtin", 10.0)
    assert (entry.date, entry.source_url) == ("2026-01-02", "https://example.org/board")
    assert entry.source_name == "arlarena-bench: 20260102_a"
    assert (entry.verify_token, entry.dataset_revision) == (None, None)
    assert entry.notes == (
        "success rate in percent, 95% interval 30.9 to 49.8 over 100 episodes; protocol v1 "
        f"({SOKOBAN.fingerprint[:12]}); weights at commit {COMMIT}; training seed 0; every episode "
        "was replayed"
    )
    assert {item["evaluation_framework"] for item in raw} == {"arlarena-bench"}


def test_every_checkpoint_has_its_own_success() -> None:
    files, _ = result_files(content_of(hub_row("20260102_a", "ada/s0", "ada/s1")), SOURCE)
    values = {path.parts[1]: yaml.safe_load(content)[0]["value"] for path, content in files.items()}
    assert values == {"s0": 40.0, "s1": 41.0}


def test_two_commits_of_one_repository_share_a_file() -> None:
    files, _ = result_files(content_of(hub_row("20260102_a", "ada/grpo", "ada/grpo")), SOURCE)
    ((path, content),) = files.items()
    assert path == Path("ada/grpo/.eval_results/20260102_a.yaml")
    assert [item["value"] for item in yaml.safe_load(content)] == [40.0, 10.0, 41.0, 10.0]


def test_without_an_address_there_is_no_source() -> None:
    files, _ = result_files(content_of(hub_row("20260102_a", "ada/grpo")), Source("arl/bench"))
    assert "source" not in yaml.safe_load(next(iter(files.values())))[0]


def test_an_init_that_lives_on_the_hub() -> None:
    row = board_row("20260102_init", {SOKOBAN: [first(5)]}, kind="init", init=None)
    point = replace(row.checkpoints[0], model=Model("cloned", "init", COMMIT, None))
    content = content_of(replace(row, checkpoints=(point,)))
    files, _ = result_files(content, replace(SOURCE, hubs={"cloned": "ada/rft"}))
    assert list(files) == [Path("ada/rft/.eval_results/20260102_init.yaml")]
    assert result_files(content, SOURCE) == ({}, [])


def test_who_has_no_file() -> None:
    folder = board_row("20260101_folder", {SOKOBAN: [first(5)]})
    older = replace(hub_row("20260102_old", "ada/old"), protocol="v0")
    unproven = hub_row("20260103_unproven", "ada/unproven")
    unproven = replace(unproven, badges=replace(unproven.badges, replayed=False))
    assert result_files(content_of(folder, older, unproven), SOURCE) == ({}, [])


@pytest.mark.parametrize(
    "name",
    [
        "a/..",
        "../a",
        "a/../../b",
        "a",
        "a/b/c",
        "/etc/x",
        "a//b",
        ".a/b",
        "a/b--c",
        "a/" + "b" * 97,
    ],
)
def test_names_that_lead_elsewhere(name: str) -> None:
    files, odd = result_files(content_of(hub_row("20260102_a", name)), SOURCE)
    assert files == {}
    assert odd == [f"20260102_a: {name} is not a repository on the hub"]
    with pytest.raises(UserError, match="not a dataset on the hub"):
        result_files(content_of(), Source(name))


def test_texts_of_entries_cannot_add_fields() -> None:
    row = hub_row("20260102_a", "ada/grpo")
    files, _ = result_files(content_of(replace(row, date="x\nverifyToken: y")), SOURCE)
    (content,) = files.values()
    assert all("verifyToken" not in item for item in yaml.safe_load(content))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--eval-results", "out"], "--eval-results needs --dataset OWNER/NAME"),
        (["--dataset", "a/b"], "--dataset and --source need --eval-results"),
        (
            ["--eval-results", "out", "--dataset", "a/b", "--source", "javascript:x"],
            "--source javascript:x: not a plain https address",
        ),
    ],
)
def test_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    # Reported before anything is searched for.
    command = ["leaderboard", "build", "--submissions", str(tmp_path / "none"), *options]
    assert main(command) == 2
    assert message in capsys.readouterr().err


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "ada").touch()
    with pytest.raises(UserError, match=r"ada/grpo/.*a\.yaml cannot be written"):
        write_files({Path("ada/grpo/a.yaml"): b""}, tmp_path)


@pytest.mark.slow
def test_the_command_writes_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "submissions").mkdir()
    options = ["--submissions", str(tmp_path / "submissions"), "--out", str(tmp_path / "board")]
    hub = ["--eval-results", str(tmp_path / "results"), "--dataset", "arl/bench"]
    assert main(["leaderboard", "build", *options, *hub]) == 0
    assert f"0 files for models on the hub: {tmp_path / 'results'}" in capsys.readouterr().out
