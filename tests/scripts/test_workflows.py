"""The workflows: whose code they run, and on which input."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from leaderboard.board.build import GRACE_S

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


def test_the_judge_installs_nothing_that_a_pull_request_has_cached() -> None:
    """Its other commits could have filled the cache with their own packages."""
    (path,) = (path for path in WORKFLOWS if path.stem == "submission")
    for step in content(path)["jobs"]["check"]["steps"]:
        assert "cache" not in step.get("uses", "")
        assert "cache" not in step.get("with", {})


PLAYING = ("ci", "rerun", "space", "submission")
"""Workflows that play or replay episodes, some of which run programs."""


@pytest.mark.parametrize("name", PLAYING)
def test_who_plays_has_a_sandbox(name: str) -> None:
    (path,) = (path for path in WORKFLOWS if path.stem == name)
    (steps,) = (job["steps"] for job in content(path)["jobs"].values())
    script = "\n".join(step.get("run", "") for step in steps)
    packages, namespaces, python = (
        re.search(pattern, script, re.MULTILINE)
        for pattern in (
            r"^sudo .*scripts/system-packages$",
            r"^sudo sysctl .*kernel\.apparmor_restrict_unprivileged_userns=0$",
            r"make install$|\.ci/run$",
        )
    )
    assert packages and namespaces and python
    assert packages.start() < namespaces.start() < python.start()


def test_other_workflows_play_nothing() -> None:
    playing = re.compile(r"submit check|judge_pull_request|leaderboard build|rerun_entry|\.ci/run")
    assert {path.stem for path in WORKFLOWS if playing.search(path.read_text("utf-8"))} == {
        *PLAYING
    }


def test_no_board_is_built_without_the_sandbox() -> None:
    """Otherwise its entries would be rejected, and the board published without them."""
    (path,) = (path for path in WORKFLOWS if path.stem == "space")
    steps = content(path)["jobs"]["upload"]["steps"]
    names = [step.get("name", "") for step in steps]
    trial = steps[names.index("The sandbox works")]
    assert names.index("The sandbox works") < names.index("Build") < names.index("Upload")
    assert not {"continue-on-error", "if"} & trial.keys()
    assert not {"continue-on-error", "if"} & steps[names.index("Upload")].keys()
    command = trial["run"].replace(".venv/bin/python", shlex.quote(sys.executable))
    environment = {**os.environ, "PATH": "/nowhere"}
    bash = shutil.which("bash") or "/bin/bash"
    root = WORKFLOWS[0].parents[2]
    done = subprocess.run(
        [bash, "-e", "-c", command],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "bwrap is not installed" in done.stderr


def test_replays_are_kept_after_a_build_that_failed() -> None:
    """A key can be written only once: each attempt has its own, and starts from the last one."""
    (path,) = (path for path in WORKFLOWS if path.stem == "space")
    job = content(path)["jobs"]["upload"]
    names = [step.get("uses", "").partition("@")[0] for step in job["steps"]]
    restore = job["steps"][names.index("actions/cache/restore")]
    save = job["steps"][names.index("actions/cache/save")]
    (build,) = (step for step in job["steps"] if step.get("name") == "Build")
    assert save["if"].startswith("always()")
    assert save["with"]["path"] == restore["with"]["path"]
    assert f"--replays {save['with']['path']}" in build["run"]
    (minutes,) = re.findall(r"--replay-minutes (\d+)", build["run"])
    assert int(minutes) + GRACE_S / 60 < build["timeout-minutes"]
    assert "github.run_attempt" in save["with"]["key"]
    assert save["with"]["key"].startswith(restore["with"]["restore-keys"])
    assert build["timeout-minutes"] < job["timeout-minutes"]
    steps = job["steps"]
    assert steps.index(restore) < steps.index(build) < steps.index(save)
