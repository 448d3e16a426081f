"""What an installation has to hold: every file of the packages that is no module."""

import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LEFT_OUT = {"README.md", "requirements.txt", "LICENSE"}
"""What people read in the repository, and what a Space installs."""


@pytest.mark.parametrize("package", ["baselines", "benchmark", "leaderboard", "tasks"])
def test_what_is_no_module_is_installed_too(package: str) -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    patterns = declared["tool"]["setuptools"]["package-data"][package]
    listed = subprocess.run(
        ["git", "ls-files", "-z", package], cwd=ROOT, capture_output=True, text=True, check=True
    )
    # Results are what studies of this project came to, not a part of the program.
    files = [
        Path(name)
        for name in listed.stdout.split("\0")
        if name and not name.endswith(".py") and not name.startswith("baselines/results/")
    ]
    assert files
    found = {path for pattern in patterns for path in (ROOT / package).glob(pattern)}
    missing = [f for f in files if f.name not in LEFT_OUT and ROOT / f not in found]
    assert missing == []
