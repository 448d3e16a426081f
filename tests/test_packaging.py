"""The contents of an installation: every file of the packages that is not a module."""

import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("baselines", "benchmark", "leaderboard", "tasks")
LEFT_OUT = {"README.md", "requirements.txt", "LICENSE"}
"""Documents to read in the repository, and the requirements of a Space."""


def declared(table: str) -> dict[str, list[str]]:
    """Patterns for files in `pyproject.toml`, by package."""
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    patterns: dict[str, list[str]] = whole["tool"]["setuptools"][table]
    return patterns


def test_of_the_results_only_learning_rates_are_installed() -> None:
    installed, left_out = (
        {
            path
            for pattern in declared(table)["baselines"]
            for path in (ROOT / "baselines").glob(pattern)
        }
        for table in ("package-data", "exclude-package-data")
    )
    results = {path for path in installed - left_out if "results" in path.parts}
    assert results == set((ROOT / "baselines" / "results").glob("*/rates.yaml")) != set()


def test_every_folder_with_modules_is_a_package() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    folders = {Path(name).parent for name in listed.stdout.split("\0") if name}
    ours = {f for f in folders if f.parts[:1] in {(package,) for package in PACKAGES}}
    assert len(ours) > 50
    assert [str(f) for f in sorted(ours) if not (ROOT / f / "__init__.py").exists()] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_what_is_no_module_is_installed_too(package: str) -> None:
    patterns = declared("package-data")[package]
    listed = subprocess.run(
        ["git", "ls-files", "-z", package], cwd=ROOT, capture_output=True, text=True, check=True
    )
    # Results come from this project's studies and are not part of the program.
    files = [
        Path(name)
        for name in listed.stdout.split("\0")
        if name and not name.endswith(".py") and not name.startswith("baselines/results/")
    ]
    assert files
    found = {path for pattern in patterns for path in (ROOT / package).glob(pattern)}
    missing = [f for f in files if f.name not in LEFT_OUT and ROOT / f not in found]
    assert missing == []
