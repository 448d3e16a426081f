"""For a prompt that cannot be filled in, the one-line error names the file."""

from pathlib import Path

import pytest

from tasks.errors import UserError
from tasks.prompts import PROMPT, read_prompt
from tasks.sokoban.task import SokobanTask


def task_with(folder: Path, prompt: str) -> SokobanTask:
    (folder / PROMPT).write_text(prompt, "utf-8")

    class Own(SokobanTask):
        pass

    Own.folder = folder
    return Own()


def test_a_name_that_is_not_there(tmp_path: Path) -> None:
    task = task_with(tmp_path, "Turn {{ turn }}: {{ bord }}")
    entry = SokobanTask().panel("builtin").entries[0]
    with pytest.raises(UserError, match=r"prompt\.md: 'bord' is undefined; there are admissible, "):
        task.episode(entry, 15).reset()


def test_what_is_not_a_template(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"prompt\.md, line 2: unexpected '}'"):
        task_with(tmp_path, "Turn\n{{ turn }\n")
    with pytest.raises(UserError, match=r"nowhere/prompt\.md cannot be read: .*No such file"):
        read_prompt(tmp_path / "nowhere")
