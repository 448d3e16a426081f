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
        assert re.fullmatch(r"actions/[a-z-]+(/[a-z]+)?@[0-9a-f]{40}", name), name


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_reads_unless_it_says_what_it_writes(path: Path) -> None:
    rights = content(path)["permissions"]
    assert rights["contents"] == "read"
    assert "write-all" not in path.read_text("utf-8")


def test_submissions_are_judged_for_the_default_branch_alone() -> None:
    (path,) = (path for path in WORKFLOWS if path.stem == "submission")
    # YAML 1.1 reads the key `on` as true.
    assert content(path)[True]["pull_request"]["branches"] == ["main"]


def test_replays_are_kept_after_a_build_that_failed() -> None:
    """A key is written once: each attempt has one of its own, and begins with the last."""
    (path,) = (path for path in WORKFLOWS if path.stem == "space")
    job = content(path)["jobs"]["upload"]
    names = [step.get("uses", "").partition("@")[0] for step in job["steps"]]
    restore = job["steps"][names.index("actions/cache/restore")]
    save = job["steps"][names.index("actions/cache/save")]
    (build,) = (step for step in job["steps"] if step.get("name") == "Build")
    assert save["if"].startswith("always()")
    assert save["with"]["path"] == restore["with"]["path"]
    assert f"--replays {save['with']['path']}" in build["run"]
    assert "github.run_attempt" in save["with"]["key"]
    assert save["with"]["key"].startswith(restore["with"]["restore-keys"])
    assert build["timeout-minutes"] < job["timeout-minutes"]
    steps = job["steps"]
    assert steps.index(restore) < steps.index(build) < steps.index(save)
