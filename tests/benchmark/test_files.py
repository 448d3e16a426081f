"""Messages about errors while writing a folder."""

import errno
import os
from pathlib import Path

import pytest

from benchmark.files import os_error_text


def error(number: int, name: object = None) -> OSError:
    return OSError(number, os.strerror(number), name)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (error(errno.ENOSPC), "runs/x cannot be written: No space left on device"),
        (error(errno.EACCES, "runs/x/last/a"), "runs/x cannot be written: Permission denied"),
        (error(errno.EACCES, Path("runs").absolute()), "runs/x cannot be written: Permission"),
        (error(errno.ENOTDIR, "runs/x"), "runs/x cannot be written: Not a directory"),
        (error(errno.ENOENT, "/data/games/index"), "/data/games/index: No such file or directory"),
        (error(errno.EACCES, "runs/xy"), "runs/xy: Permission denied"),
        (error(errno.EACCES, b"/data/games"), "/data/games: Permission denied"),
        (error(errno.EMFILE, 7), "Too many open files"),
        (TimeoutError(), "TimeoutError"),
        (error(errno.ENOMEM), "Cannot allocate memory"),
        (OSError("a library's words"), "a library's words"),
    ],
)
def test_only_what_concerns_the_folder_is_said_of_it(found: OSError, text: str) -> None:
    assert os_error_text(found, Path("runs/x")).startswith(text)


def test_a_folder_beside_the_current_one_is_named_as_it_was_given() -> None:
    folder = Path("../elsewhere/run")
    found = error(errno.EACCES, str(folder.resolve() / ".x.tmp"))
    assert os_error_text(found, folder) == "../elsewhere/run cannot be written: Permission denied"
