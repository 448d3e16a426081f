"""The workflows: whose code runs, and on what."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

WORKFLOWS = sorted((Path(__file__).parents[2] / ".github" / "workflows").glob("*.yml"))


def content(path: Path) -> dict[Any, Any]:
    found: dict[Any, Any] = yaml.safe_load(path.read_text("utf-8"))
    return found


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_named_by_their_commit(path: Path) -> None:
    """A tag can be moved, and a branch moves."""
    jobs = content(path)["jobs"].values()
    used = [step["uses"] for job in jobs for step in job["steps"] if "uses" in step]
    assert used
    for name in used:
        assert re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", name), name


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_reads_unless_it_says_what_it_writes(path: Path) -> None:
    rights = content(path)["permissions"]
    assert rights["contents"] == "read"
    assert "write-all" not in path.read_text("utf-8")


def test_submissions_are_judged_for_the_default_branch_alone() -> None:
    (path,) = (path for path in WORKFLOWS if path.stem == "submission")
    # YAML 1.1 reads the key `on` as true.
    assert content(path)[True]["pull_request"]["branches"] == ["main"]
