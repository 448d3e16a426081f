"""The first process to ask makes the folder, completely or not at all."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.once import made_once


def test_the_first_to_ask_makes_it(tmp_path_factory: pytest.TempPathFactory) -> None:
    made: list[Path] = []

    def make(folder: Path) -> None:
        made.append(folder)
        (folder / "one").touch()

    with ThreadPoolExecutor(4) as pool:
        folders = set(pool.map(lambda _: made_once(tmp_path_factory, "dear", make), range(8)))
    (folder,) = folders
    assert len(made) == 1
    assert [path.name for path in folder.iterdir()] == ["one"]


def test_a_failure_is_no_result(tmp_path_factory: pytest.TempPathFactory) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        made_once(tmp_path_factory, "broken", fail)
    folder = made_once(tmp_path_factory, "broken", lambda folder: (folder / "whole").touch())
    assert [path.name for path in folder.iterdir()] == ["whole"]
