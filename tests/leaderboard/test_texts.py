"""Texts that the page tells people to type: existing commands, and a file that is accepted."""

import re
import shlex
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest
import yaml

from benchmark.cli.main import command_line
from leaderboard.app import FOLDER, text_of_tab
from leaderboard.board.board import Board
from tests.leaderboard.conftest import Boards

TEXT = (FOLDER / "texts" / "submit.md").read_text("utf-8")
README = (FOLDER.parent / "submissions" / "README.md").read_text("utf-8")


def blocks(text: str, language: str = "") -> list[str]:
    found = re.findall(rf"^( *)```{language}\n(.*?)^\1```", text, re.DOTALL | re.MULTILINE)
    return [dedent(content) for _, content in found]


def commands() -> list[list[str]]:
    *steps, _ = blocks(TEXT)
    text = "".join(steps).replace("\\\n", " ")
    return [shlex.split(each)[1:] for each in text.splitlines() if each.strip()]


def test_the_commands_are_understood() -> None:
    parsed = [command_line().parse_args(each) for each in commands()]
    *evaluations, init, prepare, check = parsed
    assert [each.out for each in evaluations] == init.run == prepare.run
    assert init.training_log == prepare.training_log and init.out == prepare.about
    assert len(prepare.training_log) == len(evaluations) == 2
    assert prepare.out == check.folder
    assert check.base == "origin/main"
    # The evaluated checkpoint is the last one, next to the log that is submitted.
    assert [str(Path(each.model).parent) for each in evaluations] == [
        str(log) for log in prepare.training_log
    ]
    assert {Path(each.model).name for each in evaluations} == {"last"}


def test_about_is_explained_as_in_the_rules() -> None:
    # No language, because Gradio's colors for YAML are too pale to read.
    *_, own = blocks(TEXT)
    assert yaml.safe_load(own) == yaml.safe_load(blocks(README, "yaml")[0])
    assert "not `best/`" in TEXT


@pytest.mark.parametrize("name", ["about", "submit"])
def test_files_of_the_repository_are_there_and_lead_there(name: str, boards: Boards) -> None:
    board = boards()
    assert "](https" not in text_of_tab(board, name)
    facts = replace(board.facts, repository="https://example.org/r", commit="abc")
    shown = text_of_tab(Board(facts, board._table), name)
    links = re.findall(r"\[`([^`]+)`\]\(https://example\.org/r/blob/abc/([^)]+)\)", shown)
    assert len(links) > 1
    for path, where in links:
        assert path == where and (FOLDER.parent / path).is_file()
