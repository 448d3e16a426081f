"""The real games: finding their files, checking their hashes, extracting their problems.

Of a game's file only the PDDL problem and the task's text are used. Domain and text grammar come
from the pinned package, so that nothing that is seen depends on the release of the data.
"""

import hashlib
import json
import os
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.alfworld.goals import GameName, parse_game_name, task_texts
from tasks.errors import UserError, os_error_as
from tasks.panels import PanelEntry
from tasks.texts import cut, digest_text

VARIABLE = "ALFWORLD_DATA"
"""Environment variable that names the folder of the data, as in the package `alfworld`."""

DOWNLOAD = "alfworld-download"
"""The package's command that fetches the data."""

_DEFAULT = Path("~/.cache/alfworld")
_RELEASE = "json_2.1.1"
_FILE = "game.tw-pddl"
_LARGEST_FILE = 4_000_000
"""Bytes of a game's file; the largest real one has about 150,000."""

_TASK = re.compile(r"Your task is to: ([^\"\n]{1,200})\.\"")
_SHOWN = 2
"""Games that a message about missing data names."""
_LONGEST_PATH = 300
_SETTING = f"give the folder that contains {_RELEASE} with ${VARIABLE} or --data alfworld=FOLDER"


@dataclass(frozen=True, slots=True)
class RealGame:
    """What a panel pins of a real game.

    Attributes:
        path: Split, task and trial, separated by `/`.
        sha256: Hash of the PDDL problem.
        text: Which of the task type's two wordings is shown; None where only the data knows it.
    """

    path: str
    sha256: str
    text: int | None

    @classmethod
    def of(cls, entry: PanelEntry) -> "RealGame":
        """Read a panel's entry."""
        data: Mapping[str, Any] = entry.data
        return cls(f"{data['split']}/{entry.id}", data["sha256"], data["text"])

    @property
    def name(self) -> GameName:
        """What its folder's name says."""
        return parse_game_name(self.path.split("/")[1])

    @property
    def texts(self) -> tuple[str, str]:
        """The two wordings of its task."""
        return task_texts(self.name.task_type, self.name.target, self.name.destination)


def is_real(entry: PanelEntry) -> bool:
    """Whether an entry is a game of the data set, not a generated household."""
    return "split" in entry.data


def folder() -> Path:
    """The folder of the data: `$ALFWORLD_DATA`, or the package's default.

    Raises:
        UserError: It begins with `~` and there is no such home folder.
    """
    named = Path(os.environ.get(VARIABLE) or _DEFAULT)
    try:
        return named.expanduser()
    except RuntimeError as error:
        raise UserError(f"${VARIABLE}: there is no home folder for {named}") from error


def file_of(game: RealGame) -> Path:
    """Where a game's file should be."""
    return folder() / _RELEASE / game.path / _FILE


def all_there(games: Iterable[RealGame]) -> bool:
    """Whether there is a file for each game; what they hold is not looked at."""
    try:
        return all(_is_there(game) for game in games)
    except UserError:
        return False


def check_games(panel: str, games: tuple[RealGame, ...]) -> None:
    """Make sure that every game of a panel is there and is the pinned one.

    Raises:
        UserError: One message that counts what is missing or different and says how to get it.
    """
    _check_folder(panel)
    missing = [game.path for game in games if not _is_there(game)]
    if missing:
        raise UserError(
            f"alfworld/{panel}: {len(missing)} of {len(games)} games are not in {folder()} "
            f"({_some(missing)}); {_how_to_get()}"
        )
    faults = []
    for game in games:
        try:
            read_game(game)
        except UserError as error:
            faults.append(str(error))
    if faults:
        raise UserError(
            f"alfworld/{panel}: {len(faults)} of {len(games)} games in {folder()} cannot be used, "
            f"the first because {faults[0]}; {_how_to_get('-f')}"
        )


def _check_folder(panel: str) -> None:
    """Tell the common mistakes apart before games are counted."""
    root = folder()
    with os_error_as(f"cannot read {cut(str(root), _LONGEST_PATH)}"):
        if root.name == _RELEASE and root.is_dir():
            raise UserError(
                f"alfworld/{panel}: {root} is inside the data folder; use {root.parent}"
            )
        if root.exists() and not root.is_dir():
            raise UserError(f"alfworld/{panel}: {root} is not a folder; {_SETTING}")
        if not root.exists():
            raise UserError(f"alfworld/{panel}: folder {root} does not exist; {_how_to_get()}")


def _is_there(game: RealGame) -> bool:
    path = file_of(game)
    with os_error_as(f"cannot read {cut(str(path.parent), _LONGEST_PATH)}"):
        return path.is_file()


def read_game(game: RealGame) -> tuple[str, str]:
    """Read a game's file and check it.

    Returns:
        The PDDL problem and the task's text.

    Raises:
        UserError: The file cannot be read, is not a game, or is another one than the panel pins.
    """
    path = file_of(game)
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise UserError(f"{path} has more than {_LARGEST_FILE} bytes: it is not a game")
        content = json.loads(path.read_bytes())
        problem, grammar = content["pddl_problem"], content["grammar"]
        if not isinstance(problem, str) or not isinstance(grammar, str):
            raise TypeError("problem and grammar must be strings")
        digest = hashlib.sha256(problem.encode()).hexdigest()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(
            f"{path} is not an ALFWorld game ({type(error).__name__}: {error})"
        ) from error
    if digest != game.sha256:
        raise UserError(
            f"{path} is a different game: its problem has SHA-256 {digest_text(digest)}, "
            f"but the panel pins {digest_text(game.sha256)}"
        )
    if game.text is not None:
        return problem, game.texts[game.text]
    found = _TASK.findall(grammar)
    if len(found) != 1 or found[0] not in game.texts:
        raise UserError(f"{path}: its task must be one of {' / '.join(map(repr, game.texts))}")
    return problem, found[0]


def _some(paths: list[str]) -> str:
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return ", ".join(paths[:_SHOWN]) + more


def _how_to_get(option: str = "") -> str:
    command = [DOWNLOAD, *([option] if option else []), "--data-dir", str(folder())]
    return f"download the games with `{shlex.join(command)}`, or {_SETTING}"
