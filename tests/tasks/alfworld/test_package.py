"""Files read from the installed packages, which are not imported for it."""

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tasks.alfworld.engine import package
from tasks.errors import UserError


def test_tables() -> None:
    table = package.constants()
    assert table.contains["CoffeeMachine"] == {"Mug"}
    assert table.contains["SideTable"] == table.contains["DiningTable"]
    assert table.openable == {"Fridge", "Cabinet", "Microwave", "Drawer", "Safe", "Box"}
    assert table.actions["Toggleable"] == {"DeskLamp", "FloorLamp"}
    assert table.rooms["pick_clean_then_place_in_recep"] == {"Kitchen", "Bathroom"}


def test_domain_and_grammar_are_the_pinned_files() -> None:
    assert "(define (domain alfred)" in package.domain()
    assert package.grammar().count("UNKNOWN GOAL") == 1


def test_nothing_is_imported_or_created(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    script = (
        "import sys, tasks.alfworld.stream as stream, tasks.alfworld.problem as problem\n"
        "problem.problem_text(stream.training_household(0))\n"
        "print(sorted({'alfworld', 'textworld', 'fast_downward'} & {*sys.modules}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "ALFWORLD_DATA": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"
    assert not folder.exists()


def test_a_missing_package_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    with pytest.raises(UserError, match=r"alfworld 0\.4\.2.*not installed.*make install"):
        package.check_versions.__wrapped__()


def test_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"alfworld": "0.4.1"}
    monkeypatch.setattr(importlib.metadata, "version", found.__getitem__)
    with pytest.raises(UserError, match=r"alfworld 0\.4\.2, but 0\.4\.1 is installed"):
        package.check_versions.__wrapped__()


@pytest.mark.parametrize("name", sorted(package.FILES))
def test_a_changed_file_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers = {
        "data/alfred.pddl": package.domain,
        "data/alfred.twl2": package.grammar,
        "gen/constants.py": package.constants,
        "gen/goal_library.py": package.goal_sources,
    }
    copy = tmp_path / name
    copy.parent.mkdir()
    copy.write_bytes((package._folder() / name).read_bytes())
    monkeypatch.setattr(package, "_folder", lambda: tmp_path)
    assert readers[name].__wrapped__() == readers[name]()
    copy.write_bytes(copy.read_bytes() + b" ")
    with pytest.raises(UserError, match=f"{copy.name} was changed"):
        readers[name].__wrapped__()
    copy.unlink()
    with pytest.raises(UserError, match=f"cannot read .*{copy.name}"):
        readers[name].__wrapped__()
